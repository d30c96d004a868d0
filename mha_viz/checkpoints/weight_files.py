"""Files of weights: their headers are read, and checked, before any weight is.

Imports neither torch nor transformers.
"""

import json
from pathlib import Path

from safetensors import SafetensorError, safe_open

from mha_viz.checkpoints.checkpoint_files import ADAPTER_CONFIG
from mha_viz.checkpoints.hub_cache import HOW_TO_CONVERT, INDEX, PICKLED
from mha_viz.errors import BrokenCheckpointError, UnsafeCheckpointError

MAX_HEADER_BYTES = 16 * 2**20  # a thousand tensors take 0.1 MB

Shapes = dict[str, tuple[int, ...]]


def read_headers(folder: Path) -> Shapes:
    """Return the shape of every weight in a folder's safetensors files; none is loaded.

    All files must be readable as safetensors, and lie inside of the folder.
    """
    if (folder / ADAPTER_CONFIG).is_file():
        raise BrokenCheckpointError(
            f"{folder.name} is an adapter for another model: merge it into that model first."
        )
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        pickled = [path.name for path in sorted(folder.iterdir()) if path.name.endswith(PICKLED)]
        if pickled:
            raise UnsafeCheckpointError(
                f"{folder.name} holds its weights in {pickled[0]}, a format that can run code "
                f"when it is read. Only safetensors is loaded. {HOW_TO_CONVERT}"
            )
        raise BrokenCheckpointError(f"{folder.name} has no *.safetensors file with weights.")
    shapes = {name: shape for file in files for name, shape in read_header(file).items()}
    if (folder / INDEX).is_file():
        _check_index(folder, {file.name for file in files})
    return shapes


def read_header(file: Path) -> Shapes:
    """Return the shape of every weight in a file, which must be safetensors and readable.

    The library checks the header: each weight's type, shape and place in the file must agree.
    """
    try:
        _check_header(file)
        with safe_open(file, framework="pt") as weights:
            return {name: tuple(weights.get_slice(name).get_shape()) for name in weights.keys()}
    except (SafetensorError, OSError, ValueError) as error:
        raise BrokenCheckpointError(
            f"{file.name} in {file.parent.name} cannot be read as safetensors ({_why(error)}): the "
            "file is damaged or incomplete. Fetch it again."
        ) from error


def _check_header(file: Path) -> None:
    """Check that a file's header is no longer than that of real files."""
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
    if length > MAX_HEADER_BYTES:
        raise ValueError(f"its header claims {length:,} bytes")


def _check_index(folder: Path, present: set[str]) -> None:
    """Check that every part that the index names is a file of the folder."""
    path = folder / INDEX
    try:
        parts = set(json.loads(path.read_text("utf-8"))["weight_map"].values())
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise BrokenCheckpointError(
            f"{INDEX} of {folder.name} cannot be read: {_why(error)}"
        ) from error
    for part in map(str, parts - present):
        if Path(part).name != part or part == ".." or "\\" in part:
            raise UnsafeCheckpointError(
                f"{INDEX} of {folder.name} names {part!r}, which lies outside of the folder."
            )
        raise BrokenCheckpointError(f"{folder.name} lacks {part!r}, which its {INDEX} names.")


def _why(error: Exception) -> str:
    """Say what went wrong, without the system's path and all of what a header says."""
    return f"{getattr(error, 'strerror', None) or error!s:.300}"
