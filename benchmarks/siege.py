"""Attacks on a public server beside honest visitors: what these wait, and what is left behind.

`python -m benchmarks siege`, for as long as MINUTES says. Not among what `python -m benchmarks`
runs. Every attack is bounded, and sent to this machine's loopback only.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import statistics
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import urlsplit

import websockets
from streamlit.proto.BackMsg_pb2 import BackMsg

from benchmarks.app import SENTENCES, running
from benchmarks.measure import Result, Skipped, at_most
from benchmarks.raw_session import connected, opened
from benchmarks.soak import Held, watched
from mha_viz.ui.operating.settings import Settings

TITLE = "A siege"
MINUTES = float(os.environ.get("MINUTES", "10"))
HONEST, ALONE = 3, 100  # visitors; sentences of one of them before the siege begins
FIRST = 5  # sentences of the one alone that wait for libraries and the model
SLOWER = 3  # times the 95th percentile of a visitor who is alone
SOCKETS, HALVES, PAGES = 400, 200, 80
FLOODING, FLOOD = 25, 2_000  # pages, and messages of each
CALM = 90.0  # seconds in which nothing may be left of the attacks
ABOUT = f"""`mha-viz app --public` for {MINUTES:.0f} minutes. {HONEST} honest visitors type a
sentence every five seconds. All of this goes on beside them, from one address: messages of 8 MB and
endless fragmented ones on websockets, {SOCKETS} idle sockets, {HALVES} half-sent requests,
{PAGES} pages that are opened and never used, studies whose pages are left, files for sessions with
invented names, {FLOOD:,} messages without a pause on each of {FLOODING} pages, and messages that
hold 400,000 names of files or 140,000 widgets or ask to empty all caches. Who is turned away comes
back after a second. Seconds count from Enter to all
heads."""
ATTACKER, VISITOR = "203.0.113.7", "198.51.100.{}"  # for documentation (RFC 5737)
Attack = Callable[[str, Counter[str]], Awaitable[None]]
_REFUSED = (OSError, EOFError, asyncio.TimeoutError, websockets.WebSocketException)


def measure(minutes: float = MINUTES) -> list[Result]:
    if not Path("/proc/self/fd").exists():
        raise Skipped("no /proc: what a process holds is read there")
    return asyncio.run(_measured(60 * minutes))


async def _measured(seconds: float) -> list[Result]:
    most = Settings.__dataclass_fields__["memory_mb"].metadata["public"]
    environment = {"MHA_VIZ_PUBLIC": "1", "MHA_VIZ_TRUSTED_PROXIES": "127.0.0.1"}
    with (
        tempfile.TemporaryDirectory() as folder,
        running(TMPDIR=folder, **environment) as (url, pid),
    ):
        alone: list[float] = []
        await _visit(url, 1, alone, lambda: len(alone) >= ALONE + FIRST)
        before = (await watched(pid, Path(folder), time.monotonic() + 1))[-1]
        end, waited = time.monotonic() + seconds, list[float]()
        honest = [
            _visit(url, number, waited, lambda: time.monotonic() > end)
            for number in range(2, 2 + HONEST)
        ]
        with _attacked(url) as told:
            held, *broken = await asyncio.gather(watched(pid, Path(folder), end), *honest)
        after = await _calmed(url, pid, Path(folder), before)
    alone = alone[FIRST:]
    slow, lone = (statistics.quantiles(each, n=20)[-1] for each in (waited, alone))
    peak = max(one.memory for one in held) * 2**20 / 10**6
    left = after.handles - before.handles
    tries = ", ".join(f"{n:,} {name}" for name, n in told.items())
    return [
        Result(
            f"95 % of {len(waited):,} sentences within",
            f"{slow:.2f} s",
            f"{lone:.2f} s alone",
            f"{slow / lone:.1f}",
            f"at most {SLOWER}",
            at_most(slow / lone, SLOWER),
        ),
        Result("pages with a traceback", f"{sum(broken)}", aim="0", met=sum(broken) == 0),
        Result("most memory", f"{peak:,.0f} MB", aim=f"at most {most:,} MB", met=peak <= most),
        Result("open handles left behind", f"{left:,.0f}", tries, aim="at most 10", met=left <= 10),
        Result(
            "temporary files left behind",
            f"{after.files - before.files:,.0f} MiB",
            aim="at most 64 MiB",
            met=after.files - before.files <= 64,
        ),
    ]


async def _visit(url: str, number: int, waited: list[float], done: Callable[[], bool]) -> bool:
    """Be one honest visitor, and return whether a traceback was ever on the page."""
    dice, broken = random.Random(number), False
    async with opened(url, headers=_from(VISITOR.format(number))) as session:
        while not done():
            words = dice.choices(SENTENCES, k=dice.randint(4, 30))
            waited.append(await session.enter(" ".join([*words, str(dice.randrange(10**6))])))
            broken |= session.broken()
            await asyncio.sleep(0 if number == 1 else 5)
    return broken


async def _calmed(url: str, pid: int, folder: Path, before: Held) -> Held:
    """Return what the server holds once it has let go of the attacks, or after a while."""
    end = time.monotonic() + CALM
    while True:
        with suppress(*_REFUSED):
            async with opened(url, headers=_from(VISITOR.format(0))):
                pass  # with whom Streamlit forgets the sessions that have left
        (found, *_) = await watched(pid, folder, time.monotonic() + 1)
        if time.monotonic() > end or (_ready(url) and found.handles <= before.handles + 10):
            return found


def _ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}readyz", timeout=5):
            return True
    except OSError:
        return False


def _from(address: str) -> dict[str, str]:
    return {"X-Forwarded-For": address}


# -- attacks ---------------------------------------------------------------------------------------


@contextmanager
def _attacked(url: str) -> Iterator[Counter[str]]:
    """Attack from another process, so that no attack holds up the clocks of the visitors here.

    What was tried is counted when the block has ended.
    """
    context, told = multiprocessing.get_context("spawn"), Counter[str]()
    here, there = context.Pipe()
    process = context.Process(target=_attack, args=(url, there), daemon=True)
    process.start()
    there.close()
    try:
        yield told
        here.send(None)
        told.update(here.recv())
    finally:
        process.kill()
        process.join()


def _attack(url: str, outside: Connection) -> None:
    outside.send(asyncio.run(_until_told(url, outside)))


async def _until_told(url: str, outside: Connection) -> Counter[str]:
    told = Counter[str]()
    attacks = [asyncio.create_task(_again(one, url, told)) for one in ATTACKS]
    await asyncio.to_thread(outside.recv)
    for attack in attacks:
        attack.cancel()
    await asyncio.gather(*attacks, return_exceptions=True)
    return told


async def _again(attack: Attack, url: str, told: Counter[str]) -> None:
    while True:
        with suppress(*_REFUSED):
            await attack(url, told)
        await asyncio.sleep(1)


async def _large_messages(url: str, told: Counter[str]) -> None:
    async with connected(url, _from(ATTACKER)) as socket:
        for _ in range(4):
            await socket.send(bytes(8 * 2**20))
            told["large messages"] += 1


async def _endless_message(url: str, told: Counter[str]) -> None:
    async def parts() -> AsyncIterator[bytes]:
        while True:
            told["MiB of fragments"] += 1
            yield bytes(2**20)
            await asyncio.sleep(0.2)

    async with connected(url, _from(ATTACKER)) as socket:
        await socket.send(parts())


async def _idle_sockets(url: str, told: Counter[str]) -> None:
    await _held(url, b"", SOCKETS, told, "idle sockets")


async def _half_requests(url: str, told: Counter[str]) -> None:
    begun = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
    await _held(url, begun, HALVES, told, "half-sent requests")


async def _held(url: str, said: bytes, n: int, told: Counter[str], name: str) -> None:
    """Hold connections for a minute, or until the server has closed half of them."""
    where, held = urlsplit(url), []
    try:
        for _ in range(n):
            reader, writer = await asyncio.open_connection(where.hostname, where.port)
            held.append((reader, writer))
            told[name] += 1
            writer.write(said)
        for _ in range(60):
            await asyncio.sleep(1)
            if sum(reader.at_eof() for reader, _ in held) > n // 2:
                return
    finally:
        for _, writer in held:
            writer.close()


async def _pages(url: str, told: Counter[str]) -> None:
    async def page() -> None:
        with suppress(*_REFUSED):
            async with opened(url, headers=_from(ATTACKER)):
                told["pages"] += 1
                await asyncio.sleep(20)

    await asyncio.gather(*(page() for _ in range(PAGES)))


async def _left_studies(url: str, told: Counter[str]) -> None:
    async with opened(url, "many_texts", headers=_from(ATTACKER)) as session:
        texts = [" ".join(random.choices(SENTENCES, k=30)) for _ in range(2_000)]
        await session.run(unfold="own-texts")
        study = session.run({"own-typed": "\n".join(texts)}, "Study them", "own-texts")
        told["studies"] += 1
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(study, 10)  # and the page is left while it runs


async def _invented_uploads(url: str, told: Counter[str]) -> None:
    host = urlsplit(url)
    for _ in range(20):
        reader, writer = await asyncio.open_connection(host.hostname, host.port)
        name = random.randbytes(8).hex()
        head = f"PUT /_stcore/upload_file/{name}/{name} HTTP/1.1\r\nHost: {host.netloc}\r\n"
        writer.write(f"{head}Content-Length: 1\r\nConnection: close\r\n\r\nx".encode())
        await asyncio.wait_for(reader.read(), 30)
        writer.close()
        told["uploads"] += 1


async def _floods(url: str, told: Counter[str]) -> None:
    message = BackMsg()
    message.rerun_script.query_string = "text=a"

    async def page() -> None:
        with suppress(*_REFUSED):
            async with connected(url, _from(ATTACKER)) as socket:
                for _ in range(FLOOD):
                    await socket.send(message.SerializeToString())
                    told["small messages"] += 1

    await asyncio.gather(*(page() for _ in range(FLOODING)))


async def _full_messages(url: str, told: Counter[str]) -> None:
    names, states, emptied = BackMsg(), BackMsg(), BackMsg(clear_cache=True)
    files = names.rerun_script.widget_states.widgets.add(id="own-file").file_uploader_state_value
    for _ in range(400_000):
        files.uploaded_file_info.add()
    for number in range(140_000):
        states.rerun_script.widget_states.widgets.add(id=f"{number:x}")
    for message in (names, states, emptied):
        with suppress(*_REFUSED):
            async with connected(url, _from(ATTACKER)) as socket:
                await socket.send(message.SerializeToString())
                told["messages of names, of states and to empty caches"] += 1
                await asyncio.wait_for(socket.wait_closed(), 10)


ATTACKS: tuple[Attack, ...] = (
    *(_large_messages, _endless_message, _idle_sockets, _half_requests),
    *(_pages, _left_studies, _invented_uploads, _floods, _full_messages),
)
