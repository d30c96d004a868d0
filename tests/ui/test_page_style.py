"""Answers of a real server: each page has its style, and every answer its headers."""

import gzip
import http.client
import re

import pytest
from starlette.responses import HTMLResponse
from starlette.testclient import TestClient

from mha_viz.ui.server.page_style import PROGRESS_BAR, STYLE, PageStyle
from tests.ui.serving import serving

ALWAYS = ("content-security-policy", "referrer-policy", "x-content-type-options")
HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8", "Accept-Encoding": "gzip"}


@pytest.fixture(scope="module")
def get(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("page_style")) as port:

        def ask(path: str, method: str = "GET", **headers: str):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            body = answer.read()
            connection.close()
            return answer, body

        yield ask


@pytest.mark.parametrize("path", ["/media/export.html", "/some/page"])
def test_a_document_that_is_not_streamlits_page_is_passed_on(path):
    """A downloaded export is a document of its own, also where a browser opens it as a page."""
    app = PageStyle(HTMLResponse("<html><body>An export</body></html>"))
    answer = TestClient(app).get(path, headers=HTML)
    assert answer.text == "<html><body>An export</body></html>"


def test_a_page_brings_its_style_and_its_progress_bar(get):
    page = get("/compare", **HTML)[1].decode()
    assert page.count(STYLE) == page.count(PROGRESS_BAR) == 1


def test_all_else_is_passed_on_as_it_is(get):
    answer, body = get("/", method="HEAD", **HTML)
    assert answer.status == 200 and not body
    answer, page = get("/compare", **{"Accept": "*/*", "Accept-Encoding": "gzip"})
    assert answer.headers["content-encoding"] == "gzip"
    assert STYLE not in gzip.decompress(page).decode()
    answer, body = get("/_stcore/health", **HTML)
    assert (answer.status, body) == (200, b"ok")


def test_pages_files_and_refusals_have_all_headers(get):
    script = re.search(rb'src="\.(/static/js/index[^"]+)"', get("/")[1])[1].decode()
    for path in ("/", script, "/_stcore/health", "/healthz", "/no-such-page"):
        answer, _ = get(path)
        assert {name.lower() for name in answer.headers} >= set(ALWAYS), path
    refused, _ = get("/", Host="evil.example")
    assert refused.status == 403 and {name.lower() for name in refused.headers} >= set(ALWAYS)
