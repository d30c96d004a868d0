"""Two processes of the app behind Caddy: visitors notice no difference."""

import asyncio
import contextlib
import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from streamlit.proto.WidgetStates_pb2 import WidgetState

from benchmarks.raw_session import RawSession, opened
from mha_viz.ui.state.class_answers import FILE, Classes
from mha_viz.web.payload import unpack
from tests.test_proxies import free_port
from tests.waiting import PATIENCE, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.extended]

ROOT = Path(__file__).parents[1]
COOKIE = "mha_viz_process"
TOKEN = "a-token-of-this-test"
OPTIONS = ("Equal weights for all keys", "The values themselves")  # of a question of a lab


@dataclass
class Site:
    """An address with two processes behind it, by their ports and the folder that they share."""

    port: int
    apps: tuple[int, int]
    shared: Path

    def ask(self, path: str = "/", port: int = 0, **headers: str):
        """Return status, headers and bytes of an answer."""
        url = f"http://127.0.0.1:{port or self.port}{path}"
        asked = urllib.request.Request(url, headers=headers)
        try:
            with urllib.request.urlopen(asked, timeout=PATIENCE) as found:
                return found.status, found.headers, found.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()
        except OSError:
            return 0, {}, b""

    def cookies(self) -> str:
        """Return the cookies of a browser that opens the page for the first time."""
        given = ""
        for path in ("/", "/_stcore/health"):  # as the page asks
            status, headers, _ = self.ask(path, Cookie=given)
            assert status == 200
            given += "".join(one.partition(";")[0] + "; " for one in headers.get_all("Set-Cookie"))
        assert [name in given for name in (COOKIE, "_streamlit_xsrf")] == [True, True]
        return given

    def sessions(self) -> list[float]:
        """Return how many pages each process has open."""
        told = [
            self.ask("/metrics", port, Authorization=f"Bearer {TOKEN}")[2].decode()
            for port in self.apps
        ]
        return [float(re.search(r"^mha_viz_sessions ([\d.]+)$", one, re.M)[1]) for one in told]

    def pages(self, page: str = "", query: str = "", cookies: str = ""):
        headers = {"Cookie": cookies} if cookies else None
        return opened(f"http://127.0.0.1:{self.port}/", page, query, headers)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """`mha-viz app --class --replicas 2`."""
    if not shutil.which("caddy"):
        pytest.skip("no caddy on PATH")
    port, shared = free_port(), tmp_path / "shared"
    command = [sys.executable, "-m", "mha_viz", "app", "--class", "--replicas", "2"]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    env = os.environ | {"MHA_VIZ_SHARED": str(shared), "MHA_VIZ_METRICS_TOKEN": TOKEN}
    with (tmp_path / "log").open("wb") as log:
        app = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=log)
    try:
        lines = [app.stdout.readline().decode() for _ in range(4)]
        assert lines[0] == f"mha_viz opens at http://127.0.0.1:{port} (Ctrl-C stops it)\n", lines
        commands = [child.cmdline() for child in psutil.Process(app.pid).children()]
        ports = sorted(int(words[-1]) for words in commands if words[-2:-1] == ["--port"])
        assert len(ports) == 2 and ports[0] > port
        yield Site(port, (ports[0], ports[1]), shared)
    finally:
        app.terminate()
        app.communicate(timeout=60)
    said = (tmp_path / "log").read_text()
    assert "Traceback" not in said, said


async def of_each_process(site: Site) -> list[str]:
    """Return the cookies of two browsers that two processes serve, each again and again."""
    found: dict[int, str] = {}
    for _ in range(40):  # each process is as likely: both came, but for 1 in 10^12
        cookies, before = site.cookies(), site.sessions()
        served_by = set()
        for _ in range(3):
            async with site.pages("teach", cookies=cookies):
                now = site.sessions()
                served_by.add(next(i for i in (0, 1) if now[i] > before[i]))
            await until(lambda before=before: site.sessions() == before)
        assert len(served_by) == 1 and cookies.count(COOKIE) == 1
        found.setdefault(served_by.pop(), cookies)
        if len(found) == 2:
            return [found[0], found[1]]
    raise AssertionError(f"all browsers came to process {list(found)}")


async def until(holds: Callable[[], object]) -> None:
    await asyncio.to_thread(wait_for, holds, "the processes")


def ids(session: RawSession, kind: str) -> list[str]:
    found = [one for one in session.elements.values() if one.WhichOneof("type") == kind]
    return [getattr(one, kind).id for one in found]


async def sees_link(site: Site, cookies: str) -> bytes:
    async with site.pages("", "model=tiny-gpt2&text=Two+servers+one+sentence", cookies) as page:
        labels = unpack(page.payload())[0]["query_labels"]
        assert "sentence" in "".join(labels), labels
        return page.payload()


async def votes(site: Site, cookies: str, code: str, option: int) -> str:
    """Vote in a class, look at the answer; all that the page says."""
    async with site.pages("lab-soft-lookup", f"class={code}", cookies) as page:
        vote = WidgetState(id=ids(page, "radio")[0], string_value=OPTIONS[option])
        await page.run(states=[vote])
        await page.run(click="Show the answer")
        return page.words()


def test_whichever_process_answers_a_visitor_sees_the_same(site: Site) -> None:
    assert site.ask("/healthz")[2] == b"ok\n"
    with ThreadPoolExecutor(1) as beside:  # browser tests leave a loop in this thread
        assert beside.submit(asyncio.run, visits(site)).result() == "all"


async def visits(site: Site) -> str:
    first, second = await of_each_process(site)
    assert await sees_link(site, first) == await sees_link(site, second)

    classes = Classes(site.shared / FILE)
    code, _ = classes.first("nobody")
    assert "1 answer so far" in await votes(site, first, code, 0)
    assert "2 answers so far" in await votes(site, second, code, 1)

    killed = next(one for one in psutil.process_iter() if is_at(one, site.apps[0]))
    killed.kill()
    killed.wait(60)
    for cookies in (first, second):  # who was with the other one notices nothing
        assert site.ask(Cookie=cookies)[0] == 200
        await sees_link(site, cookies)
    assert "3 answers so far" in await votes(site, site.cookies(), code, 1)
    return "all"


def is_at(process: psutil.Process, port: int) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.cmdline()[-2:] == ["--port", str(port)]
    return False
