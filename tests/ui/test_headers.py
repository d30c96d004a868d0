"""Every answer forbids what no page of the app needs."""

import re

from mha_viz.ui.server import headers


def test_scripts_are_files_of_the_server_its_blobs_and_the_one_in_its_page():
    directives = dict(part.split(" ", 1) for part in headers.policy().split("; "))
    allowed = directives["script-src"].split()
    assert {"'self'", "blob:"} < set(allowed)
    assert all(
        re.fullmatch(r"'sha256-[\w+/]{43}='", one) for one in set(allowed) - {"'self'", "blob:"}
    )
    assert "unsafe-eval" not in headers.policy() and "*" not in headers.policy()
    assert directives["object-src"] == "'none'" and directives["frame-ancestors"] == "'self'"


def test_a_frame_is_allowed_where_an_operator_names_its_page():
    found = headers.headers(("https://huggingface.co", "https://*.example.org"))
    ancestors = "frame-ancestors 'self' https://huggingface.co https://*.example.org"
    assert found["Content-Security-Policy"].endswith(ancestors)
    assert "X-Frame-Options" not in found  # it knows no other hosts
    assert headers.headers()["X-Frame-Options"] == "SAMEORIGIN"
