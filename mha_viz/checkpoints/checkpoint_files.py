"""The files of a checkpoint's folder: regular ones, no larger than those of real models.

Knows names and sizes, and opens nothing: opening a pipe or a device would block.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from mha_viz.core.amounts import of_bytes
from mha_viz.errors import BrokenCheckpointError, UnsafeCheckpointError

MB = 10**6
# Every name that transformers may open, and the most that such a file may hold: the first pattern
# that fits counts. The largest tokenizer.json in use has 35 MB, the largest index 9 MB.
_LARGEST = (
    ("*.safetensors", None),  # what they may hold follows from the config
    ("config.json", 1 * MB),
    ("generation_config.json", 1 * MB),
    ("adapter_config.json", 1 * MB),
    ("tokenizer_config.json", 16 * MB),
    ("special_tokens_map.json", 16 * MB),
    ("added_tokens.json", 16 * MB),
    ("chat_template*", 4 * MB),
    ("*.jinja", 4 * MB),
    ("*.safetensors.index.json", 64 * MB),
    ("tokenizer*", 64 * MB),
    ("vocab*", 64 * MB),
    ("merges*", 64 * MB),
    ("*.model", 64 * MB),
    ("*.spm", 64 * MB),
    ("*.tiktoken", 64 * MB),
    ("*.codes", 64 * MB),
    ("*.json", None),  # logs of a training and the like, which only some families open
    ("*.txt", None),
)
_TEMPLATES = "additional_chat_templates"

Stamp = tuple[tuple[str, int, int, int], ...]


def check_files(folder: Path) -> Stamp:
    """Refuse a folder in which a file that would be opened is no regular one, or is far too large.

    A link counts as what it leads to: the Hub's cache is made of links.

    Returns:
        A stamp by which the files can be recognised as unchanged: name, inode, size and time of
        each.
    """
    stamp = []
    for path, largest in _opened(folder):
        try:
            found = path.stat()
        except (OSError, ValueError) as error:
            raise BrokenCheckpointError(
                f"{path.name} in {folder.name} cannot be read, or is a link to a file that is not "
                "there: fetch the model again."
            ) from error
        if not stat.S_ISREG(found.st_mode):
            raise UnsafeCheckpointError(
                f"{path.name} in {folder.name} is {_kind(found.st_mode)}: only regular files are "
                "opened. Take it out of the folder."
            )
        if largest is not None and found.st_size > largest:
            raise UnsafeCheckpointError(
                f"{path.name} of {folder.name} is larger than {of_bytes(largest)}, which no real "
                "model needs."
            )
        stamp.append((path.name, found.st_ino, found.st_size, found.st_mtime_ns))
    return tuple(stamp)


def _opened(folder: Path) -> Iterator[tuple[Path, int | None]]:
    """Yield each file that would be opened, with the largest size that it may have."""
    try:
        paths = sorted(folder.iterdir())
        if folder / _TEMPLATES in paths and (folder / _TEMPLATES).is_dir():
            paths += sorted((folder / _TEMPLATES).iterdir())
    except OSError as error:
        raise BrokenCheckpointError(
            f"The folder {folder.name} cannot be read: {error.strerror or error}."
        ) from error
    for path in paths:
        for pattern, largest in _LARGEST:
            if fnmatch(path.name.lower(), pattern):
                yield path, largest
                break


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFDIR: "a folder",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return kinds.get(stat.S_IFMT(mode), "no file")
