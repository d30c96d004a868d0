"""The Hub's answers about a model: its files, their sizes, and the reasons for failures.

Imports neither torch nor transformers.
"""

import errno
import shutil
import socket
import threading
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from mha_viz.checkpoints import hub_cache
from mha_viz.checkpoints.files import size
from mha_viz.core.amounts import of_bytes
from mha_viz.errors import ModelNotFoundError, UnsafeCheckpointError

NETWORK_TIMEOUT = 0.7  # seconds; without network an id has to fail within one
ANSWER_TIMEOUT = 10.0  # seconds that the Hub has for one answer
MAX_DOWNLOAD_BYTES = 8 * 10**9
_NOT_WRITABLE = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO),  # the disk
    *(errno.EACCES, errno.EPERM, errno.EROFS),  # what may be done to it
    *(errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ELOOP),  # a file where a folder should be
)


def online() -> bool:
    """Return whether the Hub may be asked and its host answers."""
    return not why_offline()


def why_offline() -> str:
    """Say why the Hub cannot be asked, and what to do; "" where it can."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set, so that the network is never asked; unset it and try again"
    if not _reachable(constants.ENDPOINT):
        return "there is no network here, or the Hub does not answer; try again where there is one"
    return ""


@dataclass(frozen=True, slots=True)
class HubFiles:
    """The files of a model on the Hub that are fetched."""

    commit: str  # of the repository
    # file -> bytes. What makes a folder a model, config.json, comes last: until then the folder
    # counts as incomplete.
    sizes: dict[str, int]

    @property
    def n_bytes(self) -> int:
        """The size of all files."""
        return sum(self.sizes.values())


def look_up(name: str) -> HubFiles:
    """Ask the Hub for a model's files and check them before any is fetched."""
    from huggingface_hub import HfApi

    hub_id, revision = hub_cache.revision_of(name)
    info = HfApi().model_info(
        hub_id, revision=revision or None, files_metadata=True, timeout=ANSWER_TIMEOUT
    )
    files = list(info.siblings or ())
    fetched = [file for file in files if _is_fetched(file.rfilename)]
    fetched.sort(key=lambda file: (file.rfilename == "config.json", file.rfilename))
    offer = HubFiles(str(info.sha), {file.rfilename: file.size or 0 for file in fetched})
    _check_weights(name, [file.rfilename for file in files])
    if offer.n_bytes > MAX_DOWNLOAD_BYTES:
        raise UnsafeCheckpointError(
            f"{name!r} has {of_bytes(offer.n_bytes)} of weights; at most "
            f"{of_bytes(MAX_DOWNLOAD_BYTES)} are fetched. Download it yourself and give the folder."
        )
    blobs = [hub_cache.repository(name) / "blobs" / file.lfs.sha256 for file in fetched if file.lfs]
    _check_room(name, offer.n_bytes - sum(max(size(b), size(hub_cache.part_of(b))) for b in blobs))
    return offer


def _is_fetched(file: str) -> bool:
    """Return whether a file is of a kind that is read, in the repository's own folder."""
    return file.endswith(hub_cache.READ) and Path(file).name == file and "\\" not in file


def _check_weights(name: str, offered: list[str]) -> None:
    if any(_is_fetched(file) and file.endswith(".safetensors") for file in offered):
        return
    pickled = next((file for file in offered if file.endswith(hub_cache.PICKLED)), None)
    if pickled is None:
        raise UnsafeCheckpointError(
            f"{name!r} has no safetensors weights: there is nothing in it that could be loaded."
        )
    raise UnsafeCheckpointError(
        f"{name!r} has no safetensors weights; its own ({pickled}) are pickled, which can run code "
        f"when they are read, and are never loaded. {hub_cache.HOW_TO_CONVERT}"
    )


def _check_room(name: str, needed: int) -> None:
    """Check that the rest of the download fits on the cache's disk."""
    root = hub_cache.cache_root()
    existing = next(folder for folder in (root, *root.absolute().parents) if folder.is_dir())
    free = shutil.disk_usage(existing).free
    if needed > free:
        raise download_error(
            name,
            f"{of_bytes(needed)} are still to come, and the disk of this machine's cache has "
            f"{of_bytes(free)} left; make room, or set HF_HUB_CACHE to a folder on another "
            "disk",
        )


def download_error(name: str, why: str) -> ModelNotFoundError:
    """Return the error for a model that could not be fetched."""
    return ModelNotFoundError(f"{name!r} could not be fetched from the Hub: {why}.")


def reason(error: BaseException) -> str:
    """Explain an error and what to do, without the library's own words (addresses, paths)."""
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
    """Return whether the Hub's host accepts one connection within NETWORK_TIMEOUT."""
    url = urlsplit(endpoint)
    port = url.port or (443 if url.scheme == "https" else 80)
    connected = threading.Event()

    def connect() -> None:
        try:
            with socket.create_connection((url.hostname or "", port), timeout=NETWORK_TIMEOUT):
                connected.set()
        except OSError:
            return

    # In a thread, because resolving a name has no time-out of its own.
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(NETWORK_TIMEOUT)
    return connected.is_set()
