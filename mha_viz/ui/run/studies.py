"""Studies of this server, and texts that visitors have brought for them: kept, shared, bounded."""

import hashlib
import json
import os
import re
import shutil
import threading
import time
import weakref
from collections import Counter
from collections.abc import Collection
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path, PurePath

from mha_viz.core.amounts import of_bytes
from mha_viz.core.output_file import write_file
from mha_viz.core.reprs import count
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.run.progress import BEGUN
from mha_viz.corpus.sources.documents import DOCUMENT
from mha_viz.corpus.sources.readers import GZIP
from mha_viz.corpus.store.lock import LockedError, locked
from mha_viz.corpus.store.temporary import temporary_folder
from mha_viz.corpus.treebank.trees import SAMPLE
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError, WriteError
from mha_viz.text.cleaning import visible
from mha_viz.ui.operating import streamlit_run
from mha_viz.ui.operating.settings import settings
from mha_viz.ui.run import heavy, memory
from mha_viz.ui.run.study_job import OwnTexts, StudyJob
from mha_viz.ui.state.views import ManyTexts

KEPT = 8  # studies, and texts of visitors, where no setting says more
MAX_TEXTS = 5_000  # of a visitor: of more, a fair sample
MAX_MEGABYTES = 2  # of a visitor's texts
# None that is packed: two megabytes of it may be two thousand, and nobody else has their turn then.
SUFFIXES = (".txt", ".json", ".jsonl", ".csv", ".conllu", ".conll", ".v4_gold_conll")
OWN_PREFIX = "own_"  # of the keys of visitors' texts
_KEY = re.compile(OWN_PREFIX + r"[0-9a-f]{32}\Z")
DELETING = 5.0  # seconds: what cannot be deleted does not keep a process from its end


class Studies:
    """Studies by model and texts, in a folder that the end of the process deletes.

    A `folder` that is given stays: several servers keep their studies in it together. Beside each
    study, and the folder of each of the texts, a file says what it is. Its time is its last use.
    """

    def __init__(self, folder: Path | None = None) -> None:
        resources = ExitStack()
        self._folder = folder or resources.enter_context(temporary_folder())
        self._folder.mkdir(parents=True, exist_ok=True)
        if folder is None:
            self._deletion = weakref.finalize(self, _delete_while_written, self._folder, resources)
        self._lock = threading.RLock()
        self._jobs: dict[str, StudyJob] = {}  # of this process

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
        key = OWN_PREFIX + hashlib.sha256(named + content).hexdigest()[:32]
        about = {"file": called, "column": column, "group": group, "title": _title(name, content)}
        with self._lock:
            write_file(self._folder / key / called, content, parents=True)
            self._use(key, _visitor(), **about)
            self._trim()
        return key

    def find(self, view: ManyTexts) -> StudyJob | None:
        """Return the study of a view's model over its texts, begun or not; None without texts."""
        with self._lock:
            texts, name = self._texts(view.corpus), self._key_of(view)
            if texts is None:
                return None
            job = self._jobs.get(name)
            if job is None or (job.study and not job.study.folder.exists()):  # others deleted it
                sample = MAX_TEXTS if view.corpus else None
                folder, join = self._folder / name, self._joining(view)
                job = StudyJob(folder, texts, sample, join, self._delete_abandoned)
                self._jobs[name] = job
            job.open_finished()
            with suppress(WriteError):  # what is there is shown on a full disk, too
                self._use(name, _visitor() if view.corpus else "")
            self._trim(job)
            return job

    def finished(self, view: ManyTexts) -> Study | None:
        """Return the study of a view's model over its texts if it is done, else None.

        That of the sample is done for the shipped models.
        """
        with self._lock:
            is_begun = self._about(self._key_of(view)).is_file()
            job = self.find(view) if is_begun or not view.corpus else None
            if job is not None and job.study is None and not view.corpus:
                job.open_shipped(memory.model(*view.checkpoint))
            return None if job is None else job.study

    def titles(self) -> dict[str, str]:
        """Return the titles of all texts of visitors by their keys."""
        return {key: about["title"] for key, about in self._uses(is_own=True).items()}

    def is_treebank(self, corpus: str) -> bool:
        """Return whether the texts of a key have trees, and perhaps documents."""
        return (self._texts(corpus) or _OF_SAMPLE).is_treebank

    def begin(self, view: ManyTexts, model: AttentionModel) -> None:
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

    def _joining(self, view: ManyTexts) -> str | None:
        """Return how a view's sentences are joined; only those of treebanks can be."""
        return DOCUMENT if view.joined and self.is_treebank(view.corpus) else None

    def _key_of(self, view: ManyTexts) -> str:
        choices = repr((view.corpus, view.checkpoint, self._joining(view)))
        return hashlib.sha256(choices.encode()).hexdigest()[:32]

    def _about(self, key: str) -> Path:
        return self._folder / f"{key}.json"

    def _use(self, key: str, owner: str, **about: str | None) -> None:
        """Note that a study or texts are used; the first time with their facts and owner."""
        path, now = self._about(key), time.time_ns()
        if not path.is_file():
            write_file(path, json.dumps({"owner": owner, **about}).encode())
        with suppress(FileNotFoundError):  # another server has just deleted it
            os.utime(path, ns=(now, now))

    def _uses(self, is_own: bool) -> dict[str, dict[str, str]]:
        """Return the stored facts of all visitors' texts, or of all studies; the last used last."""
        dated = []
        for path in self._folder.glob("*.json"):
            with suppress(OSError, ValueError):  # another server deletes it
                if path.name.startswith(OWN_PREFIX) == is_own:
                    about = json.loads(path.read_text("utf-8"))
                    dated.append((path.stat().st_mtime_ns, path.stem, about))
        return {key: about for _, key, about in sorted(dated, key=lambda entry: entry[:2])}

    def _texts(self, key: str) -> OwnTexts | None:
        """Return the texts of a key, which may be any string; None where they are gone."""
        if not key:
            return _OF_SAMPLE
        try:
            about = json.loads(self._about(key).read_text("utf-8")) if _KEY.match(key) else None
        except FileNotFoundError:
            return None
        return about and OwnTexts(
            self._folder / key / about["file"], about["column"], about["group"], about["title"]
        )

    def _trim(self, looked_at: StudyJob | None = None) -> None:
        """Delete what is too much: the oldest of the largest owner, and nothing in use.

        Whoever brings many texts pushes out their own, and nobody else's.
        """
        running = {name: job.texts for name, job in self._jobs.items() if job.runs}
        read = {texts.parent.name for texts in running.values()}
        for is_own in (False, True):
            owners = {key: about["owner"] for key, about in self._uses(is_own).items()}
            for key in _oldest_of_largest_owner(owners, owners.keys() - running.keys() - read):
                if _delete(self._folder / key):
                    self._about(key).unlink(missing_ok=True)
        for name, job in list(self._jobs.items()):
            if job is not looked_at and not job.runs and not self._about(name).is_file():
                del self._jobs[name]


