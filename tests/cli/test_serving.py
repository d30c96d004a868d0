"""The command where it serves: the address, the models that it checks, what it starts."""

from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from threading import enumerate as enumerate_threads

import pytest

from mha_viz.cli import server
from mha_viz.ui.operating.settings import settings
from tests.cli.command import call
from tests.waiting import wait_for


@pytest.fixture
def fresh_settings(monkeypatch):
    settings.cache_clear()
    yield monkeypatch.setenv
    settings.cache_clear()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/_stcore/health" else 404)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


def test_announce_address_waits_until_the_server_answers(monkeypatch, capsys):
    monkeypatch.setattr(server, "_POLL_SECONDS", 0.02)
    http_server = HTTPServer(("127.0.0.1", 0), _Handler, bind_and_activate=False)
    http_server.server_bind()
    port = http_server.server_address[1]
    printed: list[str] = []

    def is_printed() -> bool:
        printed.append(capsys.readouterr().out)
        return str(port) in "".join(printed)

    calls: list[bool] = []
    is_serving = server._is_serving
    monkeypatch.setattr(
        server, "_is_serving", lambda *place: calls.append(is_serving(*place)) or calls[-1]
    )
    threads = set(enumerate_threads())
    with server.announce_address("127.0.0.1", port):
        (announcing,) = set(enumerate_threads()) - threads
        assert announcing.daemon  # it holds up no command that ends
        wait_for(lambda: len(calls) > 1 or is_printed(), "a second call")
        assert not any(calls) and not is_printed()  # the port is taken, but nobody answers there
        http_server.server_activate()
        Thread(target=http_server.serve_forever, daemon=True).start()
        wait_for(is_printed, "the address")
    http_server.shutdown()
    http_server.server_close()
    assert "".join(printed).count(f"http://127.0.0.1:{port}") == 1


def test_check_names_each_model_and_refuses_one_that_is_too_large(fresh_settings):
    fresh_settings("MHA_VIZ_MODELS", "tiny-bert, nobody/never-fetched")
    rows = [line for line in call("app", "--check").stdout.splitlines() if "models" in line]
    assert not [row for row in rows if "BAD" in row]
    for name in ("tiny-bert", "nobody/never-fetched"):
        assert any(name in row for row in rows), rows
    fresh_settings("MHA_VIZ_MAX_PARAMETERS", "1000")
    bad = [line for line in call("app", "--check", code=1).stdout.splitlines() if "BAD" in line]
    assert len(bad) == 1 and "tiny-bert" in bad[0]


def test_a_text_too_long_for_the_name_of_a_file_is_read_as_a_text():
    assert call("trace", "a" * 300 + "/b", "--format", "json").stdout
