"""Endpoints, log, headers and the page's style, by real requests."""

import gzip
import re
from collections.abc import Callable
from functools import partial

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.responses import HTMLResponse
from starlette.testclient import TestClient

from mha_viz.ui.operating.page_times import Times
from mha_viz.ui.server import endpoints, headers, uploads
from mha_viz.ui.server.page_style import PROGRESS_BAR, STYLE, PageStyle
from mha_viz.ui.server.uploads import Uploads
from tests import waiting
from tests.ui.serving import OpenPage, request, served, serving

TOKEN = "a-token-of-22-letters-"
MARKER = "Xylophonmarker"
# What fails somewhere with the text in its message: in a page's callback, a thread, a warning.
FAIL = f"""
import logging, os, sys, threading, warnings
def fall():
    try:
        raise KeyError("{MARKER}")
    except KeyError as error:
        raise ValueError("about {MARKER}") from error
logging.getLogger("transformers").warning("a long text: {MARKER}")
logging.getLogger("mha_viz").error("it failed on %s", "{MARKER}")
try:
    fall()
except ValueError as error:
    logging.getLogger("mha_viz").error("unexpected error", exc_info=error)
warnings.warn("{MARKER}")
thread = threading.Thread(target=fall)
thread.start()
thread.join()
os.write(2, b"panicked at {MARKER}\\n")
answer = "done"
"""
pytestmark = pytest.mark.slow


def get(port: int, path: str, **headers: str) -> tuple[int, str]:
    answer, body = request(port, path, **headers)
    return answer.status, body.decode()


