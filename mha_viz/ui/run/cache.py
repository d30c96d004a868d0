"""A cache of results, bounded in bytes and shared by all visitors."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

MIB = 2**20
T = TypeVar("T")


@dataclass(eq=False)
class Visitor:
    """One open page of the app, and what it shows."""

    session: str = ""
    in_view: OrderedDict[Hashable, int] = field(default_factory=OrderedDict)  # bytes, latest last
    text: Hashable = None
    closed: bool = False


@dataclass(eq=False)
class _Pending:
    """A result that is being made, for all who wait for it."""

    by: int = field(default_factory=threading.get_ident)
    over: threading.Event = field(default_factory=threading.Event)
    values: tuple[Any, ...] = ()  # none where making it failed


@dataclass
class _Item:
    value: Any
    n_bytes: int
    seen_by: set[Visitor] = field(default_factory=set)


class Cache:
    """Results by key; the least recently used are dropped first. Safe to share between threads.

    Results on a page are kept up to one limit, all others up to a smaller one, so that a server
    without visitors holds little.
    """

    def __init__(
        self,
        max_bytes: int = 1024 * MIB,  # of everything; a larger result is not kept
        max_unseen: int = 96 * MIB,  # of what no page shows
        max_of_one: int = 640 * MIB,  # that one visitor sees; beyond it the oldest are unseen
        current_visitor: Callable[[], Visitor | None] = lambda: None,  # whose page runs
        on_drop: Callable[[int], object] = lambda n_bytes: None,  # called with the dropped bytes
        # for another thread that makes the same result; what it raises is passed on
        wait: Callable[[threading.Event], object] = threading.Event.wait,
    ) -> None:
        self.max_bytes, self.max_unseen, self.max_of_one = max_bytes, max_unseen, max_of_one
        self.current_visitor, self.on_drop, self.wait = current_visitor, on_drop, wait
        self.n_bytes = 0
        self._items: OrderedDict[Hashable, _Item] = OrderedDict()
        self._pending: dict[Hashable, _Pending] = {}
        self._lock = threading.RLock()

    def get(self, key: Hashable, make: Callable[[], T], size: Callable[[T], int]) -> T:
        """Return the result under `key`, made outside the lock where it is missing.

        Threads that need the same result wait for the first one; where that fails or is cancelled,
        the next makes it. The page that runs shows it from then on. What does not fit is returned,
        but not kept.
        """
        visitor = self.current_visitor()  # now: they may leave while the result is made
        while True:
            with self._lock:
                item = self._items.get(key)
                if item is not None:
                    self._items.move_to_end(key)
                    self._mark_seen(visitor, key, item)
                    self._trim()
                    cached_value: T = item.value
                    return cached_value
                pending = self._pending.get(key)
                if pending is None or pending.by == threading.get_ident():
                    pending = self._pending[key] = _Pending()
                    break
            self.wait(pending.over)
            if pending.values:
                value: T = pending.values[0]
                self._keep(key, value, size(value), visitor)
                return value
        try:
            value = make()
            self._keep(key, value, size(value), visitor)
            pending.values = (value,)
            return value
        finally:
            with self._lock:
                if self._pending.get(key) is pending:
                    del self._pending[key]
            pending.over.set()

    def find(self, key: Hashable) -> Any:
        """Return the result under `key`, or None where it is not kept (any more)."""
        with self._lock:
            if key not in self._items:
                return None
            self._items.move_to_end(key)
            return self._items[key].value

    def show_text(self, text: Hashable) -> None:
        """Note which text the visitor's page shows: it no longer shows results of the last one."""
        visitor = self.current_visitor()
        with self._lock:
            if visitor is not None and visitor.text != text:
                visitor.text = text
                self._unmark_seen(visitor)

    def leave(self, visitor: Visitor) -> None:
        """Note that a page was closed; a run of it that has not ended yet shows nothing more."""
        with self._lock:
            visitor.closed = True
            self._unmark_seen(visitor)

    def drop(self, everything: bool) -> None:
        """Drop what no page shows, or everything, which pages then make again."""
        with self._lock:
            before = self.n_bytes
            for key, item in list(self._items.items()):
                if everything or not item.seen_by:
                    self._drop(key)
            if self.n_bytes < before:
                self.on_drop(before - self.n_bytes)

    def __len__(self) -> int:
        return len(self._items)

    def _keep(self, key: Hashable, value: Any, n_bytes: int, visitor: Visitor | None) -> None:
        with self._lock:
            has_visitor = visitor is not None and not visitor.closed
            if n_bytes > (self.max_bytes if has_visitor else self.max_unseen):
                return
            item = _Item(value, n_bytes)
            before = self._items.pop(key, None)
            if before is not None:  # somebody else keeps it already
                self.n_bytes -= before.n_bytes
                item.seen_by = before.seen_by
            self._items[key] = item
            self.n_bytes += item.n_bytes
            self._mark_seen(visitor, key, item)
            self._trim()

    # Below, the lock is held.

    def _mark_seen(self, visitor: Visitor | None, key: Hashable, item: _Item) -> None:
        if visitor is None or visitor.closed:
            return
        visitor.in_view.pop(key, None)
        visitor.in_view[key] = item.n_bytes
        item.seen_by.add(visitor)
        while sum(visitor.in_view.values()) > self.max_of_one and len(visitor.in_view) > 1:
            oldest, _ = visitor.in_view.popitem(last=False)
            self._items[oldest].seen_by.discard(visitor)

    def _unmark_seen(self, visitor: Visitor) -> None:
        for key in visitor.in_view:
            self._items[key].seen_by.discard(visitor)
        visitor.in_view.clear()
        self._trim()

    def _trim(self) -> None:
        before = self.n_bytes
        while self.n_bytes > self.max_bytes:
            self._drop(next(iter(self._items)))
        unseen = {key: item.n_bytes for key, item in self._items.items() if not item.seen_by}
        n_unseen = sum(unseen.values())
        # What alone is too large goes before it pushes out everything else.
        for key in sorted(unseen, key=lambda key: unseen[key] <= self.max_unseen):
            if n_unseen <= self.max_unseen:
                break
            n_unseen -= unseen[key]
            self._drop(key)
        if self.n_bytes < before:
            self.on_drop(before - self.n_bytes)

    def _drop(self, key: Hashable) -> None:
        item = self._items.pop(key)
        self.n_bytes -= item.n_bytes
        for visitor in item.seen_by:
            visitor.in_view.pop(key, None)
