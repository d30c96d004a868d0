"""`mha-viz app --replicas`: what it refuses, how its processes are told, kept and stopped."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import yaml

from mha_viz.cli import replicas
from mha_viz.errors import MhaVizError
from mha_viz.ui.operating.settings import Settings, read
from tests.cli.command import call

ROOT = Path(__file__).parents[2]


def test_what_cannot_be_served_so_is_refused_before_anything_starts(monkeypatch):
    monkeypatch.setattr(replicas.subprocess, "Popen", lambda *a, **k: pytest.fail("it started"))
    for n in ("0", "33", "-2", "two"):
        error = call("app", "--replicas", n, code=2).stderr
        assert error.startswith("error: ") and error.count("\n") == 1 and "--replicas" in error
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    error = call("app", "--replicas", "3", "--port", port, code=2).stderr
    assert "Caddy" in error and error.count("\n") == 1
    assert "BAD replicas" in call("app", "--replicas", "3", "--check", code=1).stdout
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(replicas, "free_ports", lambda host, after: iter([after + 1]))
    error = call("app", "--replicas", "3", "--port", port, code=2).stderr
    assert error.startswith("error: ") and port in error


def test_processes_share_a_folder_and_believe_the_proxy_alone(monkeypatch, tmp_path):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    told = replicas.shared_settings("0.0.0.0", 3, Settings(trusted_proxies=("10.0.0.7",)), tmp_path)
    found = read({name: value for name, value in told.items() if name.startswith("MHA")}).settings
    assert found.trusted_proxies == ("10.0.0.7", "127.0.0.1")
    assert (found.shared, told["OMP_NUM_THREADS"]) == (str(tmp_path / "shared"), "2")
    own = Settings(shared="/srv/shared")
    assert replicas.shared_settings("::", 9, own, tmp_path)["MHA_VIZ_SHARED"] == "/srv/shared"
    site = replicas.site_of("::", 8501, [8502, 8504], own, tmp_path)
    assert site["SITE_APPS"] == "to [::1]:8502 [::1]:8504" and site["SITE_PROXIES"] == ""


def kept(code: str, tmp_path: Path) -> replicas.Kept:
    return replicas.Kept("It", [sys.executable, "-c", code], dict(os.environ), tmp_path / "log")


def test_a_process_that_ends_is_started_again_but_not_for_ever(tmp_path, capsys):
    one = kept("import sys; sys.exit('no room at 8501')", tmp_path)
    for _ in range(replicas.RESTARTS + 1):
        one.keep()
        one.running.wait(60)
    with pytest.raises(MhaVizError) as error:
        one.keep()
    assert f"{replicas.RESTARTS + 1} times" in str(error.value)
    assert "no room at 8501" in str(error.value)
    assert len(capsys.readouterr().err.splitlines()) == replicas.RESTARTS
    one.starts[0] -= replicas.WITHIN  # as after a night
    one.keep()
    one.running.wait(60)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_order_to_stop_ends_every_process(tmp_path, number, monkeypatch):
    monkeypatch.setattr(replicas, "_STOPPING", 0.5)
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    both = [kept(f"{first}open(r'{tmp_path / name}', 'w')\nimport time; time.sleep(600)", tmp_path)
            for name, first in (("a", ""), ("b", deaf))]  # fmt: skip
    before = {
        each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    }
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's child may be deaf to it

    def order() -> None:
        while not all((tmp_path / name).exists() for name in "ab"):
            time.sleep(0.02)
        os.kill(os.getpid(), number)

    threading.Thread(target=order, daemon=True).start()
    try:
        replicas._keep_until_stopped(both)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    assert [one.running.poll() for one in both] == [-signal.SIGTERM, -signal.SIGKILL]


def test_compose_shares_its_visitors_out_to_as_many_containers_as_there_are():
    told = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
    app, proxy = told["services"]["app"], told["services"]["proxy"]
    assert "ports" not in app and "container_name" not in app  # else there could be one only
    named = {f"MHA_VIZ_{name}": app["environment"][f"MHA_VIZ_{name}"]
             for name in ("SHARED", "TRUSTED_PROXIES")}  # fmt: skip
    shared = read(named).settings.shared
    assert app["volumes"] == [f"shared:{shared}"] and "uid=1000" in str(told["volumes"]["shared"])
    (mounted,) = proxy["volumes"]
    assert ROOT / mounted.split(":")[0] == replicas._CADDYFILE
    (port,) = proxy["ports"]
    assert port.endswith(f":{proxy['environment']['SITE_PORT']}") and port.startswith("127.0.0.1")
    asked = set(re.findall(r"\{\$(\w+)\}", replicas._CADDYFILE.read_text()))
    assert asked == set(proxy["environment"])
    own = replicas.site_of("127.0.0.1", 8501, [8502], Settings(), Path("/x"))
    assert asked == {name for name in own if name.startswith("SITE")}
    if shutil.which("caddy"):
        for site in (proxy["environment"], own):
            command = ["caddy", "adapt", "--validate", "--config", replicas._CADDYFILE]
            done = subprocess.run(
                [*command, "--adapter", "caddyfile"],
                env=os.environ | site,
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0 and "mha_viz_process" in done.stdout, done.stderr
