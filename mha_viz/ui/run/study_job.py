"""A study that is made as heavy work behind the pages."""

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from mha_viz.core.cancellation import cancellation, check_cancelled
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.run.progress import BEGUN, Progress
from mha_viz.corpus.run.sample_study import sample_study
from mha_viz.corpus.run.study_builder import study
from mha_viz.corpus.sources.readers import ending_of
from mha_viz.corpus.store.lock import LockedError
from mha_viz.corpus.store.study_file import FILE
from mha_viz.corpus.treebank.trees import SAMPLE
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import StudyError
from mha_viz.ui.jobs.calls import Cancelled
from mha_viz.ui.jobs.ticket import Ticket, Waiting, Work
from mha_viz.ui.jobs.turns import CooperativeYield
from mha_viz.ui.operating.settings import settings
from mha_viz.ui.run import heavy
from mha_viz.ui.run.page_lock import one_thread

# Padded tokens that run at once: in blocks this small a study yields to clicks soon.
BATCH_TOKENS = 1024
_LOOK = 0.5  # seconds between two looks at whether another server still makes it


class OwnTexts(NamedTuple):
    """Texts of a visitor: their file, the columns of texts and of their groups, and their title."""

    path: Path
    column: str | None
    group: str | None
    title: str

    @property
    def is_treebank(self) -> bool:
        """True if its sentences may belong to documents."""
        return ending_of(self.path.name) in (".conllu", ".conll")


class StudyJob:
    """A study that is done, is being made, was stopped, or failed."""

    def __init__(
        self,
        folder: Path,
        texts: OwnTexts,
        sample: int | None,  # texts that it has at most; None for all
        join: str | None,  # as for `corpus.run.study`
        # called with the number of the try once nobody waits for it any more
        on_abandoned: "Callable[[StudyJob, int], None]",
    ) -> None:
        self.folder = folder
        self.tries = 0
        self.progress = BEGUN
        self.study: Study | None = None
        self.texts, self._column, self._group = texts.path, texts.column, texts.group
        self._sample, self._join = sample, join
        self._on_abandoned = on_abandoned
        self._ticket: Ticket | None = None
        self._stopped = False
        self._heard = time.monotonic()  # when it last made progress, or began

    @property
    def runs(self) -> bool:
        """True while it is being made or queued."""
        return self._ticket is not None and not self._ticket.ended

    @property
    def is_new(self) -> bool:
        """True until somebody starts it."""
        return self._ticket is None

    def open_finished(self) -> None:
        """Open it where another server has finished it, or an earlier run of this one."""
        if self.study is None and not self.runs and (self.folder / FILE).is_file():
            with suppress(StudyError):  # it is damaged, and is made anew
                self.study = Study.load(self.folder)

    def open_shipped(self, model: AttentionModel) -> None:
        """Open the study of the sample that is shipped with its model, where there is one."""
        if self.is_new and self.texts == SAMPLE and self._join is None:
            self.study = sample_study(model)

    @property
    def waiting(self) -> Waiting | None:
        """Its place in the queue of heavy work; None where it is not queued."""
        return None if self._ticket is None else self._ticket.waiting

    @property
    def silent_seconds(self) -> float:
        """The seconds since it last made progress, was queued or began."""
        if self.waiting is not None:
            self._heard = time.monotonic()
        return time.monotonic() - self._heard

    @property
    def error(self) -> BaseException | None:
        """The error that it failed with; None where it was stopped."""
        return None if self._ticket is None else self._ticket.error

    def begin(self, model: AttentionModel) -> None:
        """Make it, or continue after the last complete part; return at once.

        That of the sample may have been made beforehand. It stops once the last of the visitors who
        look at it has left. Raises JobError: the queue of the server or of this visitor is full.
        """
        for_all = self.texts == SAMPLE
        self.open_shipped(model)
        if self.study is not None:
            return
        if self.runs and self._ticket is not None:
            if not self._ticket.can_be_joined(heavy.session(for_all)):
                return
        else:
            self.progress, self._stopped, self.tries = BEGUN, False, self.tries + 1
            self._heard = time.monotonic()
        make = partial(self._make, model, self.tries)
        work = Work(("study", str(self.folder)), make, patient=True)
        self._ticket = heavy.submit(work, for_all=for_all)

    def stop(self) -> None:
        """Stop soon, for all who wait; complete parts are kept."""
        self._stopped = True
        if self._ticket is not None:
            self._ticket.stop()

    def wait(self) -> None:
        """Wait until it is made, stopped, or has failed."""
        if self._ticket is not None:
            self._ticket.wait()

    def _make(self, model: AttentionModel, number: int, check: Callable[[], None]) -> None:
        """Make the study; between blocks, check for cancellation and yield to pages."""
        cooperative_yield = CooperativeYield()

        def between_blocks() -> None:
            cooperative_yield()
            check()

        def on_progress(progress: Progress) -> None:
            self.progress, self._heard = progress, time.monotonic()
            check_cancelled()

        options: dict[str, Any] = {"column": self._column, "group": self._group, "join": self._join}
        options |= {
            "sample": self._sample,
            "batch_tokens": BATCH_TOKENS,
            "on_progress": on_progress,
        }
        options |= {"cluster": settings().cluster or None}
        try:
            with one_thread(), cancellation(between_blocks):
                while self.study is None:
                    with suppress(LockedError):  # another server makes it, or has just left it
                        self.study = study(model, self.texts, self.folder, **options)
                        return
                    between_blocks()
                    time.sleep(_LOOK)
        except Cancelled:
            if not self._stopped:
                self._on_abandoned(self, number)
            raise
