"""Studies of this server, and texts that visitors have brought for them: kept, shared, bounded."""

import hashlib
import re
import shutil
import tempfile
import threading
import time
import weakref
from collections import Counter, OrderedDict
from collections.abc import Iterable
from functools import cache
from pathlib import Path, PurePath

from mha_viz.core.amounts import of_bytes
from mha_viz.core.output_file import write_file
from mha_viz.core.reprs import count
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.run.progress import BEGUN
from mha_viz.corpus.sources.documents import DOCUMENT
from mha_viz.corpus.sources.readers import GZIP
from mha_viz.corpus.treebank.trees import SAMPLE
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError
from mha_viz.text.cleaning import visible
from mha_viz.ui.operating import streamlit_run
from mha_viz.ui.operating.settings import settings
from mha_viz.ui.run import heavy
from mha_viz.ui.run.study_job import OwnTexts, StudyJob
from mha_viz.ui.state.views import Corpus

KEPT = 8  # studies, and texts of visitors, where no setting says more
MAX_TEXTS = 2_000  # of a visitor: of more, a fair sample
MAX_MEGABYTES = 2  # of a visitor's texts
# None that is packed: two megabytes of it may be two thousand, and nobody else has their turn then.
SUFFIXES = (".txt", ".json", ".jsonl", ".csv", ".conllu", ".conll", ".v4_gold_conll")
DELETING = 5.0  # seconds: what cannot be deleted does not keep a process from its end


class Studies:
    """Studies of a process, by model and texts, in a folder that is deleted at its end."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="mha-viz-studies-"))
        self._deletion = weakref.finalize(self, _delete_while_written, self._folder)
        self._lock = threading.Lock()
        self._made: OrderedDict[str, StudyJob] = OrderedDict()
        self._own: OrderedDict[str, OwnTexts] = OrderedDict()
        self._owners: dict[str, str] = {}  # the address, or session, that brought a study or texts

    def close(self) -> None:
        """Delete them all, as the end of the process does."""
        self._deletion()

    def add_texts(
        self, content: bytes, name: str, column: str | None = None, group: str | None = None
    ) -> str:
        """Keep a visitor's texts, to be studied; returns the key that stands for them.

        `name` is of the file and ends in one of `SUFFIXES`; "" of texts that were typed. `column`
        of a table holds the texts, by default the one that is found; `group` says which of them
        depend on each other, by default as `study` takes them.

        Raises ArgumentError: too large, empty, packed, or a file of another kind.
        """
        suffix = PurePath(name.lower()).suffix if name else ".txt"
        if suffix not in SUFFIXES:
            raise ArgumentError(f"A file of texts must end in {', '.join(SUFFIXES)}.")
        if content.startswith(GZIP):
            raise ArgumentError("The file is packed by gzip, whatever its name: unpack it first.")
        if not content.strip():
            raise ArgumentError("There is no text: paste texts, one per line, or choose a file.")
        if len(content) > MAX_MEGABYTES * 10**6:
            raise ArgumentError(
                f"The texts must have at most {MAX_MEGABYTES} MB, got {of_bytes(len(content))}: "
                "give a part of them, or use `mha-viz study`, which has no limit."
            )
        called = _file_name(name) if name else "texts.txt"
        named = f"{called} {column} {group} ".encode()
        key = f"own_{hashlib.sha256(named + content).hexdigest()[:32]}"
        path = self._folder / key / called
        with self._lock:
            write_file(path, content, parents=True)
            self._own[key] = OwnTexts(path, column, group, _title(name, content))
            self._owners.setdefault(key, streamlit_run.visitor_address() or heavy.session())
            self._own.move_to_end(key)
            self._trim()
        return key

    def find(self, view: Corpus) -> StudyJob | None:
        """Return the study of a view's model over its texts, begun or not; None without texts."""
        with self._lock:
            if view.corpus and view.corpus not in self._own:
                return None
            name = self._key_of(view)
            if name not in self._made:
                texts, join = self._own.get(view.corpus, _OF_SAMPLE), self._joining(view)
                sample = MAX_TEXTS if view.corpus else None
                folder = self._folder / name
                self._made[name] = StudyJob(folder, texts, sample, join, self._delete_abandoned)
                own = streamlit_run.visitor_address() or heavy.session()
                self._owners[name] = own if view.corpus else ""
            self._made.move_to_end(name)
            self._trim()
            return self._made[name]

    def finished(self, view: Corpus) -> Study | None:
        """Return the study of a view's model over its texts if it is done, else None."""
        with self._lock:
            name = self._key_of(view)
            if name not in self._made or self._made[name].study is None:
                return None
            self._made.move_to_end(name)
            return self._made[name].study

    def own(self) -> dict[str, str]:
        """Return the titles of all texts of visitors by their keys."""
        with self._lock:
            return {key: texts.title for key, texts in self._own.items()}

    def is_treebank(self, corpus: str) -> bool:
        """Return whether the texts of a key have trees, and perhaps documents."""
        with self._lock:
            return self._own.get(corpus, _OF_SAMPLE).is_treebank

    def begin(self, view: Corpus, model: AttentionModel) -> None:
        """Begin the study of a view, or continue it, once for all visitors."""
        making = self.find(view)
        if making is not None:
            with self._lock:
                making.begin(model)

    def _delete_abandoned(self, making: StudyJob, number: int) -> None:
        """Delete the parts of a visitor's study whose visitors have all left a public server.

        Strangers could fill its disk with them; where no stranger comes, it can be continued.
        """
        with self._lock:
            if settings().public and making.texts != SAMPLE and making.tries == number:
                making.progress = BEGUN
                _delete(making.folder)

    def _joining(self, view: Corpus) -> str | None:
        """Return how a view's sentences are joined; only those of treebanks can be."""
        texts = self._own.get(view.corpus, _OF_SAMPLE)
        return DOCUMENT if view.joined and texts.is_treebank else None

    def _key_of(self, view: Corpus) -> str:
        what = repr((view.corpus, view.checkpoint, self._joining(view)))
        return hashlib.sha256(what.encode()).hexdigest()[:32]

    def _trim(self) -> None:
        """Delete what is too much: the oldest of the largest owner, and nothing in use.

        Whoever brings many texts pushes out their own, and nobody else's.
        """
        idle = [name for name, one in self._made.items() if not one.runs]
        for name in self._oldest_of_largest_owner(self._made, idle):
            _delete(self._made.pop(name).folder)
        read = {one.texts for one in self._made.values() if one.runs}
        unread = [key for key, texts in self._own.items() if texts.path not in read]
        for key in self._oldest_of_largest_owner(self._own, unread):
            _delete(self._own.pop(key).path.parent)

    def _oldest_of_largest_owner(self, kept: Iterable[str], free: list[str]) -> list[str]:
        counts = Counter(self._owners[key] for key in kept)
        too_many = counts.total() - (settings().max_studies or KEPT)
        deleted: list[str] = []
        while free and len(deleted) < too_many:
            # Of equals the first.
            deleted.append(max(free, key=lambda key: counts[self._owners[key]]))
            free.remove(deleted[-1])
            counts[self._owners.pop(deleted[-1])] -= 1
        return deleted


