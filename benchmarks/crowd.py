"""Many visitors at once: what each waits, and whether each sees what is theirs."""

from __future__ import annotations

import asyncio
import math
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.app import GRID, IDLE, NOTE, PAINTED, SENTENCES, running
from benchmarks.browser import FLAGS, VIEWPORT, executable, painted
from benchmarks.measure import Result, at_most
from benchmarks.raw_session import RawSession, opened
from mha_viz.web.payload import unpack

RAW, BROWSERS, PAUSE, SECONDS = 50, 20, 30.0, 120.0
TITLE = "A crowd"
ABOUT = f"""`mha-viz app`, one server for all. A visitor types a sentence that nobody has typed and
waits for all its heads, looks at them for {PAUSE:.0f} s on average (exponentially distributed) and
types the next. {RAW} visitors speak the pages' protocol and draw nothing; {BROWSERS} are pages of
one Chromium that shares the processors with the server. Half of them show tiny-bert and half
tiny-gpt2; a third of the raw visitors have heads switched off, and other heads each.
"At once": all raw visitors press Enter in the same moment. Seconds are the median and the 95th
percentile. Afterwards every sentence is run again, one after the other on a new
server, and what each visitor saw is compared with it: tokens, the weights of all heads (a byte
each, one step apart at most), and the KL divergence of the switched heads."""
LIGHT, BESIDE_PRUNES = 3, 5  # times the 95th percentile of a single visitor
TEXTS = 32  # that the two who prune measure over


@dataclass
class Saw:
    """One visitor's request, and the answer to it."""

    page: str
    query: str
    sentence: str
    seconds: float
    payload: bytes = b""
    divergence: float = math.nan


def measure(
    raw: int = RAW,
    browsers: int = BROWSERS,
    pause: float = PAUSE,
    seconds: float = SECONDS,
    n_alone: int = 30,
) -> list[Result]:
    return asyncio.run(_measured(raw, browsers, pause, seconds, n_alone))


async def _measured(
    raw: int, browsers: int, pause: float, seconds: float, n_alone: int
) -> list[Result]:
    rows, saw = await _crowd(raw, browsers, pause, seconds, n_alone)
    wrong = await _differences(saw)
    theirs = Result(
        "visitors who saw anything that was not theirs",
        f"{wrong} of {len(saw):,} runs",
        aim="0",
        met=wrong == 0,
    )
    return [*rows, theirs]


async def _crowd(
    raw: int, browsers: int, pause: float, seconds: float, n_alone: int
) -> tuple[list[Result], list[Saw]]:
    """Measure a crowd before one server, and what each of its raw visitors saw."""
    with running() as (url, _):
        async with AsyncExitStack() as stack:
            sessions = [await stack.enter_async_context(opened(url, *one)) for one in _pages(raw)]
            alone = await _alone(sessions[0], n_alone)
            at_once = await asyncio.gather(*(_enter(session) for session in sessions))
            pages = await _browsers(stack, url, browsers)
            alone_seen = await _alone_in_a_browser(pages[0]) if pages else []
            light = await _acting(sessions, pages, pause, seconds, 1)
            pruning = [asyncio.create_task(_prunes(url, i)) for i in range(2)]
            await asyncio.sleep(2)
            beside = await _acting(sessions, pages, pause, seconds, 1000)
            unfinished = sum(not task.done() for task in pruning)
            for task in pruning:
                task.cancel()
            await asyncio.gather(*pruning, return_exceptions=True)
    rows = [
        _row("Enter to all heads, alone, raw", alone),
        _row(f"the same, {raw} at once", [one.seconds for one in at_once]),
        _row("the same, a crowd at light work", _heads(light[0]), alone, LIGHT),
        _row("the same, beside two who prune", _heads(beside[0]), alone, BESIDE_PRUNES),
        *(_seen("in a browser", alone_seen, light[1], beside[1]) if pages else ()),
        Result("who pruned still did at the end", f"{unfinished} of 2"),
    ]
    return rows, [*at_once, *light[0], *beside[0]]


# -- visitors --------------------------------------------------------------------------------------


def _pages(raw: int) -> list[tuple[str, str]]:
    """Page and query of each raw visitor."""
    found = []
    for i in range(raw):
        off = f"{i % 4}.{i // 4 % 8},{(i + 1) % 4}.{(i + 3) % 8}"
        model = ("tiny-bert", "tiny-gpt2")[i % 2]
        switched = f"model=tiny-gpt2&off={off}&place=0"  # which opens Prediction in detail
        found.append(("", switched if i % 3 == 2 else f"model={model}"))
    return found


def _sentence(i: int) -> str:
    """A sentence that no other number gives."""
    dice = random.Random(i)
    return " ".join([*dice.sample(SENTENCES, k=dice.randint(4, 9)), str(i)])


_next = iter(range(10_000, 10**9))


async def _enter(session: RawSession) -> Saw:
    sentence = _sentence(next(_next))
    seconds = await session.enter(sentence)
    answer = session.payload(), session.divergence()
    return Saw(session.page, session.query, sentence, seconds, *answer)


async def _alone(session: RawSession, n: int) -> list[float]:
    await _enter(session)  # loads the model
    return [(await _enter(session)).seconds for _ in range(n)]


