"""What can be read only once, copied into a temporary file: standard input, pipes, strings."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO

from mha_viz.errors import SourceError

Write = Callable[[IO[bytes]], None]  # into the copy


def on_disk(name: str, write: Write) -> Path:
    """A new temporary file, in the folder that TMPDIR names.

    Args:
        name: of what is copied, for messages.
        write: its content.

    Raises:
        SourceError: it cannot be read, or the disk is full. No file is left.
    """
    descriptor, path = tempfile.mkstemp(prefix="mha_viz-")
    copy = Path(path)
    try:
        with open(descriptor, "wb") as stream:
            write(stream)
    except BaseException as error:
        copy.unlink()
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            raise SourceError(f"{name} cannot be copied to {copy.parent}: {reason}.") from error
        raise
    return copy


def standard_input(copy: IO[bytes]) -> None:
    """Standard input to its end.

    Args:
        copy: to write to.
    """
    shutil.copyfileobj(sys.stdin.buffer, copy)


def pipe(path: Path, copy: IO[bytes]) -> None:
    """All that comes out of a pipe.

    Args:
        path: of the pipe.
        copy: to write to.
    """
    with path.open("rb") as stream:
        shutil.copyfileobj(stream, copy)


def strings(texts: Iterable[object], copy: IO[bytes]) -> None:
    """Strings as JSON lines; what is no string becomes null, and is skipped when it is read.

    Args:
        texts: the strings.
        copy: to write to.
    """
    for text in texts:
        copy.write(json.dumps(text if isinstance(text, str) else None).encode() + b"\n")
