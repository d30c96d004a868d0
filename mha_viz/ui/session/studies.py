"""The studies of this server: made behind the pages, in the lane of heavy work, and shared."""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path, PurePath
from typing import NamedTuple

import mha_viz.corpus
from mha_viz.core.amounts import of_bytes
from mha_viz.core.asking import ask, asking
from mha_viz.core.output_file import write_file
from mha_viz.core.showing import count
from mha_viz.corpus.documents import DOCUMENT
from mha_viz.corpus.readers import GZIP, ending_of
from mha_viz.corpus.run import Progress, study
from mha_viz.corpus.study import Study
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError
from mha_viz.text.cleaning import visible
from mha_viz.ui.lanes.ticket import Ticket
from mha_viz.ui.lanes.turns import GivesWay
from mha_viz.ui.lanes.work import Waiting, Work
from mha_viz.ui.session import heavy
from mha_viz.ui.session.one_thread import one_thread
from mha_viz.ui.session.views import View

KEPT = 8  # studies, and texts of visitors: the least recently wanted go first
MAX_TEXTS = 2_000  # of a visitor: of more, a fair sample
MAX_MEGABYTES = 2  # of a visitor's texts
# None that is packed: two megabytes of it may be two thousand, and nobody else has their turn then.
SUFFIXES = (".txt", ".json", ".jsonl", ".csv", ".conllu")
DELETING = 5.0  # seconds: what cannot be deleted does not keep a process from its end
SAMPLE = Path(mha_viz.corpus.__file__).with_name("sample.conllu")
# Padded tokens that run at once: in blocks this small a study gives way soon to whoever clicks.
BATCH_TOKENS = 1024


class OwnTexts(NamedTuple):
    """Texts of a visitor: where they lie, the column that holds them, and what they are called."""

    path: Path
    column: str | None
    title: str

    @property
    def is_treebank(self) -> bool:
        """Whether its sentences may be of documents."""
        return ending_of(self.path.name) == ".conllu"


class Making:
    """A study that is there, is being made, was stopped, or failed.

    Args:
        folder: where it lies.
        texts: the source.
        sample: how many texts at most; None is all.
        join: as for `corpus.run.study`.
    """

    def __init__(self, folder: Path, texts: OwnTexts, sample: int | None, join: str | None) -> None:
        self.folder = folder
        self.progress: Progress | None = None
        self.study: Study | None = None
        self.texts, self._column = texts.path, texts.column
        self._sample, self._join = sample, join
        self._ticket: Ticket | None = None

    @property
    def runs(self) -> bool:
        """Whether it is being made, or waits for its turn."""
        return self._ticket is not None and not self._ticket.ended

    @property
    def is_new(self) -> bool:
        """Whether nobody has begun it."""
        return self._ticket is None

    @property
    def waiting(self) -> Waiting | None:
        """Its place in the queue of heavy work, where it is there."""
        return None if self._ticket is None else self._ticket.waiting

    @property
    def error(self) -> BaseException | None:
        """Why there is no study; None where it was stopped."""
        return None if self._ticket is None else self._ticket.error

    def begin(self, model: AttentionModel) -> None:
        """Make it, or go on after the last complete part; returns at once.

        Raises:
            JobError: the server has enough to do, or whoever asks has.
        """
        if self.runs or self.study is not None:
            return
        self.progress = None
        key = ("study", str(self.folder))
        work = Work(key, partial(self._make, model), patient=True)
        self._ticket = heavy.ask(work, for_all=self.texts == SAMPLE)

    def stop(self) -> None:
        """Stop soon; what is complete stays."""
        if self._ticket is not None:
            self._ticket.leave()

    def wait(self) -> None:
        """Until it is made, stopped, or has failed."""
        if self._ticket is not None:
            self._ticket.wait()

    def _make(self, model: AttentionModel, look: Callable[[], None]) -> None:
        """The study, which asks between its blocks whether to go on, and stands still for pages."""
        gives_way = GivesWay()

        def between() -> None:
            gives_way()
            look()

        def tell(progress: Progress) -> None:
            self.progress = progress
            ask()

        with one_thread(), asking(between):
            self.study = study(
                model,
                self.texts,
                self.folder,
                column=self._column,
                sample=self._sample,
                batch_tokens=BATCH_TOKENS,
                on_progress=tell,
                join=self._join,
            )


