"""Every answer forbids what no page of the app needs."""

import http.client
import re

import pytest

from mha_viz.ui.server import headers
from tests.ui.serving import serving

ALWAYS = ("content-security-policy", "referrer-policy", "x-content-type-options")


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


@pytest.mark.slow
def test_pages_files_refusals_and_the_server_s_own_words_have_them_all(tmp_path):
    with serving(tmp_path) as port:
        page = answer(port, "/")
        script = re.search(r'src="\.(/static/js/index[^"]+)"', page[2]).group(1)
        for found in (
            page,
            answer(port, script),
            answer(port, "/_stcore/health"),
            answer(port, "/healthz"),
            answer(port, "/no-such-page"),
            answer(port, "/", host="evil.example"),
        ):
            assert found[1].keys() >= set(ALWAYS), found[:2]
        assert answer(port, "/", host="evil.example")[0] == 403


def answer(port: int, path: str, host: str = "") -> tuple[int, dict[str, str], str]:
    """Status, headers by their names in small letters, and the text of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    try:
        connection.request("GET", path, headers={"Host": host} if host else {})
        found = connection.getresponse()
        body = found.read().decode(errors="replace")
        return found.status, {name.lower(): value for name, value in found.getheaders()}, body
    finally:
        connection.close()
