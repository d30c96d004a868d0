"""Downloads from the Hub, over networks that break, give wrong answers or fall silent.

Weights are written as they come: what was stopped or broken off goes on where it was. Imports
neither torch nor transformers.
"""

import hashlib
import re
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from mha_viz.checkpoints import hub
from mha_viz.checkpoints.files import size
from mha_viz.checkpoints.hub_cache import cache_root, is_complete, part_of, repository, revision_of
from mha_viz.errors import MhaVizError, ModelNotFoundError

STALLED_AFTER = 20.0  # seconds without a byte after which fetching is given up
_SHA256 = re.compile(r"[0-9a-f]{64}")  # how the Hub names the content of a large file


class Download:
    """A model on its way into the machine's cache, fetched by a thread of its own.

    huggingface_hub may wait for minutes, in some calls for ever. A thread that has fallen silent is
    left alone, and ends with the next byte.
    """

    def __init__(self, name: str) -> None:
        self.name = name  # the Hub id, with its revision if one was named
        self.done = self.total = 0  # bytes; the latter 0 until the Hub has answered
        self.folder: Path | None = None  # with the model's files, once all of them are there
        self.error: MhaVizError | None = None  # where it failed, in words for people
        self.stopped = False  # by `stop`
        self._moved = time.monotonic()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """The state of the download: False once it ended. A stalled download is ended here."""
        if not self._thread.is_alive() or self.error or self.stopped:
            return False
        if time.monotonic() - self._moved > STALLED_AFTER:
            silence = f"nothing has come for {STALLED_AFTER:.0f} seconds; try again later"
            self.error = hub.download_error(self.name, silence)
        return self.error is None

    def stop(self) -> None:
        """End it, for all who wait for it; what has come is kept for the next time."""
        if self.running:
            self.stopped = True

    def wait(self) -> Path:
        """Return the folder with the model's files, once they are there."""
        while self.running:
            self._thread.join(0.1)
        if self.folder is None:
            raise self.error or hub.download_error(
                self.name, "it was stopped; ask for it again to go on"
            )
        return self.folder

    # -- in the thread -----------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            if offline := hub.why_offline():
                raise hub.download_error(self.name, offline)
            self.folder = self._fetch(hub.look_up(self.name))
        except _EndedError:
            return
        except MhaVizError as error:
            self.error = self.error or error
        # What is not the Hub can make the library raise any exception.
        except Exception as error:
            failure = hub.download_error(self.name, hub.reason(error))
            failure.__cause__ = error
            self.error = self.error or failure

    def _fetch(self, files: hub.HubFiles) -> Path:
        from huggingface_hub import hf_hub_download

        self.total, folder, before = files.n_bytes, Path(), 0
        hub_id, revision = revision_of(self.name)
        for file, n_bytes in files.sizes.items():
            last = file == list(files.sizes)[-1]
            if file.endswith(".safetensors"):
                self._fetch_large(file, files.commit, before)
            # Finds in the cache what is there, and links it to the model's name.
            folder = Path(
                hf_hub_download(
                    hub_id,
                    file,
                    cache_dir=cache_root(),
                    # Named without a commit, the last one is entered as what "main", or the
                    # revision that was asked for, stands for.
                    revision=(revision or None) if last else files.commit,
                )
            ).parent
            before += n_bytes
            self._note_progress(before)
        if not is_complete(folder):
            raise ModelNotFoundError(
                f"{self.name!r} on the Hub has no config.json, weights and tokenizer that belong "
                "together: it is no model that can be loaded here, or it was changed while it was "
                "fetched."
            )
        return folder

    def _fetch_large(self, file: str, commit: str, before: int) -> None:
        """Fetch a file into the cache's blobs, from where an earlier attempt stopped.

        huggingface_hub would begin anew each time, and reports no byte before the tenth million.
        """
        from huggingface_hub import get_hf_file_metadata, hf_hub_url

        url = hf_hub_url(revision_of(self.name)[0], file, revision=commit)
        facts = get_hf_file_metadata(url, timeout=hub.ANSWER_TIMEOUT)
        if facts.size is None or not _SHA256.fullmatch(facts.etag or ""):
            raise ValueError("the Hub tells size and content of a large file")
        blob = repository(self.name) / "blobs" / str(facts.etag)
        if blob.exists():
            return
        part = part_of(blob)
        lock = cache_root() / ".locks" / repository(self.name).name / f"{facts.etag}.lock"
        for folder in (blob.parent, lock.parent):
            folder.mkdir(parents=True, exist_ok=True)
        with self._locked(lock):
            while size(part) != facts.size:
                self._go_on(url, part, before, facts.size)
            if self._sha256(part) != facts.etag:
                part.unlink()
                raise hub.download_error(self.name, f"{file} has come with errors in it; try again")
            part.replace(blob)

    @contextmanager
    def _locked(self, lock: Path) -> Iterator[None]:
        """Hold the library's lock of one file. A stopped attempt of ours may still let it go."""
        from huggingface_hub.utils import WeakFileLock

        with ExitStack() as locks:
            for n_left in reversed(range(int(STALLED_AFTER) + 5)):
                self._note_progress(self.done)
                try:
                    locks.enter_context(WeakFileLock(lock, timeout=1))
                    break
                except TimeoutError as error:
                    if not n_left:
                        busy = "another program here is fetching it; wait until that one is done"
                        raise hub.download_error(self.name, busy) from error
            yield

    def _go_on(self, url: str, part: Path, before: int, n_bytes: int) -> None:
        """Fetch the rest of a file; returns early where the connection broke and some had come."""
        from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

        begun = size(part) if size(part) < n_bytes else 0
        self._note_progress(before + begun)
        headers = {**build_hf_headers(), "Accept-Encoding": "identity"}
        if begun:
            headers["Range"] = f"bytes={begun}-"
        try:
            with get_session().stream("GET", url, headers=headers, timeout=STALLED_AFTER) as answer:
                hf_raise_for_status(answer)
                with part.open("ab" if answer.status_code == 206 else "wb") as opened:
                    for piece in answer.iter_bytes():
                        opened.write(piece)
                        self._note_progress(before + min(opened.tell(), n_bytes))
        except _EndedError:
            raise
        # The library that reads the connection changes, and its errors with it. One is passed over
        # only where a part of the file has come, and the rest is asked for again.
        except Exception:
            if size(part) <= begun:
                raise
        if not begun < size(part) <= n_bytes:
            raise ValueError("as much comes as the Hub has said")

    def _note_progress(self, done: int) -> None:
        """Note what has come; the place where a download ends that nobody waits for."""
        self.done, self._moved = done, time.monotonic()
        if self.stopped or self.error:
            raise _EndedError

    def _sha256(self, file: Path) -> str:
        digest = hashlib.sha256()
        with file.open("rb") as opened:
            while piece := opened.read(2**20):
                digest.update(piece)
                self._note_progress(self.done)
        return digest.hexdigest()


class _EndedError(BaseException):
    """The end of a download. No `Exception`, so that nothing in between treats it as a fault."""


# -- those under way -------------------------------------------------------------------------------

_LOCK = threading.Lock()
_UNDER_WAY: dict[str, Download] = {}


def download(name: str) -> Download:
    """Begin to fetch a model into the cache, or join those who wait for it already."""
    with _LOCK:
        for other in [
            other for other, running_download in _UNDER_WAY.items() if not running_download.running
        ]:
            del _UNDER_WAY[other]
        if name not in _UNDER_WAY:
            _UNDER_WAY[name] = Download(name)
        return _UNDER_WAY[name]


def under_way() -> list[Download]:
    """Return the running downloads, in the order in which they were started."""
    with _LOCK:
        return [
            running_download for running_download in _UNDER_WAY.values() if running_download.running
        ]