def _oldest_of_largest_owner(owners: dict[str, str], free: Collection[str]) -> list[str]:
    """Return the keys to delete: the oldest of whichever owner has the most."""
    counts, deleted = Counter(owners.values()), list[str]()
    waiting = [key for key in owners if key in free]
    too_many = len(owners) - (settings().max_studies or KEPT)
    while waiting and len(deleted) < too_many:
        # Of equals the first.
        deleted.append(max(waiting, key=lambda key: counts[owners[key]]))
        waiting.remove(deleted[-1])
        counts[owners[deleted[-1]]] -= 1
    return deleted


def _visitor() -> str:
    """Return the address, or else the session, of the page that runs."""
    return streamlit_run.visitor_address() or heavy.session()


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


def _delete(folder: Path) -> bool:
    """Delete the folder of a study or of texts, unless another server writes in it."""
    try:
        with suppress(FileNotFoundError), locked(folder):
            shutil.rmtree(folder)
    except LockedError:
        return False
    return True


def _delete_while_written(folder: Path, resources: ExitStack) -> None:
    """Delete a folder, again and again while a study may still write into it."""
    end = time.monotonic() + DELETING
    resources.close()
    while folder.exists() and time.monotonic() < end:
        shutil.rmtree(folder, ignore_errors=True)


def describe(study: Study, view: ManyTexts) -> str:
    """Say how many texts of which kind a view's study has."""
    if view.corpus:
        return count(study.n_texts, "text") + " of your own"
    of = "text" if study.manifest["settings"].get("join") else "sentence"
    return f"{count(study.n_texts, of)} of the sample"


@cache
def studies() -> Studies:
    """Return the studies of this process, or of all servers that share its folder."""
    shared = settings().shared
    return Studies(Path(shared) / "studies" if shared else None)
