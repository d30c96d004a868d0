"""Two processes of the app with one shared folder, and Caddy before them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import pytest
from streamlit.proto.WidgetStates_pb2 import WidgetState

from benchmarks.raw_session import RawSession, opened
from mha_viz.ui.state.class_answers import FILE, Classes
from mha_viz.ui.state.link_values import reference
from mha_viz.web.payload import unpack
from tests.ui.serving import served

pytestmark = [pytest.mark.slow, pytest.mark.extended]

LONG = "The sentence is long. " * 80  # for an address
OPTIONS = ("Equal weights for all keys", "The values themselves")  # of a question of a lab


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


def beside(visits: Awaitable[None]) -> None:
    """Run it in a thread of its own: browser tests leave a loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, visits).result()


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
    """Vote in a class, look at the answer; all that the page says."""
    address = f"http://127.0.0.1:{port}/"
    async with opened(address, "lab-soft-lookup", f"class={code}") as page:
        vote = WidgetState(id=ids(page, "radio")[0], string_value=OPTIONS[option])
        await page.run(states=[vote])
        await page.run(click="Show the answer")
        return page.words()


def test_two_processes_with_one_folder_answer_alike(processes: list[Process], shared: Path) -> None:
    first, second = (one.port for one in processes)
    code, _ = Classes(shared / FILE).first("nobody")

    async def visits() -> None:
        assert await sees_link(first) == await sees_link(second)
        assert await sees_link(first, text=LONG) == await sees_link(second, text=reference(LONG))
        assert "1 answer so far" in await votes(first, code, 0)
        assert "2 answers so far" in await votes(second, code, 1)

    beside(visits())