_OF_SAMPLE = OwnTexts(SAMPLE, None, None, "")


def _file_name(name: str) -> str:
    """Return the name of a visitor's file on this server and in messages.

    Characters that may mean something in a path are replaced by "_".

    >>> _file_name("../notes/reviews*.CSV"), _file_name("..\\\\what?.csv")
    ('reviews_.CSV', '.._what_.csv')
    """
    path = PurePath(name)
    return re.sub(r"[^\w .()+-]", "_", path.stem[:50]) + path.suffix


def _title(name: str, content: bytes) -> str:
    """Name texts after their file, or by their first words.

    >>> _title("", b"The cat sat on the mat because it was tired.\\nIt slept.")
    '“The cat sat on the mat because it …”'
    """
    begin = " ".join(content[:200].decode(errors="ignore").split())
    return visible(name, 60) if name else f"“{visible(begin, 35)}”"


def _delete(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


def _delete_while_written(folder: Path) -> None:
    """Delete a folder, again and again while a study may still write into it."""
    end = time.monotonic() + DELETING
    while folder.exists() and time.monotonic() < end:
        shutil.rmtree(folder, ignore_errors=True)


def describe(study: Study, view: Corpus) -> str:
    """Say how many texts of which kind a view's study has."""
    if view.corpus:
        return count(study.n_texts, "text") + " of your own"
    of = "text" if study.manifest["settings"].get("join") else "sentence"
    return f"{count(study.n_texts, of)} of the sample"


@cache
def studies() -> Studies:
    """Return the studies of this process."""
    return Studies()
