"""The limit of websockets, with a clock of the test's own: who is refused, and who makes room."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from mha_viz.ui.run.places import OPENING
from mha_viz.ui.server import websockets
from mha_viz.ui.server.websockets import SILENT, WAITING_PER_ADDRESS, Websockets


class House:
    """A server whose pages are open until they are closed."""

    def __init__(self) -> None:
        self.now, self.closed = 0.0, []
        self.inside: dict[str, asyncio.Queue] = {}
        self.server = Websockets(self._page, lambda: self.now)

    async def _page(self, scope, receive, send) -> None:
        while (await receive())["type"] != "end":
            pass

    async def come(self, name: str, address: str = "127.0.0.1") -> bool:
        """Whether it is let in, and not closed at once."""
        self.now += 0.1
        heard: asyncio.Queue = asyncio.Queue()

        async def send(message) -> None:
            self.closed.append((name, message["type"]))
            heard.put_nowait({"type": "end"})

        scope = {"type": "websocket", "headers": [], "client": (address, 1)}
        self.inside[name] = heard
        task = asyncio.create_task(self.server(scope, heard.get, send))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return not task.done()

    async def act(self, name: str) -> None:
        self.inside[name].put_nowait({"type": "websocket.receive"})
        await asyncio.sleep(0)
        await asyncio.sleep(0)


def live(story: Callable) -> None:
    """Run in a thread: a browser of other tests may have an event loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, story(House())).result()


def test_call_on_a_full_server_closes_the_oldest_page_that_nobody_used(operated, monkeypatch):
    monkeypatch.setattr(websockets, "WAITING", 1)
    operated(max_sessions=2)

    async def story(house: House) -> None:
        assert [await house.come(name) for name in "abcd"] == [True, True, True, False]
        house.now = OPENING + 1
        await house.act("a")
        house.now = SILENT + 1
        assert await house.come("e")
        assert house.closed == [("d", "websocket.close"), ("b", "websocket.close")]

    live(story)


def test_call_beyond_the_pages_of_one_address_is_refused(operated):
    operated(sessions_per_address=1)

    async def story(house: House) -> None:
        most = 1 + WAITING_PER_ADDRESS
        found = [await house.come(str(n), f"2001:4860::{n}") for n in range(most + 1)]
        assert found == [True] * most + [False]
        assert await house.come("other", "8.8.8.8")
        assert all([await house.come(f"here {n}") for n in range(9)])

    live(story)
