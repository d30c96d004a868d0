"""Notes, progress and names of written files: what a command says beside its result.

All of it goes to standard error, and --quiet leaves it out; errors and results stay.
"""

import sys
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from time import monotonic

import typer

PROGRESS_SECONDS = 10.0  # between two lines about progress where there is no terminal
_LINE_WIDTH = 70  # of the line on a terminal, so that it hides a longer one before
_is_quiet: ContextVar[bool] = ContextVar("is_quiet", default=False)


def set_quiet(is_quiet: bool) -> None:
    """Leave out notes and progress, for the command that begins."""
    _is_quiet.set(is_quiet)


def tell(line: str, *, nl: bool = True) -> None:
    """Print to standard error what is neither a result nor an error."""
    if not _is_quiet.get():
        typer.echo(line, err=True, nl=nl)


def print_notes(notes: Iterable[str]) -> None:
    """Print what the user should know of a result."""
    for note in notes:
        tell(f"note: {note}")


def progress_line() -> Callable[[str, bool], None]:
    """Return a function that shows how far the work is; its second argument says "at the end".

    A terminal shows one line, which is replaced. Elsewhere, as in the log of a server, a line is
    added every `PROGRESS_SECONDS`.
    """
    last, has_begun = monotonic(), False

    def show(line: str, is_end: bool) -> None:
        nonlocal last, has_begun
        if sys.stderr.isatty():
            tell(f"\r{line:<{_LINE_WIDTH}}", nl=is_end)
        elif monotonic() - last >= PROGRESS_SECONDS or (is_end and has_begun):
            last, has_begun = monotonic(), True
            tell(line)

    return show


def progress(label: str) -> Callable[[int, int], None]:
    """Return a callback that shows how many of all parts are done."""
    show = progress_line()
    return lambda done, total: show(f"{label}: {done:,} of {total:,}", done >= total)
