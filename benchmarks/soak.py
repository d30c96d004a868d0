"""An hour of ten visitors who come and go: what the server holds at its end.

`python -m benchmarks soak`, or `make soak MINUTES=60`. Not among what `python -m benchmarks` runs.
"""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from benchmarks.app import SENTENCES, running
from benchmarks.measure import Result, Skipped
from benchmarks.raw_session import SENTENCE, RawSession, opened
from mha_viz.learn.frame.contents import LABS

TITLE = "Endurance"
MINUTES = float(os.environ.get("MINUTES", "60"))
VISITORS = 10
ABOUT = f"""{VISITORS} visitors at once, for {MINUTES:.0f} minutes: each opens a page (Heads,
Compare, Why, Many texts or a lab) with tiny-bert or tiny-gpt2, types up to eight
sentences of 3 to 60 words with some seconds between them, measures importance or prunes now and
then, and leaves; one time in four without waiting for what was begun. Then another comes. Every
five seconds the server and its children are looked at: resident memory, threads, open handles, and
what lies in their temporary folder. The beginning is the median of the minutes 9 to 11 (of a
shorter run: at a sixth of it), the end that of the last two minutes, the visitors still there."""
IMPORTANCE = ("why", "&why=test&test=importance")
# Pages, and what is chosen there.
PAGES = (
    *(("", ""), ("", "&off=0.1,1.2"), ("compare", ""), ("circuits", ""), ("many_texts", "")),
    *(IMPORTANCE, IMPORTANCE),
)
AIM = 0.10  # above the beginning
EVERY = 5.0  # seconds between two looks
HEAVY = ("Measure", "Prune")


class Held(NamedTuple):
    """Memory, threads and files of the server at a moment, in seconds after the beginning."""

    at: float
    server: float  # MiB of the server itself
    children: float  # MiB of the processes that it has started
    threads: float
    handles: float
    files: float  # MiB of temporary files

    @property
    def memory(self) -> float:
        """MiB of all of them."""
        return self.server + self.children


def measure(minutes: float = MINUTES, visitors: int = VISITORS) -> list[Result]:
    if not Path("/proc/self/fd").exists():
        raise Skipped("no /proc: what a process holds is read there")
    return asyncio.run(_measured(60 * minutes, visitors))


async def _measured(seconds: float, visitors: int) -> list[Result]:
    with tempfile.TemporaryDirectory() as folder, running(TMPDIR=folder) as (url, pid):
        end = time.monotonic() + seconds
        tally = Tally()
        coming = [_come_and_go(url, number, end, tally) for number in range(visitors)]
        held, *_ = await asyncio.gather(watched(pid, Path(folder), end), *coming)
    tenth = min(600.0, seconds / 6)
    begin = [one for one in held if abs(one.at - tenth) <= max(tenth / 10, EVERY)]
    last = [one for one in held if one.at >= seconds - max(120.0 * seconds / 3600, 2 * EVERY)]
    return [
        Result(
            "visits", f"{tally.visits:,}", f"{tally.sentences:,} sentences, {tally.heavy:,} jobs"
        ),
        Result("pages with a traceback", f"{tally.broken}", aim="0", met=tally.broken == 0),
        *(_row(name, unit, begin, last) for name, unit in _UNITS.items()),
    ]


_UNITS = {
    "memory": "MiB",
    "server": "MiB",
    "children": "MiB",
    "threads": "",
    "handles": "",
    "files": "MiB",
}
_NAMES = {
    "memory": "resident memory",
    "server": "of it, the server's own",
    "children": "of it, the other processes, which come and go",
    "threads": "threads",
    "handles": "open handles",
    "files": "temporary files",
}


def _row(name: str, unit: str, begin: list[Held], last: list[Held]) -> Result:
    first, final = (statistics.median(getattr(one, name) for one in part) for part in (begin, last))
    shown = Result(
        _NAMES[name],
        f"{final:,.0f} {unit}".strip(),
        f"{first:,.0f} {unit} at the beginning".replace("  ", " "),
        f"{final / first:.2f}" if first > 0 else "",
    )
    if name in ("server", "children"):  # parts of what has an aim
        return shown
    spare = 1.0 if name == "files" else 0.0  # what is nothing may become a little
    met = final <= first * (1 + AIM) + spare
    return replace(shown, aim=f"at most {1 + AIM:.2f}", met=met)


# -- visitors --------------------------------------------------------------------------------------


class Tally:
    """Counts of visits, sentences and jobs."""

    visits = sentences = heavy = broken = 0


async def _come_and_go(url: str, number: int, end: float, tally: Tally) -> None:
    dice = random.Random(number)
    while time.monotonic() < end:
        page, chosen = dice.choice([*PAGES, (dice.choice(LABS).address, "")])
        query = f"model={dice.choice(('tiny-bert', 'tiny-gpt2'))}{chosen}"
        tally.visits += 1
        async with opened(url, page, query) as session:
            impatient = dice.random() < 0.25
            visit = asyncio.create_task(_visit(session, dice, end, tally))
            await asyncio.wait([visit], timeout=dice.uniform(1, 20) if impatient else None)
            visit.cancel()  # who is impatient leaves in the middle
            await asyncio.gather(visit, return_exceptions=True)
            if visit.done() and not visit.cancelled() and (error := visit.exception()):
                raise error
            tally.broken += session.broken()
        await asyncio.sleep(dice.uniform(0, 5))


async def _visit(session: RawSession, dice: random.Random, end: float, tally: Tally) -> None:
    for _ in range(dice.randint(0, 8)):
        if time.monotonic() > end or not session.has_box(SENTENCE):
            return
        words = dice.choices(SENTENCES, k=dice.randint(3, 60))
        await session.run({SENTENCE: " ".join([*words, str(dice.randrange(10**6))])})
        tally.sentences += 1
        if session.query.endswith(IMPORTANCE[1]) and dice.random() < 0.2:
            button = dice.choice(HEAVY)
            if session.has_button(button):
                tally.heavy += 1
                await session.run(click=button)
        await asyncio.sleep(dice.uniform(1, 12))


# -- the server ------------------------------------------------------------------------------------


async def watched(pid: int, folder: Path, end: float) -> list[Held]:
    begin, held = time.monotonic(), []
    while time.monotonic() < end:
        held.append(_look(pid, folder, time.monotonic() - begin))
        await asyncio.sleep(EVERY)
    return held


def _look(pid: int, folder: Path, at: float) -> Held:
    own, *children = [held for one in [pid, *_children(pid)] if (held := _holds(one))]
    return Held(
        at,
        own[0],
        sum(child[0] for child in children),
        sum(one[1] for one in (own, *children)),
        sum(one[2] for one in (own, *children)),
        sum(map(_size, folder.rglob("*"))),
    )


def _size(path: Path) -> float:
    """MiB of a file; nothing of a folder, and of what has just gone."""
    with suppress(OSError):
        if path.is_file():
            return path.stat().st_size / 2**20
    return 0.0


def _holds(pid: int) -> tuple[float, float, float] | None:
    """Resident MiB, threads and handles of a process; None where it has just ended."""
    try:
        handles = len(os.listdir(f"/proc/{pid}/fd"))
        return _status(pid, "VmRSS:") / 1024, _status(pid, "Threads:"), handles
    except (FileNotFoundError, ProcessLookupError):
        return None


def _children(pid: int) -> list[int]:
    """All processes below one."""
    found = []
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # the thread, or the child, has just ended
            for child in listed.read_text().split():
                found += [int(child), *_children(int(child))]
    return found


def _status(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    return 0