def figures(port: int) -> dict[str, float]:
    code, text = get(port, "/metrics", authorization=f"Bearer {TOKEN}")
    assert code == 200
    return {
        " ".join([sample.name, *sample.labels.values()]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def wait_for(port: int, wanted: int) -> None:
    """Until the server is ready, or no longer so; it says either in one line."""

    def answer() -> str | None:
        code, line = get(port, "/readyz")
        assert code in (200, 503), line
        return line if code == wanted else None

    line = waiting.wait_for(answer, lambda: f"{wanted}; now {get(port, '/readyz')}")
    assert line.count("\n") == 1


def check_full_memory(port: int, ask: Callable[[str], str], page: OpenPage) -> None:
    """Beyond its ceiling the server refuses what is large, and goes on with what is small."""
    ask("import sys; sys.ballast = b'x' * 1_000_000_000; answer = 1")
    wait_for(port, 503)
    assert "memory" in get(port, "/readyz")[1]
    assert figures(port)["mha_viz_cache_bytes"] == 0  # all that can be made again was let go
    (refused,) = page.show("heads", text=f"{MARKER} " * 60)
    assert "memory" in refused
    assert page.show("heads", text=f"Short {MARKER}.") == []
    assert figures(port)["mha_viz_refusals_total memory"] >= 1
    ask("import sys; del sys.ballast; answer = 1")
    wait_for(port, 200)
    assert page.show("heads", text=f"{MARKER} " * 60) == []


def test_a_public_server_answers_its_operator_and_logs_nothing_that_was_typed(tmp_path):
    env = {
        "MHA_VIZ_PUBLIC": "1",
        "MHA_VIZ_METRICS_TOKEN": TOKEN,
        "MHA_VIZ_MAX_SESSIONS": "1",
        "MHA_VIZ_MEMORY_MB": "1000",
    }
    with served(tmp_path, **env) as (port, ask):
        assert get(port, "/healthz") == (200, "ok\n")
        assert get(port, "/healthz", host="any.example")[0] == 200
        wait_for(port, 200)
        assert get(port, "/metrics")[0] == 401
        assert get(port, "/metrics", authorization=f"Bearer {TOKEN}x")[0] == 401
        assert get(port, "/_stcore/metrics")[0] == 404
        before = figures(port)
        assert before["mha_viz_sessions"] == 0 and before["mha_viz_memory_bytes"] > 10**8
        with OpenPage(port) as page:
            page.show("heads", text=f"{MARKER} sat.", model=f"{MARKER}/{MARKER}")
            page.show("heads", text=f"{MARKER} " * 999)
            page.show("lab-soft-lookup", **{"class": MARKER, MARKER: MARKER})
            with OpenPage(port) as second:
                second.show("heads", text=MARKER)
            after = figures(port)
            assert get(port, f"/healthz?{MARKER}")[0] == 200
            get(port, f"/{MARKER}?{MARKER}")
            check_full_memory(port, ask, page)
        assert ask(FAIL) == "done"
        assert after["mha_viz_sessions"] >= 1
        assert after["mha_viz_page_seconds_count heads"] >= 3
        assert after["mha_viz_refusals_total session"] == 1
        assert after["mha_viz_cache_bytes"] > 0
        assert MARKER not in get(port, "/metrics", authorization=f"Bearer {TOKEN}")[1]
    log = (tmp_path / "app.log").read_text()
    assert MARKER not in log
    # what went wrong, and where, is there
    assert "unexpected error" in log and "builtins.ValueError" in log and "in fall" in log


def test_no_page_sends_more_files_than_it_may(operated, monkeypatch):
    monkeypatch.setattr(uploads.streamlit_run, "is_connected", {"a", "b"}.__contains__)
    taken = []

    async def app(scope, receive, send):
        taken.append(scope["path"])

    async def send(message):
        said.append(message)

    async def put(session, method="PUT"):
        path = f"/_stcore/upload_file/{session}/file"
        scope = {"type": "http", "method": method, "path": path, "headers": []}
        await counter(scope, None, send)

    counter, said = Uploads(app), []
    operated(max_uploads=2)
    for session in ("a", "a", "b"):
        waiting.run_apart(put(session))
    assert (len(taken), said) == (3, [])
    waiting.run_apart(put("a"))
    waiting.run_apart(put("a", "DELETE"))
    assert len(taken) == 4
    assert said[0]["status"] == 429 and b"2 files" in said[1]["body"]
    said.clear()
    waiting.run_apart(put("c" * 50_000))  # no page: nothing of it is kept
    assert said[0]["status"] == 400 and len(taken) == 4 and set(counter._sent) == {"a", "b"}


def test_figures_are_nobodys_without_a_token(monkeypatch):
    answer = endpoints._answer("/metrics", "Bearer ")
    assert answer is not None and answer.status_code == 404
    assert endpoints._answer("/", "") is None


def test_a_full_queue_is_a_figure_and_no_reason_to_send_visitors_elsewhere(monkeypatch, operated):
    operated(heavy_waiting=2)
    monkeypatch.setattr(endpoints.memory, "ready", lambda: "")
    monkeypatch.setitem(endpoints.LANES, "heavy", lambda: {"waiting": 2.0})
    assert endpoints.not_ready() == ""
    assert b'mha_viz_lane_waiting{lane="heavy"} 2.0' in endpoints.written()


def test_seconds_are_counted_into_every_bound_above_them():
    times = Times()
    for seconds in (0.01, 0.25, 99.0):
        times.note("heads", seconds)
    ((buckets, total),) = times.table().values()
    assert dict(buckets)[0.05] == 1 and dict(buckets)[0.25] == 2
    assert buckets[-1] == (float("inf"), 3) and total == pytest.approx(99.26)


ALWAYS = ("content-security-policy", "referrer-policy", "x-content-type-options")
HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8", "Accept-Encoding": "gzip"}


@pytest.fixture(scope="module")
def fetched(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("page_style")) as port:
        yield partial(request, port)


@pytest.mark.parametrize("path", ["/media/export.html", "/some/page"])
def test_a_document_that_is_not_streamlits_page_is_passed_on(path):
    """A downloaded export is a document of its own, also where a browser opens it as a page."""
    app = PageStyle(HTMLResponse("<html><body>An export</body></html>"))
    answer = TestClient(app).get(path, headers=HTML)
    assert answer.text == "<html><body>An export</body></html>"


def test_a_page_brings_its_style_and_its_progress_bar(fetched):
    page = fetched("/compare", **HTML)[1].decode()
    assert page.count(STYLE) == page.count(PROGRESS_BAR) == 1


def test_all_else_is_passed_on_as_it_is(fetched):
    answer, body = fetched("/", method="HEAD", **HTML)
    assert answer.status == 200 and not body
    answer, page = fetched("/compare", **{"Accept": "*/*", "Accept-Encoding": "gzip"})
    assert answer.headers["content-encoding"] == "gzip"
    assert STYLE not in gzip.decompress(page).decode()
    answer, body = fetched("/_stcore/health", **HTML)
    assert (answer.status, body) == (200, b"ok")


def test_pages_files_and_refusals_have_all_headers(fetched):
    script = re.search(rb'src="\.(/static/js/index[^"]+)"', fetched("/")[1])[1].decode()
    for path in ("/", script, "/_stcore/health", "/healthz", "/no-such-page"):
        answer, _ = fetched(path)
        assert {name.lower() for name in answer.headers} >= set(ALWAYS), path
    refused, _ = fetched("/", Host="evil.example")
    assert refused.status == 403 and {name.lower() for name in refused.headers} >= set(ALWAYS)


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
