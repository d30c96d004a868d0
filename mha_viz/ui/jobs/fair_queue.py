"""A queue in which sessions take turns, however many requests each of them has."""

from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Waiting things in the order of their turns.

    Every request of a session goes one round later than its last one. So the first of each session
    come before the second of any, in the order of arrival, and nobody waits for ever: who comes
    later begins no earlier than in the round that has its turn.

    >>> order = FairQueue()
    >>> for request, session in ("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("c1", "c"):
    ...     order.add(request, session)
    >>> list(order)
    ['a1', 'b1', 'c1', 'a2', 'a3']
    """

    def __init__(self) -> None:
        self._round = 0  # that has its turn
        self._had: dict[str, int] = {}  # session -> the round of its latest turn
        self._waits: dict[T, tuple[int, str]] = {}  # in the order of arrival

    def add(self, item: T, session: str) -> None:
        """Add a thing, or give one that waits another session's turn if it is sooner."""
        turns = [turn for turn, who in self._waits.values() if who == session]
        turn = max(self._round, *(1 + before for before in (self._had.get(session, -1), *turns)))
        if item not in self._waits or turn < self._waits[item][0]:
            self._waits[item] = (turn, session)

    def take(self, item: T) -> None:
        """Remove a thing whose turn has come."""
        turn, session = self._waits.pop(item)
        self._round, self._had[session] = max(self._round, turn), turn
        # Whose latest turn was in an earlier round is as good as new.
        self._had = {who: turn for who, turn in self._had.items() if turn >= self._round}

    def remove(self, item: T) -> None:
        """Remove a thing that waits no more."""
        self._waits.pop(item)

    def __iter__(self) -> Iterator[T]:
        return iter(sorted(self._waits, key=lambda item: self._waits[item][0]))

    def __len__(self) -> int:
        return len(self._waits)