class Studies:
    """The studies of a process, by model and texts, in a folder that goes when the process ends."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="mha-viz-studies-"))
        self._deletion = weakref.finalize(self, _delete_while_written, self._folder)
        self._lock = threading.Lock()
        self._made: OrderedDict[str, Making] = OrderedDict()
        self._own: OrderedDict[str, OwnTexts] = OrderedDict()

    def close(self) -> None:
        """Delete them all, as the end of the process does."""
        self._deletion()

    def give(self, content: bytes, name: str, column: str | None = None) -> str:
        """Keep a visitor's texts, to be studied; returns the key that stands for them.

        Args:
            content: of the file.
            name: of the file, which ends in one of `SUFFIXES`; "" of texts that were typed.
            column: of a table that holds the texts; None to find it.

        Raises:
            ArgumentError: too large, empty, packed, or a file of another kind.
        """
        suffix = PurePath(name.lower()).suffix if name else ".txt"
        if suffix not in SUFFIXES:
            raise ArgumentError(f"A file of texts must end in {', '.join(SUFFIXES)}.")
        if content.startswith(GZIP):
            raise ArgumentError("The file is packed by gzip, whatever its name: unpack it first.")
        if not content.strip():
            raise ArgumentError("There is no text yet: paste texts, one a line, or choose a file.")
        if len(content) > MAX_MEGABYTES * 10**6:
            raise ArgumentError(
                f"The texts must have at most {MAX_MEGABYTES} MB, got {of_bytes(len(content))}: "
                "give a part of them, or use `mha-viz study`, which has no limit."
            )
        called = _file_name(name) if name else "texts.txt"
        key = "own_" + hashlib.sha256(f"{called} {column} ".encode() + content).hexdigest()[:32]
        path = self._folder / key / called
        with self._lock:
            write_file(path, content, parents=True)
            self._own[key] = OwnTexts(path, column, _title(name, content))
            self._own.move_to_end(key)
            self._trim()
        return key

    def find(self, view: View) -> Making | None:
        """The study of a view's model over its texts, begun or not; None if the texts are gone."""
        with self._lock:
            if view.corpus and view.corpus not in self._own:
                return None
            name = self._name_of(view)
            if name not in self._made:
                texts, join = self._own.get(view.corpus, _OF_SAMPLE), self._join_of(view)
                sample = MAX_TEXTS if view.corpus else None
                folder = self._folder / name
                self._made[name] = Making(folder, texts, sample, join)
            self._made.move_to_end(name)
            self._trim()
            return self._made[name]

    def finished(self, view: View) -> Study | None:
        """The study of a view's model over its texts, if it is made already; else None."""
        with self._lock:
            name = self._name_of(view)
            found = self._made.get(name)
            if found is None or found.study is None:
                return None
            self._made.move_to_end(name)
            return found.study

    def own(self) -> dict[str, str]:
        """All texts of visitors: the key that stands for them, and what they are called."""
        with self._lock:
            return {key: texts.title for key, texts in self._own.items()}

    def is_treebank(self, corpus: str) -> bool:
        """Whether the texts that a key stands for have trees, and perhaps documents."""
        with self._lock:
            return self._own.get(corpus, _OF_SAMPLE).is_treebank

    def begin(self, view: View, model: AttentionModel) -> None:
        """Begin the study of a view, or go on with it; of two visitors at once, one does."""
        making = self.find(view)
        if making is not None:
            with self._lock:
                making.begin(model)

    def _join_of(self, view: View) -> str | None:
        """How a view's sentences are joined; other texts are not, whatever the view says."""
        texts = self._own.get(view.corpus, _OF_SAMPLE)
        return DOCUMENT if view.joined and texts.is_treebank else None

    def _name_of(self, view: View) -> str:
        what = repr((view.corpus, view.checkpoint, self._join_of(view)))
        return hashlib.sha256(what.encode()).hexdigest()[:32]

    def _trim(self) -> None:
        """Let go of the oldest, but of none that is being made."""
        idle = [name for name, one in self._made.items() if not one.runs]
        for name in idle[: max(0, len(self._made) - KEPT)]:
            _delete(self._made.pop(name).folder)
        read = {one.texts for one in self._made.values() if one.runs}
        unread = [key for key, texts in self._own.items() if texts.path not in read]
        for key in unread[: max(0, len(self._own) - KEPT)]:
            _delete(self._own.pop(key).path.parent)


_OF_SAMPLE = OwnTexts(SAMPLE, None, "")


def _file_name(name: str) -> str:
    """What a visitor's file is called where it is kept, and so in messages: its own name.

    Signs that may mean something in a path give way to "_".

    >>> _file_name("../notes/reviews*.CSV"), _file_name("..\\\\what?.csv")
    ('reviews_.CSV', '.._what_.csv')
    """
    path = PurePath(name)
    return re.sub(r"[^\w .()+-]", "_", path.stem[:50]) + path.suffix


def _title(name: str, content: bytes) -> str:
    """What texts are called: as their file is, or by the first of their words.

    >>> _title("", b"The cat sat on the mat because it was tired.\\nIt slept.")
    '“The cat sat on the mat because it …”'
    """
    begin = " ".join(content[:200].decode(errors="ignore").split())
    return visible(name, 60) if name else f"“{visible(begin, 35)}”"


def _delete(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


def _delete_while_written(folder: Path) -> None:
    """Delete a folder into which a study may still be writing, again and again until it is gone."""
    end = time.monotonic() + DELETING
    while folder.exists() and time.monotonic() < end:
        shutil.rmtree(folder, ignore_errors=True)


def described(study: Study, view: View) -> str:
    """How many texts of which kind a view's study has."""
    if view.corpus:
        return count(study.n_texts, "text") + " of your own"
    of = "text" if study.manifest["settings"].get("join") else "sentence"
    return f"{count(study.n_texts, of)} of the sample"


@cache
def studies() -> Studies:
    """Those of this process."""
    return Studies()
