"""Two processes of the app with one shared folder, and Caddy before them."""

import ast
import os
import re
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from streamlit.proto.WidgetStates_pb2 import WidgetState

from benchmarks.raw_session import RawSession, opened
from mha_viz.ui.state.class_answers import FILE, Classes
from mha_viz.ui.state.link_values import reference
from mha_viz.web.payload import unpack
from tests.hosting.test_files import CADDYFILE
from tests.ui.serving import free_port, request, served
from tests.waiting import run_apart, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.extended]

LONG = "The sentence is long. " * 80  # for an address
OPTIONS = ("Equal weights for all keys", "The values themselves")  # of a question of a lab
VISITORS = (
    "from streamlit import runtime\n"
    "every = runtime.get_instance()._session_mgr.list_active_sessions()\n"
    "answer = {one.client.client_context.remote_ip for one in every}"
)


@dataclass
class Process:
    """A process of the app: its port, and what `served` asks of its inside."""

    port: int
    ask: Callable[[str], str]


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    return tmp_path / "shared"


@pytest.fixture
def processes(shared: Path, tmp_path: Path) -> Iterator[list[Process]]:
    env = {"MHA_VIZ_CLASSROOM": "1", "MHA_VIZ_SHARED": str(shared)}
    env["MHA_VIZ_TRUSTED_PROXIES"] = "127.0.0.1"
    with ExitStack() as running:
        both = []
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
            both.append(Process(*running.enter_context(served(tmp_path / name, **env))))
        yield both


@pytest.fixture
def site(processes: list[Process], tmp_path: Path) -> Iterator[int]:
    """The port of Caddy before both."""
    if not shutil.which("caddy"):
        # Only who hosts several servers has it, and no package of Python brings it.
        pytest.skip("no caddy on PATH")
    port = free_port()
    env = os.environ | {
        "SITE_NAME": f"http://127.0.0.1:{port}",
        "SITE_APPS": "to " + " ".join(f"127.0.0.1:{one.port}" for one in processes),
        **dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"), str(tmp_path)),
    }
    command = ["caddy", "run", "--config", CADDYFILE, "--adapter", "caddyfile"]
    with (tmp_path / "caddy.log").open("w") as log:
        caddy = subprocess.Popen(command, env=env, stdout=log, stderr=log)
    try:
        wait_for(lambda: get(port, "/healthz")[0] == 200, (tmp_path / "caddy.log").read_text)
        yield port
    finally:
        caddy.terminate()
        caddy.wait(30)


def get(port: int, path: str = "/", body: bytes | None = None, **headers: str) -> tuple[int, Any]:
    """Return status and headers of an answer; 0 where nobody answers."""
    try:
        answer, _ = request(port, path, "GET" if body is None else "PUT", body, **headers)
    except OSError:
        return 0, {}
    return answer.status, answer.headers


def ids(session: RawSession, kind: str) -> list[str]:
    found = [one for one in session.elements.values() if one.WhichOneof("type") == kind]
    return [getattr(one, kind).id for one in found]


async def sees_link(
    port: int, headers: dict[str, str] | None = None, text: str = "Two servers one sentence"
) -> bytes:
    query = urlencode({"model": "tiny-gpt2", "text": text})
    async with opened(f"http://127.0.0.1:{port}/", "", query, headers) as page:
        labels = unpack(page.payload())[0]["query_labels"]
        assert "sentence" in "".join(labels), labels
        return page.payload()


async def votes(port: int, code: str, option: int) -> str:
    """Vote in a class; all that the page says."""
    address = f"http://127.0.0.1:{port}/"
    async with opened(address, "lab-soft-lookup", f"class={code}") as page:
        vote = WidgetState(id=ids(page, "radio")[0], string_value=OPTIONS[option])
        await page.run(states=[vote])
        return page.words()


async def looks(port: int, code: str) -> str:
    """Look at a class's question; all that the page says."""
    address = f"http://127.0.0.1:{port}/"
    async with opened(address, "lab-soft-lookup", f"class={code}") as page:
        return page.words()


def test_two_processes_with_one_folder_answer_alike(processes: list[Process], shared: Path) -> None:
    first, second = (one.port for one in processes)
    classes = Classes(shared / FILE)
    code, _ = classes.first("nobody")

    async def visits() -> None:
        assert await sees_link(first) == await sees_link(second)
        assert await sees_link(first, text=LONG) == await sees_link(second, text=reference(LONG))
        for option, port in enumerate((first, second)):
            assert "Counted." in await votes(port, code, option)
        with sqlite3.connect(shared / FILE) as database:
            [(question,)] = database.execute("select distinct question from votes").fetchall()
        classes.uncover(code, ast.literal_eval(question))
        for port in (first, second):
            assert "2 answers so far" in await looks(port, code)

    run_apart(visits())


def test_caddy_keeps_visitors_at_a_process_until_it_dies(
    site: int, processes: list[Process]
) -> None:
    def cookie() -> str:
        status, headers = get(site)
        assert status == 200
        (given,) = (one for one in headers.get_all("Set-Cookie") if "mha_viz_process" in one)
        return str(given).partition(";")[0]

    async def visits() -> None:
        by_process = {}
        while len(by_process) < 2:  # each process is as likely
            headers = {"Cookie": cookie(), "X-Forwarded-For": "8.8.8.8"}
            for _ in range(3):
                async with opened(f"http://127.0.0.1:{site}/", "teach", headers=headers):
                    visitors = [one.ask(VISITORS) for one in processes]
                assert sorted(visitors) == ["set()", "{'127.0.0.1'}"]  # not what was made up
                process = processes[visitors.index("{'127.0.0.1'}")]
                wait_for(lambda process=process: process.ask(VISITORS) == "set()", "it is left")
            by_process[process.port] = headers["Cookie"]
        dying = int(processes[0].ask("import os; answer = os.getpid()"))
        os.kill(dying, signal.SIGKILL)
        for one in by_process.values():
            assert get(site, Cookie=one)[0] == 200
            await sees_link(site, {"Cookie": one})

    run_apart(visits())


def test_caddy_refuses_figures_and_large_bodies(site: int) -> None:
    assert get(site, "/metrics")[0] == 404
    status, _ = get(site, "/_stcore/upload_file/nobody/nothing", bytes(7_000_000))
    assert status in (0, 400, 413)  # it may hang up in the middle, and the app may be faster
    assert re.search("default-src 'self'", get(site)[1]["content-security-policy"])
