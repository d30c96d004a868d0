"""`mha-viz app --check`: the settings in force, and whether the app could serve by them."""

import shutil
import socket
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mha_viz.cli.main import app
from mha_viz.ui.operating import rss
from mha_viz.ui.operating.settings import settings


@pytest.fixture
def check(monkeypatch):
    """`check("--public", MHA_VIZ_...="...")`: exit status and what was said."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setattr(rss, "free", lambda: 4 * 10**9)
    monkeypatch.setenv("MHA_VIZ_PUBLIC", "")
    monkeypatch.setenv("MHA_VIZ_CONFIG", "")

    def check(*options, **environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
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
    assert "BAD" not in said and "tiny-bert, tiny-gpt2" in said


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"MHA_VIZ_MEMORY_MB": "300"}, "BAD memory: memory_mb is below the 700"),
        ({"MHA_VIZ_MEMORY_MB": "5000"}, "BAD memory: memory limit 5 GB; 4 GB free"),
    ],
)
def test_what_cannot_be_ends_with_exit_status_1(check, environment, said):
    code, told = check(**environment)
    assert code == 1 and said in told


def test_a_setting_that_is_not_valid_is_an_error_like_any_other(check, tmp_path):
    code, said = check(MHA_VIZ_MAX_TOKENS="none")
    assert code == 2 and said.startswith("error: MHA_VIZ_MAX_TOKENS: expected a whole")
    done = CliRunner().invoke(app, ["app", "--check", "--config", str(tmp_path / "no.toml")])
    assert (done.exit_code, done.stdout) == (2, "") and "Correct --config" in done.stderr


def test_check_tells_how_visitors_are_told_apart(check):
    assert "ok  addresses: no proxy is named in trusted_proxies" in check("--public")[1]
    named = check("--public", MHA_VIZ_TRUSTED_PROXIES="10.0.0.0/8, ::1")[1]
    assert "ok  addresses: visitors are told apart by the headers of 10.0.0.0/8, ::1" in named


def test_a_port_that_is_taken_is_told(check):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, told = check("--port", str(taken.getsockname()[1]))
    assert code == 1 and "BAD port" in told


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
@pytest.mark.parametrize(("setting", "public"), [("PUBLIC=1", True), ("PUBLIC=", False)])
def test_make_run_opens_it_to_the_public_where_it_is_told_to(setting, public):
    call = ("make", "-n", "run", setting, "TORCH_INDEX=", "UV=")
    told = subprocess.run(call, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    (line,) = [line for line in told.stdout.splitlines() if "mha_viz app" in line]
    assert line.rstrip().endswith("--public") == public
