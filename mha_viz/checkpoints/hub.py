"""Fetching a model from the Hub, over networks that break, lie or fall silent.

Imports neither torch nor transformers.
"""

from __future__ import annotations

import errno
import socket
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mha_viz.checkpoints.files import entries, size
from mha_viz.checkpoints.hub_cache import READ, cache_root, is_whole, repository
from mha_viz.errors import MhaVizError, ModelNotFoundError, UnsafeCheckpointError

NETWORK_TIMEOUT = 0.7  # seconds; without network an id has to fail within one
ANSWER_TIMEOUT = 10.0  # seconds that the Hub has for one answer
STALLED_AFTER = 20.0  # seconds without a byte after which fetching is given up
MAX_DOWNLOAD_BYTES = 8 * 2**30
_NOT_WRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS)


def online() -> bool:
    """Whether the Hub may be asked and its host answers."""
    from huggingface_hub import constants

    return not constants.HF_HUB_OFFLINE and _reachable(constants.ENDPOINT)


def fetch(name: str) -> Path:
    """Download a model into the machine's cache -> the folder with its files.

    huggingface_hub tries again by itself and may wait for minutes, in some calls for ever. So it
    works in a thread of its own, which is left alone when nothing has come for a while.

    Raises:
        ModelNotFoundError: the Hub has no such model, or the network failed.
        UnsafeCheckpointError: no safetensors weights, or far too many.
    """
    done: dict[str, Any] = {}

    def work() -> None:
        try:
            done["folder"] = _fetch(name)
        # Raised again by the thread that waits. What is not the Hub can make the library raise
        # any exception.
        except Exception as error:
            done["error"] = error

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    if not _moves(thread, repository(name) / "blobs"):
        raise _failed(name, f"nothing has come for {STALLED_AFTER:.0f} seconds; try again later")
    error = done.get("error")
    if isinstance(error, MhaVizError):
        raise error
    if error is not None:
        raise _failed(name, _reason(error)) from error
    folder: Path = done["folder"]
    return folder


def _fetch(name: str) -> Path:
    from huggingface_hub import HfApi, hf_hub_download

    info = HfApi().model_info(name, files_metadata=True, timeout=ANSWER_TIMEOUT)
    _check_offer(name, info)
    # What makes a folder a model comes last: until then nobody takes the files for one.
    files = [file.rfilename for file in info.siblings or () if _is_wanted(file.rfilename)]
    files.sort(key=lambda file: (file == "config.json", file))
    folder = Path()
    for file in files:
        folder = Path(
            hf_hub_download(
                name,
                file,
                cache_dir=cache_root(),
                # Named without a commit, the last one is entered as what "main" stands for.
                revision=None if file == files[-1] else info.sha,
            )
        ).parent
    if not is_whole(folder):
        raise ModelNotFoundError(
            f"{name!r} on the Hub has no config.json, weights and tokenizer that belong together: "
            "it is no model that can be loaded here, or it was changed while it was fetched."
        )
    return folder


def _is_wanted(file: str) -> bool:
    """A file of the kinds that are read, in the repository's own folder."""
    return file.endswith(READ) and Path(file).name == file and "\\" not in file


def _check_offer(name: str, info: Any) -> None:
    files = [file for file in info.siblings or () if _is_wanted(file.rfilename)]
    weights = [file for file in files if file.rfilename.endswith(".safetensors")]
    if not weights:
        raise UnsafeCheckpointError(
            f"{name!r} has no safetensors weights; pickled weights can run code and are never "
            "loaded."
        )
    total = sum(file.size or 0 for file in files)
    if total > MAX_DOWNLOAD_BYTES:
        raise UnsafeCheckpointError(
            f"{name!r} has {total / 2**30:.0f} GiB of weights; at most "
            f"{MAX_DOWNLOAD_BYTES >> 30} GiB are fetched. Download it yourself and give the folder."
        )


def _moves(thread: threading.Thread, blobs: Path) -> bool:
    """Wait for a thread as long as files grow; whether it has ended."""
    there, since = -1, time.monotonic()
    while thread.is_alive() and time.monotonic() - since < STALLED_AFTER:
        thread.join(0.1)
        now = sum(size(file) for file in entries(blobs))
        if now != there:
            there, since = now, time.monotonic()
    return not thread.is_alive()


def _failed(name: str, reason: str) -> ModelNotFoundError:
    return ModelNotFoundError(f"{name!r} could not be fetched from the Hub: {reason}.")


def _reason(error: BaseException) -> str:
    """What has happened, and what to do, without the library's own words (addresses, paths)."""
    from huggingface_hub.errors import FileMetadataError, HFValidationError, LocalEntryNotFoundError

    while isinstance(error, LocalEntryNotFoundError) and error.__cause__ is not None:
        error = error.__cause__  # it says that the file is not in the cache either
    if isinstance(error, HFValidationError):
        return "the Hub allows no such name"
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status in (401, 403, 404):
        return (
            "it is not there, or it is private or asks for an agreement (then log in on this "
            "machine with `hf auth login`)"
        )
    if status is not None:
        return f"the Hub answered with status {status}; try again later"
    if any("Timeout" in kind.__name__ for kind in type(error).__mro__):
        return f"it did not answer within {ANSWER_TIMEOUT:.0f} seconds; try again later"
    if isinstance(error, OSError) and error.errno in _NOT_WRITABLE:
        return f"this machine's cache cannot be written to ({error.strerror})"
    if isinstance(
        error,
        (ValueError, TypeError, LookupError, AttributeError, AssertionError, FileMetadataError),
    ):
        return "what answered is not the Hub; perhaps this network wants you to log in first"
    return "the connection broke off; try again"


def _reachable(endpoint: str) -> bool:
    """Whether the Hub's host answers at all: one connection, given up after NETWORK_TIMEOUT."""
    url = urlsplit(endpoint)
    port = url.port or (443 if url.scheme == "https" else 80)
    answered = threading.Event()

    def connect() -> None:
        try:
            with socket.create_connection((url.hostname or "", port), timeout=NETWORK_TIMEOUT):
                answered.set()
        except OSError:
            return

    # In a thread, because resolving a name has no time-out of its own.
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(NETWORK_TIMEOUT)
    return answered.is_set()
