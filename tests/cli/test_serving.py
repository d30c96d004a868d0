"""The command where it serves: the address, the models that it checks, what it starts."""

import re
import socket
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from threading import enumerate as enumerate_threads

import pytest
from typer.testing import CliRunner

from mha_viz.cli import server
from mha_viz.cli.main import app
from mha_viz.ui.operating import memory_limit
from mha_viz.ui.operating.settings import settings
from mha_viz.ui.state import class_answers, own_address
from tests.cli.command import call
from tests.ui.serving import free_port
from tests.waiting import wait_for


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


def test_a_text_too_long_for_the_name_of_a_file_is_read_as_a_text():
    assert call("trace", "a" * 300 + "/b", "--format", "json").stdout


@pytest.fixture
def check(monkeypatch):
    """`check("--public", MHA_VIZ_...="...")`: exit status and what was said."""
    port = free_port()
    monkeypatch.setattr(memory_limit, "free_bytes", lambda: 4 * 10**9)
    monkeypatch.setenv("MHA_VIZ_PUBLIC", "")
    monkeypatch.setenv("MHA_VIZ_CLASSROOM", "")
    monkeypatch.setenv("MHA_VIZ_CONFIG", "")

    def check(*options, **environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        settings.cache_clear()
        arguments = ["app", "--check", "--port", str(port), *options]
        done = CliRunner().invoke(app, arguments, env={"COLUMNS": None})
        return done.exit_code, done.output

    yield check
    settings.cache_clear()


def test_the_settings_in_force_and_where_each_came_from(check, tmp_path):
    file = tmp_path / "server.toml"
    file.write_text("[mha_viz]\nmax_tokens = 64\nmetrics_token = 'a-token-of-22-letters-'\n")
    code, said = check("--public", "--config", str(file), MHA_VIZ_MAX_SESSIONS="7")
    assert code == 0
    rows = {line.split()[0]: line for line in said.splitlines() if line.strip()}
    assert "64" in rows["max_tokens"] and "server.toml" in rows["max_tokens"]
    assert "7" in rows["max_sessions"] and "MHA_VIZ_MAX_SESSIONS" in rows["max_sessions"]
    assert "default of public servers" in rows["memory_mb"]
    assert "letters" not in said and "set" in rows["metrics_token"]
    assert "BAD" not in said


def test_check_names_each_model_and_refuses_one_that_is_too_large(check):
    code, said = check(MHA_VIZ_MODELS="tiny-bert, nobody/never-fetched")
    assert code == 0 and "BAD" not in said
    for name in ("tiny-bert", "nobody/never-fetched"):
        assert re.search(rf"models.*{name}", said)
    code, said = check(MHA_VIZ_MAX_PARAMETERS="1000")
    bad = [line for line in said.splitlines() if "BAD" in line]
    assert code == 1 and len(bad) == 1 and "tiny-bert" in bad[0]


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"MHA_VIZ_MEMORY_MB": "300"}, "BAD memory"),
        ({"MHA_VIZ_MEMORY_MB": "5000"}, "5 GB; 4 GB free"),
    ],
)
def test_what_cannot_be_ends_with_exit_status_1(check, environment, said):
    code, told = check(**environment)
    assert code == 1 and said in told


def test_a_setting_that_is_not_valid_is_an_error_like_any_other(check, tmp_path):
    code, said = check(MHA_VIZ_MAX_TOKENS="none")
    assert code == 2 and said.startswith("error: MHA_VIZ_MAX_TOKENS")
    done = CliRunner().invoke(app, ["app", "--check", "--config", str(tmp_path / "no.toml")])
    assert (done.exit_code, done.stdout) == (2, "") and "--config" in done.stderr


def test_a_class_has_the_limits_of_a_public_server_and_the_whole_network(check):
    code, said = check("--class")
    rows = {line.split()[0]: line for line in said.splitlines() if line.strip()}
    assert code == 0 and "of 0.0.0.0 is free" in said
    for name, value in (("public", "yes"), ("classroom", "yes"), ("max_uploads", "20")):
        assert value in rows[name].split()
    assert "MHA_VIZ_CLASSROOM" in rows["public"] and "public servers" in rows["max_uploads"]
    assert "of 127.0.0.1 is free" in check("--class", "--host", "127.0.0.1")[1]


def test_a_class_is_announced_with_its_code_and_the_link_of_its_teacher(monkeypatch):
    monkeypatch.setattr(own_address, "in_network", lambda: "10.0.0.7")
    class_answers.first_class.cache_clear()  # another test may have ended it
    code, leader = class_answers.first_class()
    _, pupils, teacher = server.class_lines("0.0.0.0", 8501).splitlines()
    assert class_answers.classes().leads(code, leader)
    assert "http://10.0.0.7:8501/class" in pupils and code in pupils
    assert f"http://127.0.0.1:8501/teach?lead={leader} " in teacher and leader not in pupils


def test_a_port_that_is_taken_is_told(check):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, told = check("--port", str(taken.getsockname()[1]))
    assert code == 1 and "BAD port" in told
