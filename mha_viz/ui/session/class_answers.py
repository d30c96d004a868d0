"""What a class predicts: anonymous votes by class code, in this server's memory and nowhere else.

Knows no page. Everything is bounded: a class that nobody has used for longest goes first.
"""

from __future__ import annotations

import functools
import secrets
import threading
from collections import Counter, OrderedDict
from collections.abc import Hashable
from typing import TypeAlias

LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that looks like another one
CODE = 5  # letters of a code: not to be guessed while a lesson lasts
MAX_CLASSES = 16
MAX_QUESTIONS = 64  # in a class
MAX_PUPILS = 200  # who answer one question

Votes: TypeAlias = "OrderedDict[Hashable, dict[str, int]]"  # question -> page -> option


class Classes:
    """Classes by their codes; safe to share between threads."""

    def __init__(self) -> None:
        self._classes: OrderedDict[str, Votes] = OrderedDict()
        self._lock = threading.Lock()

    def open(self) -> str:
        """A new class; its code."""
        with self._lock:
            code = "".join(secrets.choice(LETTERS) for _ in range(CODE))
            self._classes[code] = OrderedDict()
            while len(self._classes) > MAX_CLASSES:
                self._classes.popitem(last=False)
        return code

    def close(self, code: str) -> None:
        """Forget a class and all its votes."""
        with self._lock:
            self._classes.pop(code, None)

    def __contains__(self, code: str) -> bool:
        return code in self._classes

    def vote(self, code: str, question: Hashable, page: str, option: int) -> None:
        """Note what one open page predicts; its last answer counts. Full classes take no more."""
        with self._lock:
            if code not in self._classes:
                return
            self._classes.move_to_end(code)
            votes = self._classes[code]
            if question not in votes and len(votes) >= MAX_QUESTIONS:
                return
            answers = votes.setdefault(question, {})
            if page in answers or len(answers) < MAX_PUPILS:
                answers[page] = option

    def counts(self, code: str, question: Hashable, options: int) -> tuple[int, ...]:
        """How many chose each option."""
        with self._lock:
            votes = self._classes.get(code, OrderedDict()).get(question, {})
            found = Counter(votes.values())
        return tuple(found[option] for option in range(options))


@functools.cache
def classes() -> Classes:
    """Those of this server."""
    return Classes()