async def _acting(
    sessions: list[RawSession], pages: list[Any], pause: float, seconds: float, seed: int
) -> tuple[list[Saw], list[float]]:
    """Let visitors act for so many seconds; all answers to raw ones, and waits in browsers."""
    end = time.monotonic() + seconds
    saw: list[Saw] = []
    seen: list[float] = []

    async def repeatedly(number: int, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
        dice = random.Random(seed + number)
        while time.monotonic() + (wait := dice.expovariate(1 / pause)) < end:
            await asyncio.sleep(wait)
            await act()

    async def raw(session: RawSession) -> None:
        saw.append(await _enter(session))

    async def browser(page: Any) -> None:
        seen.append(await _enter_in_browser(page))

    acting: list[Awaitable[None]] = []
    for number, session in enumerate(sessions):
        acting.append(repeatedly(number, lambda session=session: raw(session)))  # type: ignore[misc]
    for number, page in enumerate(pages):
        acting.append(repeatedly(500 + number, lambda page=page: browser(page)))  # type: ignore[misc]
    await asyncio.gather(*acting)
    return saw, seen


async def _prunes(url: str, number: int) -> None:
    """Prune again and again, over other texts each time."""
    async with opened(url, "why", "why=test&test=importance&model=tiny-gpt2") as session:
        while True:
            texts = "\n".join(_sentence(next(_next)) for _ in range(TEXTS - 1))
            await session.run({"ask_more_texts": texts})
            await session.run(click="Prune")


# -- in a browser ----------------------------------------------------------------------------------


async def _browsers(stack: AsyncExitStack, url: str, n: int) -> list[Any]:
    if not n:
        return []
    from playwright.async_api import async_playwright

    playwright = await stack.enter_async_context(async_playwright())
    browser = await playwright.chromium.launch(executable_path=executable(), args=FLAGS)
    stack.push_async_callback(browser.close)
    pages = []
    for i in range(n):
        page = await (await browser.new_context(viewport=VIEWPORT)).new_page()
        await page.goto(f"{url}?model={('tiny-bert', 'tiny-gpt2')[i % 2]}", timeout=300_000)
        await page.wait_for_selector(PAINTED, timeout=300_000)
        await page.wait_for_selector(IDLE, timeout=300_000)
        await page.evaluate(NOTE)
        pages.append(page)
    return pages


async def _alone_in_a_browser(page: Any, n: int = 12) -> list[float]:
    await _enter_in_browser(page)
    return [await _enter_in_browser(page) for _ in range(n)]


async def _enter_in_browser(page: Any) -> float:
    """Type a sentence that is new -> seconds to the frame with all its heads."""
    before = await page.evaluate(f"{GRID}.dataset.painted")
    box = page.get_by_label("Sentence", exact=True)
    await box.fill(_sentence(next(_next)), timeout=300_000)
    await box.press("Enter")
    new = f"() => {{ const id = {GRID}?.dataset.painted; return id && id !== {before!r}; }}"
    done = await page.evaluate(painted(new, 300))
    return (float(done) - float(await page.evaluate("acted"))) / 1e3


# -- what they saw ---------------------------------------------------------------------------------


async def _differences(saw: list[Saw]) -> int:
    """Count the runs that differ from those of one visitor at a time on a server of their own."""
    wrong = 0
    with running() as (url, _):
        for page, query in dict.fromkeys((one.page, one.query) for one in saw):
            async with opened(url, page, query) as session:
                for one in saw:
                    if (one.page, one.query) == (page, query):
                        await session.enter(one.sentence)
                        wrong += not _alike(one, session)
    return wrong


def _alike(one: Saw, session: RawSession) -> bool:
    if not np.isclose(one.divergence, session.divergence(), rtol=0.02, equal_nan=True):
        return False
    (seen, cells), (alone, cells_alone) = unpack(one.payload), unpack(session.payload())
    if any(seen[name] != alone[name] for name in ("query_labels", "key_labels")) or len(
        cells
    ) != len(cells_alone):
        return False
    codes, codes_alone = (
        np.frombuffer(each, np.uint8).astype(int) for each in (cells, cells_alone)
    )
    return int(np.abs(codes - codes_alone).max()) <= 1


def _heads(saw: list[Saw]) -> list[float]:
    return [one.seconds for one in saw]


# -- rows ------------------------------------------------------------------------------------------


def _p95(seconds: list[float]) -> float:
    return float(np.quantile(seconds, 0.95))


def _row(
    name: str, seconds: list[float], alone: list[float] | None = None, aim: float = 0
) -> Result:
    shown = f"{statistics.median(seconds):.2f} s, {_p95(seconds):.2f} s (of {len(seconds)})"
    if alone is None:
        return Result(name, shown)
    times = _p95(seconds) / _p95(alone)
    beside = f"alone {statistics.median(alone):.2f} s, {_p95(alone):.2f} s"
    return Result(name, shown, beside, f"{times:.1f}", f"below {aim}", at_most(times, aim))


def _seen(where: str, alone: list[float], light: list[float], beside: list[float]) -> list[Result]:
    return [
        _row(f"Enter to all heads {where}, alone", alone),
        _row(f"the same {where}, a crowd at light work", light, alone, LIGHT),
        _row(f"the same {where}, beside two who prune", beside, alone, BESIDE_PRUNES),
    ]
