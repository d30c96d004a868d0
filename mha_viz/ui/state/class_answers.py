"""Predictions of a class: anonymous votes by class code, in this server's memory and nowhere else.

Knows no page. Everything is bounded: a class that nobody has used for longest goes first.
"""

import functools
import secrets
import threading
from collections import Counter, OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that looks like another one
CODE = 5  # letters of a code: not to be guessed while a lesson lasts
MAX_CLASSES = 16
MAX_QUESTIONS = 64  # in a class
MAX_PUPILS = 200  # who answer one question
MAX_BROWSERS = MAX_CLASSES * MAX_PUPILS  # whose class is known when they come back


class _Vote(NamedTuple):
    option: int | None = None
    seen: bool = False  # the answer, after which no vote counts


class Place(NamedTuple):
    """The stop of the lesson where a class is, from 1 (0: none yet), and its moves so far."""

    stop: int = 0
    moves: int = 0


@dataclass
class _Class:
    leader: str  # the browser that opened it
    place: Place = field(default_factory=Place)
    votes: OrderedDict[Hashable, dict[str, _Vote]] = field(default_factory=OrderedDict)


class Classes:
    """Classes by their codes; safe to share between threads.

    A browser is a random name: who sits before it is not known.
    """

    def __init__(self) -> None:
        self._classes: OrderedDict[str, _Class] = OrderedDict()
        self._joined: OrderedDict[str, str] = OrderedDict()  # browser -> code
        self._lock = threading.Lock()

    def open(self, browser: str) -> str:
        """Open a class that this browser leads; return its code."""
        code = "".join(secrets.choice(LETTERS) for _ in range(CODE))
        with self._lock:
            self._classes[code] = _Class(browser)
            while len(self._classes) > MAX_CLASSES:
                self._classes.popitem(last=False)
        self.join(code, browser)
        return code

    def close(self, code: str) -> None:
        """Forget a class and all its votes."""
        with self._lock:
            self._classes.pop(code, None)

    def __contains__(self, code: str) -> bool:
        return code in self._classes

    def join(self, code: str, browser: str) -> None:
        """Remember which class a browser is in: the last one that it came to."""
        with self._lock:
            self._joined[browser] = code
            self._joined.move_to_end(browser)
            while len(self._joined) > MAX_BROWSERS:
                self._joined.popitem(last=False)

    def of(self, browser: str) -> str | None:
        """Return the class that a browser is in, if it is still on."""
        code = self._joined.get(browser)
        return code if code in self._classes else None

    def leads(self, code: str, browser: str) -> bool:
        """Return whether this browser opened this class."""
        found = self._classes.get(code)
        return found is not None and found.leader == browser

    def size(self, code: str) -> int:
        """Count the browsers that are in a class, without its leader."""
        with self._lock:
            return sum(
                joined == code and not self.leads(code, browser)
                for browser, joined in self._joined.items()
            )

    def bring(self, code: str, stop: int) -> None:
        """Move a class to a stop of the lesson, from 1; once more also to the one where it is."""
        with self._lock:
            if code in self._classes:
                found = self._classes[code]
                found.place = Place(stop, found.place.moves + 1)
                self._classes.move_to_end(code)

    def place(self, code: str) -> Place:
        """Return where a class is."""
        found = self._classes.get(code)
        return Place() if found is None else found.place

    def vote(self, code: str, question: Hashable, browser: str, option: int) -> None:
        """Note a prediction. The last one counts, but none after the answer was seen."""
        self._note(code, question, browser, option)

    def see(self, code: str, question: Hashable, browser: str) -> None:
        """Note that the answer has been seen."""
        self._note(code, question, browser, None)

    def _note(self, code: str, question: Hashable, browser: str, option: int | None) -> None:
        """Note a vote, unless the class is full."""
        with self._lock:
            if code not in self._classes:
                return
            self._classes.move_to_end(code)
            votes = self._classes[code].votes
            if question not in votes and len(votes) >= MAX_QUESTIONS:
                return
            answers = votes.setdefault(question, {})
            before = answers.get(browser, _Vote())
            if before.seen or (browser not in answers and len(answers) >= MAX_PUPILS):
                return
            seen = option is None
            answers[browser] = _Vote(before.option if seen else option, seen)

    def counts(self, code: str, question: Hashable, options: int) -> tuple[int, ...]:
        """Count the votes for each option."""
        with self._lock:
            found = self._classes.get(code)
            votes = {} if found is None else found.votes.get(question, {})
            chosen = Counter(vote.option for vote in votes.values())
        return tuple(chosen[option] for option in range(options))


@functools.cache
def classes() -> Classes:
    """Return this server's classes."""
    return Classes()


@functools.cache
def first_class() -> tuple[str, str]:
    """Open the class of a server that keeps one; return its code, and the browser that leads it."""
    leader = secrets.token_urlsafe(16)
    return classes().open(leader), leader
