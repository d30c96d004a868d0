"""What was made and may be wanted again: bounded in bytes, and shared by all visitors."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

MIB = 2**20
T = TypeVar("T")


@dataclass(eq=False)
class Visitor:
    """One open page of the app, and the things it looks at: key -> bytes, the latest last."""

    session: str = ""
    looks_at: OrderedDict[Hashable, int] = field(default_factory=OrderedDict)
    text: Hashable = None
    gone: bool = False


class _Making:
    """Something that is being made, and those who wait for it."""

    def __init__(self) -> None:
        self.by = threading.get_ident()
        self.over = threading.Event()
        self.things: tuple[Any, ...] = ()  # none where who made it has given up


@dataclass
class _Item:
    thing: Any
    n_bytes: int
    seen_by: set[Visitor] = field(default_factory=set)


class Cache:
    """Things by key; the least recently used go first. Safe to share between threads.

    What somebody looks at stays while there is room for everything. What nobody looks at stays in
    a smaller room, so that a server without visitors holds little.

    Args:
        room: bytes of everything; what alone is larger is not kept.
        spare: bytes of what nobody looks at.
        share: bytes that one visitor may look at; beyond them, what they saw longest ago counts as
            unseen.
        who: whose page asks; None where no page does.
        on_drop: called with the bytes that were let go, where there were any.
        wait: waits for another thread that makes the same thing. What it raises is passed on.
    """

    def __init__(
        self,
        room: int = 1024 * MIB,
        spare: int = 96 * MIB,
        share: int = 640 * MIB,
        who: Callable[[], Visitor | None] = lambda: None,
        on_drop: Callable[[int], object] = lambda n_bytes: None,
        wait: Callable[[threading.Event], object] = threading.Event.wait,
    ) -> None:
        self.room, self.spare, self.share = room, spare, share
        self.who, self.on_drop, self.wait = who, on_drop, wait
        self.n_bytes = 0
        self._items: OrderedDict[Hashable, _Item] = OrderedDict()
        self._making: dict[Hashable, _Making] = {}
        self._lock = threading.RLock()

    def get(self, key: Hashable, make: Callable[[], T], size: Callable[[T], int]) -> T:
        """The thing under `key`, made where it is not there (outside the lock: it may be slow).

        Who asks for what somebody makes just now waits for it; where that one gives up, by an error
        or because nobody waits there any more, the next makes it. The visitor whose page asks looks
        at it from then on. What does not fit is handed out, but not kept.
        """
        visitor = self.who()  # now: they may leave while the thing is made
        while True:
            with self._lock:
                item = self._items.get(key)
                if item is not None:
                    self._items.move_to_end(key)
                    self._look(visitor, key, item)
                    self._trim()
                    found: T = item.thing
                    return found
                making = self._making.get(key)
                if making is None or making.by == threading.get_ident():
                    making = self._making[key] = _Making()
                    break
            self.wait(making.over)
            if making.things:
                thing: T = making.things[0]
                self._keep(key, thing, size(thing), visitor)
                return thing
        try:
            thing = make()
            self._keep(key, thing, size(thing), visitor)
            making.things = (thing,)
            return thing
        finally:
            with self._lock:
                if self._making.get(key) is making:
                    del self._making[key]
            making.over.set()

    def find(self, key: Hashable) -> Any:
        """The thing under `key`, or None where it is not there (any more)."""
        with self._lock:
            item = self._items.get(key)
            if item is None:
                return None
            self._items.move_to_end(key)
            return item.thing

    def turn_to(self, text: Hashable) -> None:
        """A visitor's page shows another text: they no longer look at what was made of the last."""
        visitor = self.who()
        with self._lock:
            if visitor is not None and visitor.text != text:
                visitor.text = text
                self._look_away(visitor)

    def leave(self, visitor: Visitor) -> None:
        """A page was closed. What only it looked at is dropped where the spare room is too small.

        A run of the page that has not noticed yet no longer counts as looking at anything.
        """
        with self._lock:
            visitor.gone = True
            self._look_away(visitor)

    def let_go(self, everything: bool) -> None:
        """Drop what nobody looks at, or everything: what is looked at is then made again."""
        with self._lock:
            before = self.n_bytes
            for key, item in list(self._items.items()):
                if everything or not item.seen_by:
                    self._drop(key)
            if self.n_bytes < before:
                self.on_drop(before - self.n_bytes)

    def __len__(self) -> int:
        return len(self._items)

    def _keep(self, key: Hashable, thing: Any, n_bytes: int, visitor: Visitor | None) -> None:
        with self._lock:
            seen = visitor is not None and not visitor.gone
            if n_bytes > (self.room if seen else self.spare):
                return
            item = _Item(thing, n_bytes)
            before = self._items.pop(key, None)
            if before is not None:  # somebody else keeps it already
                self.n_bytes -= before.n_bytes
                item.seen_by = before.seen_by
            self._items[key] = item
            self.n_bytes += item.n_bytes
            self._look(visitor, key, item)
            self._trim()

    # -- inside, under the lock --------------------------------------------------------------------

    def _look(self, visitor: Visitor | None, key: Hashable, item: _Item) -> None:
        if visitor is None or visitor.gone:
            return
        visitor.looks_at.pop(key, None)
        visitor.looks_at[key] = item.n_bytes
        item.seen_by.add(visitor)
        while sum(visitor.looks_at.values()) > self.share and len(visitor.looks_at) > 1:
            oldest, _ = visitor.looks_at.popitem(last=False)
            self._items[oldest].seen_by.discard(visitor)

    def _look_away(self, visitor: Visitor) -> None:
        for key in visitor.looks_at:
            self._items[key].seen_by.discard(visitor)
        visitor.looks_at.clear()
        self._trim()

    def _trim(self) -> None:
        before = self.n_bytes
        while self.n_bytes > self.room:
            self._drop(next(iter(self._items)))
        unseen = {key: item.n_bytes for key, item in self._items.items() if not item.seen_by}
        spare = sum(unseen.values())
        # What alone is too large goes before it pushes out everything else.
        for key in sorted(unseen, key=lambda key: unseen[key] <= self.spare):
            if spare <= self.spare:
                break
            spare -= unseen[key]
            self._drop(key)
        if self.n_bytes < before:
            self.on_drop(before - self.n_bytes)

    def _drop(self, key: Hashable) -> None:
        item = self._items.pop(key)
        self.n_bytes -= item.n_bytes
        for visitor in item.seen_by:
            visitor.looks_at.pop(key, None)
