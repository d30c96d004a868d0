"""Predictions of a class: anonymous votes by class code, in this server's memory and nowhere else.

Servers that share a folder keep them there together. Knows no page. Everything is bounded: a class
that nobody has used for longest goes first.
"""

import functools
import secrets
import sqlite3
from collections.abc import Hashable
from pathlib import Path
from typing import NamedTuple

from mha_viz.errors import ClassError, SettingsError
from mha_viz.ui.operating.settings import settings
from mha_viz.ui.state.class_database import ClassDatabase

LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that looks like another one
CODE = 5  # letters of a code: not to be guessed while a lesson lasts
MAX_CLASSES = 16
MAX_QUESTIONS = 64  # in a class
MAX_PUPILS = 200  # who answer one question
MAX_BROWSERS = MAX_CLASSES * MAX_PUPILS  # whose class is known when they come back
FILE = "classes.sqlite"  # in the folder that servers share
_OF_A_CLASS = ("classes", "votes", "uncovered")
_USE = "update classes set used = (select max(used) + 1 from classes) where code = ?"


class LessonPosition(NamedTuple):
    """The stop of the lesson where a class is, from 1 (0: none yet), and its moves so far."""

    stop: int = 0
    moves: int = 0


class Classes(ClassDatabase):
    """Classes by their codes. A browser is a random name: who sits before it is not known."""

    def open(self, browser: str) -> str:
        """Open a class that this browser leads; return its code."""
        code = _code()
        self._open(code, browser)
        return code

    def _open(self, code: str, browser: str) -> None:
        new = "insert or ignore into classes (code, leader, used) values (?, ?, 0)"
        self.write((new, code, browser), (_USE, code))
        for (other,) in self.rows(
            "select code from classes order by used desc limit -1 offset ?", MAX_CLASSES
        ):
            self.close(other)
        self.join(code, browser)

    def first(self, browser: str) -> tuple[str, str]:
        """Open a class that this browser leads, unless one was opened so before.

        Return its code and its leader: the same to all servers that share their classes.
        """
        self.write(("insert or ignore into first values (1, ?, ?)", _code(), browser))
        ((code, leader),) = self.rows("select code, leader from first")
        if code not in self:  # new, or ended before the servers were
            self._open(code, leader)
        return code, leader

    def close(self, code: str) -> None:
        """Forget a class and all its votes."""
        self.write(*((f"delete from {table} where code = ?", code) for table in _OF_A_CLASS))

    def __contains__(self, code: str) -> bool:
        return bool(self.rows("select 1 from classes where code = ?", code))

    def join(self, code: str, browser: str) -> None:
        """Remember which class a browser is in: the last one that it came to."""
        if self.rows("select 1 from joined where browser = ? and code = ?", browser, code):
            return  # every run of a page says so again
        newest = "select rowid from joined order by rowid desc limit ?"
        self.write(
            ("insert or replace into joined values (?, ?)", browser, code),
            (f"delete from joined where rowid not in ({newest})", MAX_BROWSERS),
        )

    def of(self, browser: str) -> str | None:
        """Return the class that a browser is in, if it is still on."""
        rows = self.rows("select code from joined natural join classes where browser = ?", browser)
        return rows[0][0] if rows and isinstance(rows[0][0], str) else None

    def leads(self, code: str, browser: str) -> bool:
        """Return whether this browser opened this class."""
        return bool(self.rows("select 1 from classes where code = ? and leader = ?", code, browser))

    def size(self, code: str) -> int:
        """Count the browsers that are in a class, without its leader."""
        joined = "select count(*) from joined natural join classes where code = ?"
        n_joined: int = self.rows(f"{joined} and browser != leader", code)[0][0]
        return n_joined

    def bring(self, code: str, stop: int) -> None:
        """Move a class to a stop of the lesson, from 1; once more also to the one where it is."""
        move = "update classes set stop = ?, moves = moves + 1 where code = ?"
        self.write((move, stop, code), (_USE, code))

    def position(self, code: str) -> LessonPosition:
        """Return where a class is."""
        rows = self.rows("select stop, moves from classes where code = ?", code)
        is_position = rows and all(isinstance(number, int) and number >= 0 for number in rows[0])
        return (
            LessonPosition(*rows[0]) if is_position else LessonPosition()
        )  # a damaged file may hold anything

    def vote(self, code: str, question: Hashable, browser: str, option: int) -> None:
        """Note a prediction. The last one counts, but none after the answer was seen."""
        self._note(code, question, browser, option)

    def uncover(self, code: str, question: Hashable) -> None:
        """Show the answer of a question to the whole class."""
        if code in self:
            new = "insert or ignore into uncovered values (?, ?)"
            self.write((new, code, repr(question)), (_USE, code))

    def is_uncovered(self, code: str, question: Hashable) -> bool:
        """Return whether the class has been shown the answer of a question."""
        shown = "select 1 from uncovered where code = ? and question = ?"
        return bool(self.rows(shown, code, repr(question)))

    def see(self, code: str, question: Hashable, browser: str) -> None:
        """Note that the answer has been seen."""
        self._note(code, question, browser, None)

    def _note(self, code: str, question: Hashable, browser: str, option: int | None) -> None:
        """Note a vote, unless the class is full."""
        key, of_question = (code, repr(question)), "from votes where code = ? and question = ?"
        before = self.rows(f"select option, seen {of_question} and browser = ?", *key, browser)
        if before and (before[0][1] or before[0][0] == option):
            return
        votable = "select 1 from classes where code = ?"
        if option is not None:
            votable += (
                " and code not in (select code from uncovered where code = ? and question = ?)"
            )
        if not self.rows(votable, code, *key[: 2 * (option is not None)]):
            return
        (n_pupils,) = self.rows(f"select count(*) {of_question}", *key)[0]
        questions = "select count(distinct question) from votes where code = ?"
        full = n_pupils >= MAX_PUPILS
        full = full or (not n_pupils and self.rows(questions, code)[0][0] >= MAX_QUESTIONS)
        if before or not full:
            is_uncovered = option is None
            vote = (
                *key,
                browser,
                before[0][0] if is_uncovered and before else option,
                is_uncovered,
            )
            new = "insert or replace into votes values (?, ?, ?, ?, ?)"
            self.write((new, *vote), (_USE, code))

    def answer(self, code: str, question: Hashable, browser: str) -> tuple[int | None, bool]:
        """Return the option that a browser chose, if any, and whether it has seen the answer."""
        noted = "select option, seen from votes where code = ? and question = ? and browser = ?"
        votes = self.rows(noted, code, repr(question), browser)
        return (votes[0][0], bool(votes[0][1])) if votes else (None, False)

    def counts(self, code: str, question: Hashable, options: int) -> tuple[int, ...]:
        """Count the votes for each option."""
        votes = "select option, count(*) from votes where code = ? and question = ? group by option"
        chosen = dict(self.rows(votes, code, repr(question)))
        return tuple(chosen.get(option, 0) for option in range(options))


def problem() -> str:
    """Say in one sentence why the classes cannot be used; "" where they can. May wait."""
    if not settings().shared or (settings().public and not settings().classroom):
        return ""
    try:
        classes().check()
    except (ClassError, SettingsError) as error:
        return str(error)
    return ""


def _code() -> str:
    return "".join(secrets.choice(LETTERS) for _ in range(CODE))


@functools.cache
def classes() -> Classes:
    """Return this server's classes, or those of all servers that share its folder.

    Raises:
        SettingsError: the folder cannot be written, or the file in it is damaged.
    """
    if not settings().shared:
        return Classes()
    folder = Path(settings().shared)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return Classes(folder / FILE)
    except (OSError, sqlite3.OperationalError) as error:
        raise SettingsError(
            f"shared: expected a folder that can be written, got {folder}: {error}."
        ) from error
    except sqlite3.Error as error:
        raise SettingsError(
            f"shared: {folder / FILE} is damaged ({error}). Delete it: the server then starts "
            "without the classes in it."
        ) from error


@functools.cache
def first_class() -> tuple[str, str]:
    """Open the class of a server that keeps one; return its code, and the browser that leads it."""
    return classes().first(secrets.token_urlsafe(16))
