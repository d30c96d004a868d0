"""Predictions of a class: anonymous votes by class code, in this server's memory and nowhere else.

Servers that share a folder keep them there together. Knows no page. Everything is bounded: a class
that nobody has used for longest goes first.
"""

import functools
import secrets
import sqlite3
import threading
from collections.abc import Hashable
from pathlib import Path
from typing import Any, NamedTuple

from mha_viz.errors import SettingsError
from mha_viz.ui.operating.settings import settings

LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that looks like another one
CODE = 5  # letters of a code: not to be guessed while a lesson lasts
MAX_CLASSES = 16
MAX_QUESTIONS = 64  # in a class
MAX_PUPILS = 200  # who answer one question
MAX_BROWSERS = MAX_CLASSES * MAX_PUPILS  # whose class is known when they come back
FILE = "classes.sqlite"  # in the folder that servers share
_PATIENCE = 10.0  # seconds that a server waits for another one to write
# A browser that joins anew gets a row number above all others: the lowest joined first.
_TABLES = """
create table if not exists classes (
    code text primary key, leader text, used integer,
    stop integer default 0, moves integer default 0
);
create table if not exists joined (browser text primary key, code text);
create table if not exists votes (
    code text, question text, browser text, option integer, seen integer,
    primary key (code, question, browser)
);
create table if not exists first (one integer primary key check (one = 1), code text, leader text);
"""
_OF_A_CLASS = ("classes", "votes")
_USE = "update classes set used = (select max(used) + 1 from classes) where code = ?"


class Place(NamedTuple):
    """The stop of the lesson where a class is, from 1 (0: none yet), and its moves so far."""

    stop: int = 0
    moves: int = 0


class Classes:
    """Classes by their codes; safe to share between threads, and between servers by a file.

    A browser is a random name: who sits before it is not known.
    """

    def __init__(self, path: str | Path = ":memory:") -> None:
        self._lock = threading.RLock()
        self._database = sqlite3.connect(
            path, timeout=_PATIENCE, isolation_level="IMMEDIATE", check_same_thread=False
        )
        self._database.executescript(_TABLES)

    def _all(self, statement: str, *values: object) -> list[Any]:
        with self._lock:
            return self._database.execute(statement, values).fetchall()

    def _write(self, *statements: tuple[Any, ...]) -> int:
        """Run statements and their values as one change; return how many rows the last changed."""
        with self._lock, self._database:
            changed = [self._database.execute(one, values).rowcount for one, *values in statements]
        return changed[-1]

    def open(self, browser: str) -> str:
        """Open a class that this browser leads; return its code."""
        code = _code()
        self._open(code, browser)
        return code

    def _open(self, code: str, browser: str) -> None:
        new = "insert or ignore into classes (code, leader, used) values (?, ?, 0)"
        self._write((new, code, browser), (_USE, code))
        for (other,) in self._all(
            "select code from classes order by used desc limit -1 offset ?", MAX_CLASSES
        ):
            self.close(other)
        self.join(code, browser)

    def first(self, browser: str) -> tuple[str, str]:
        """Open a class that this browser leads, unless one was opened so before.

        Return its code and its leader: the same to all servers that share their classes.
        """
        self._write(("insert or ignore into first values (1, ?, ?)", _code(), browser))
        ((code, leader),) = self._all("select code, leader from first")
        if code not in self:  # new, or ended before the servers were
            self._open(code, leader)
        return code, leader

    def close(self, code: str) -> None:
        """Forget a class and all its votes."""
        self._write(*((f"delete from {table} where code = ?", code) for table in _OF_A_CLASS))

    def __contains__(self, code: str) -> bool:
        return bool(self._all("select 1 from classes where code = ?", code))

    def join(self, code: str, browser: str) -> None:
        """Remember which class a browser is in: the last one that it came to."""
        if self._all("select 1 from joined where browser = ? and code = ?", browser, code):
            return  # every run of a page says so again
        newest = "select rowid from joined order by rowid desc limit ?"
        self._write(
            ("insert or replace into joined values (?, ?)", browser, code),
            (f"delete from joined where rowid not in ({newest})", MAX_BROWSERS),
        )

    def of(self, browser: str) -> str | None:
        """Return the class that a browser is in, if it is still on."""
        found = self._all("select code from joined natural join classes where browser = ?", browser)
        return found[0][0] if found else None

    def leads(self, code: str, browser: str) -> bool:
        """Return whether this browser opened this class."""
        return bool(self._all("select 1 from classes where code = ? and leader = ?", code, browser))

    def size(self, code: str) -> int:
        """Count the browsers that are in a class, without its leader."""
        joined = "select count(*) from joined natural join classes where code = ?"
        found: int = self._all(f"{joined} and browser != leader", code)[0][0]
        return found

    def bring(self, code: str, stop: int) -> None:
        """Move a class to a stop of the lesson, from 1; once more also to the one where it is."""
        move = "update classes set stop = ?, moves = moves + 1 where code = ?"
        self._write((move, stop, code), (_USE, code))

    def place(self, code: str) -> Place:
        """Return where a class is."""
        found = self._all("select stop, moves from classes where code = ?", code)
        return Place(*found[0]) if found else Place()

    def vote(self, code: str, question: Hashable, browser: str, option: int) -> None:
        """Note a prediction. The last one counts, but none after the answer was seen."""
        self._note(code, question, browser, option)

    def see(self, code: str, question: Hashable, browser: str) -> None:
        """Note that the answer has been seen."""
        self._note(code, question, browser, None)

    def _note(self, code: str, question: Hashable, browser: str, option: int | None) -> None:
        """Note a vote, unless the class is full."""
        key, asked = (code, repr(question)), "from votes where code = ? and question = ?"
        before = self._all(f"select option, seen {asked} and browser = ?", *key, browser)
        if code not in self or (before and (before[0][1] or before[0][0] == option)):
            return
        (n_pupils,) = self._all(f"select count(*) {asked}", *key)[0]
        questions = "select count(distinct question) from votes where code = ?"
        full = n_pupils >= MAX_PUPILS
        full = full or (not n_pupils and self._all(questions, code)[0][0] >= MAX_QUESTIONS)
        if before or not full:
            seen = option is None
            vote = (*key, browser, before[0][0] if seen and before else option, seen)
            new = "insert or replace into votes values (?, ?, ?, ?, ?)"
            self._write((new, *vote), (_USE, code))

    def counts(self, code: str, question: Hashable, options: int) -> tuple[int, ...]:
        """Count the votes for each option."""
        votes = "select option, count(*) from votes where code = ? and question = ? group by option"
        chosen = dict(self._all(votes, code, repr(question)))
        return tuple(chosen.get(option, 0) for option in range(options))


def _code() -> str:
    return "".join(secrets.choice(LETTERS) for _ in range(CODE))


@functools.cache
def classes() -> Classes:
    """Return this server's classes, or those of all servers that share its folder.

    Raises:
        SettingsError: the folder cannot be written.
    """
    if not settings().shared:
        return Classes()
    folder = Path(settings().shared)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return Classes(folder / FILE)
    except (OSError, sqlite3.Error) as error:
        raise SettingsError(
            f"shared: expected a folder that can be written, got {folder}: {error}."
        ) from error


@functools.cache
def first_class() -> tuple[str, str]:
    """Open the class of a server that keeps one; return its code, and the browser that leads it."""
    return classes().first(secrets.token_urlsafe(16))
