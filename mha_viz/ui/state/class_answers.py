"""Predictions of a class: anonymous votes by class code, in this server's memory and nowhere else.

Servers that share a folder keep them there together. Knows no page. Everything is bounded: a class
that nobody has used for longest goes first.
"""

import functools
import logging
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from mha_viz.errors import ClassError, SettingsError
from mha_viz.ui.jobs.turns import turns
from mha_viz.ui.operating.settings import settings

log = logging.getLogger("mha_viz")
T = TypeVar("T")

LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that looks like another one
CODE = 5  # letters of a code: not to be guessed while a lesson lasts
MAX_CLASSES = 16
MAX_QUESTIONS = 64  # in a class
MAX_PUPILS = 200  # who answer one question
MAX_BROWSERS = MAX_CLASSES * MAX_PUPILS  # whose class is known when they come back
FILE = "classes.sqlite"  # in the folder that servers share
PATIENCE = 1.0  # seconds that a page waits for another server to write
_START_PATIENCE = 10.0  # seconds that the start of a server waits for it
_PAUSE = 3.0  # seconds after a wait in vain during which no page waits as long
_BRIEFLY = 0.05  # seconds that it waits instead
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
create table if not exists uncovered (
    code text, question text, primary key (code, question)
);
create table if not exists first (one integer primary key check (one = 1), code text, leader text);
"""
_DAMAGED = "database disk image is malformed"  # as SQLite says it
_TABLE_NAMES = ("classes", "joined", "votes", "uncovered", "first")
_OF_A_CLASS = ("classes", "votes", "uncovered")
_USE = "update classes set used = (select max(used) + 1 from classes) where code = ?"


class LessonPosition(NamedTuple):
    """The stop of the lesson where a class is, from 1 (0: none yet), and its moves so far."""

    stop: int = 0
    moves: int = 0


class Classes:
    """Classes by their codes; safe to share between threads, and between servers by a file.

    A browser is a random name: who sits before it is not known. Every method raises ClassError
    where the file cannot be read or written, or where another process holds it for `PATIENCE`.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._path = None if path is None else Path(path).absolute()
        self._lock = threading.RLock()  # of classes in memory, which no other process can hold
        self._failed_at, self._problem = float("-inf"), ""
        with _readable():
            database = _connected(path or ":memory:", _START_PATIENCE)
            database.executescript(_TABLES)
            (state,) = database.execute("pragma quick_check(1)").fetchone()
        if self._path is None:
            self._in_memory = database
        else:
            database.close()
        if state != "ok":
            raise sqlite3.DatabaseError(_DAMAGED)

    @contextmanager
    def _connection(self, timeout: float) -> Iterator[sqlite3.Connection]:
        """Yield a connection: to a file each call has its own, so that none waits for another."""
        if self._path is None:
            with self._lock:
                yield self._in_memory
        else:
            # `mode=rw`: a file that was deleted is a failure, and no new one without tables.
            file = f"{self._path.as_uri()}?mode=rw"
            with _readable(), closing(_connected(file, timeout)) as database:
                yield database

    def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do work in the database; where another process holds it, wait for `PATIENCE`."""
        try:
            answer = self._attempt(work)
        except sqlite3.Error as error:
            self._failed_at = time.monotonic()
            if self._problem != str(error):
                log.warning("the file of classes cannot be used: %s", error)
            self._problem = str(error)
            raise ClassError(
                f"The class cannot be reached just now: {error}. Pages that need no class work, "
                "and those of the class try again by themselves."
            ) from error
        self._failed_at, self._problem = float("-inf"), ""
        return answer

    def _attempt(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            with self._connection(0.0) as database:
                return work(database)
        except sqlite3.OperationalError as error:
            if not _is_busy(error):
                raise
            failure: sqlite3.Error = error
        is_pause = time.monotonic() - self._failed_at < _PAUSE
        with turns.release_slot():  # other pages are run meanwhile
            try:
                with self._connection(_BRIEFLY if is_pause else PATIENCE) as database:
                    return work(database)
            except sqlite3.Error as error:  # raised below, where this run has its turn again
                failure = error
        raise failure

    def check(self) -> None:
        """Return if the classes can be read and written now, also by other servers."""

        def look(database: sqlite3.Connection) -> None:
            database.execute("begin immediate")
            try:
                for table in _TABLE_NAMES:
                    database.execute(f"select count(*) from {table}").fetchone()
            finally:
                database.rollback()

        self._run(look)

    def _all(self, statement: str, *values: object) -> list[Any]:
        return self._run(lambda database: database.execute(statement, values).fetchall())

    def _write(self, *statements: tuple[Any, ...]) -> int:
        """Run statements and their values as one change; return how many rows the last changed."""

        def change(database: sqlite3.Connection) -> int:
            with database:
                counts = [
                    database.execute(statement, values).rowcount
                    for statement, *values in statements
                ]
            return counts[-1]

        return self._run(change)

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
        rows = self._all("select code from joined natural join classes where browser = ?", browser)
        return rows[0][0] if rows and isinstance(rows[0][0], str) else None

    def leads(self, code: str, browser: str) -> bool:
        """Return whether this browser opened this class."""
        return bool(self._all("select 1 from classes where code = ? and leader = ?", code, browser))

    def size(self, code: str) -> int:
        """Count the browsers that are in a class, without its leader."""
        joined = "select count(*) from joined natural join classes where code = ?"
        n_joined: int = self._all(f"{joined} and browser != leader", code)[0][0]
        return n_joined

    def bring(self, code: str, stop: int) -> None:
        """Move a class to a stop of the lesson, from 1; once more also to the one where it is."""
        move = "update classes set stop = ?, moves = moves + 1 where code = ?"
        self._write((move, stop, code), (_USE, code))

    def position(self, code: str) -> LessonPosition:
        """Return where a class is."""
        rows = self._all("select stop, moves from classes where code = ?", code)
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
            self._write((new, code, repr(question)), (_USE, code))

    def is_uncovered(self, code: str, question: Hashable) -> bool:
        """Return whether the class has been shown the answer of a question."""
        shown = "select 1 from uncovered where code = ? and question = ?"
        return bool(self._all(shown, code, repr(question)))

    def see(self, code: str, question: Hashable, browser: str) -> None:
        """Note that the answer has been seen."""
        self._note(code, question, browser, None)

    def _note(self, code: str, question: Hashable, browser: str, option: int | None) -> None:
        """Note a vote, unless the class is full."""
        key, of_question = (code, repr(question)), "from votes where code = ? and question = ?"
        before = self._all(f"select option, seen {of_question} and browser = ?", *key, browser)
        if before and (before[0][1] or before[0][0] == option):
            return
        votable = "select 1 from classes where code = ?"
        if option is not None:
            votable += (
                " and code not in (select code from uncovered where code = ? and question = ?)"
            )
        if not self._all(votable, code, *key[: 2 * (option is not None)]):
            return
        (n_pupils,) = self._all(f"select count(*) {of_question}", *key)[0]
        questions = "select count(distinct question) from votes where code = ?"
        full = n_pupils >= MAX_PUPILS
        full = full or (not n_pupils and self._all(questions, code)[0][0] >= MAX_QUESTIONS)
        if before or not full:
            is_uncovered = option is None
            vote = (
                *key,
                browser,
                before[0][0] if is_uncovered and before else option,
                is_uncovered,
            )
            new = "insert or replace into votes values (?, ?, ?, ?, ?)"
            self._write((new, *vote), (_USE, code))

    def answer(self, code: str, question: Hashable, browser: str) -> tuple[int | None, bool]:
        """Return the option that a browser chose, if any, and whether it has seen the answer."""
        noted = "select option, seen from votes where code = ? and question = ? and browser = ?"
        votes = self._all(noted, code, repr(question), browser)
        return (votes[0][0], bool(votes[0][1])) if votes else (None, False)

    def counts(self, code: str, question: Hashable, options: int) -> tuple[int, ...]:
        """Count the votes for each option."""
        votes = "select option, count(*) from votes where code = ? and question = ? group by option"
        chosen = dict(self._all(votes, code, repr(question)))
        return tuple(chosen.get(option, 0) for option in range(options))


def _connected(path: str | Path, timeout: float) -> sqlite3.Connection:
    database = sqlite3.connect(
        path, timeout=timeout, isolation_level="IMMEDIATE", check_same_thread=False, uri=True
    )
    # A vote that waits for the disk takes 20 ms, and a class of 200 votes at once. What a crash of
    # the machine's system may damage is found at the next start.
    database.execute("pragma synchronous = off")
    return database


@contextmanager
def _readable() -> Iterator[None]:
    """Raise one kind of error: Python cannot decode SQLite's own message about damaged names."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise sqlite3.DatabaseError(_DAMAGED) from error


def _is_busy(error: sqlite3.Error) -> bool:
    """Return whether another connection holds what was wanted."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


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
