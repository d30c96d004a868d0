"""The run of a study by a command: its progress, its end by a signal, and what it left out."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mha_viz.cli.notes import print_notes, progress_line, tell

if TYPE_CHECKING:
    from mha_viz.corpus.query.study import Study
    from mha_viz.corpus.run.progress import Progress

EXIT_SIGTERM = 143  # as a program that SIGTERM has ended


def progress(*, says_space: bool = False) -> Callable[[Progress], None]:
    """Return a callback that shows progress and, once it can be told, much space that it takes."""
    from mha_viz.corpus.run.progress import space_note

    show_line = progress_line()

    def show(now: Progress) -> None:
        nonlocal says_space
        show_line(now.in_words(), now.n_texts == now.n_total)
        if says_space and (note := space_note(now)) is not None:
            says_space = False
            if note:
                tell(f"\nnote: {note}")

    return show


@contextmanager
def sigterm_as_interrupt(out: str) -> Iterator[None]:
    """Let SIGTERM end the work in order, as Ctrl-C does; a note explains how to continue."""
    from mha_viz.corpus.store.address import is_address
    from mha_viz.corpus.store.study_file import UNFINISHED

    def stop(_number: int, _frame: object) -> None:
        raise SystemExit(EXIT_SIGTERM)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        if is_address(out) or Path(out, UNFINISHED).exists():
            tell("\nnote: stopped; the same command goes on from here")
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def print_skipped(study: Study) -> None:
    """Print which texts were left out or cut to standard error, so that a table holds no notes."""
    if n_skipped := study.manifest["counts"]["n_skipped"]:
        first = [f"  {position}: {reason}" for position, reason in study.manifest["skipped"][:5]]
        print_notes([f"{n_skipped:,} could not be read", *first])
    print_notes(study.notes)
