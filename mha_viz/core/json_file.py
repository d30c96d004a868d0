"""Small JSON files of a kind and a version, read with suspicion: anyone can send anything."""

import hashlib
import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mha_viz.errors import RecordError

HASH = "sha256"  # of all other fields; files of before have none
MAX_NUMBER = 1e100  # of what is measured: the difference of two stays finite
_HALF = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class JsonKind:
    """A kind of file: its name, version and largest size, what it is called, and what writes it."""

    kind: str
    version: int
    most: int  # bytes
    called: str  # as in "is not a circuit that can be opened here"
    writers: str

    def to_bytes(self, fields: dict[str, Any]) -> bytes:
        """Encode fields with the kind and the version."""
        content = {"kind": self.kind, "version": self.version, **fields}
        content[HASH] = _hash(content)
        return (json.dumps(content, indent=1, allow_nan=False) + "\n").encode()

    def read(self, path: Path) -> bytes:
        """Read a file that is small enough to be one; else raise RecordError."""
        try:
            if path.exists() and not path.is_file() and not path.is_dir():  # a pipe never ends
                raise self.wrong(path, "it is no regular file")
            with path.open("rb") as file:
                return file.read(self.most + 1)
        except (OSError, ValueError) as error:
            if isinstance(error, RecordError):
                raise
            reason = getattr(error, "strerror", None) or "no file has such a name"
            raise self.wrong(path, reason) from error

    def from_bytes(
        self, names: Collection[str], raw: bytes, file: str | Path, optional: str = ""
    ) -> dict[str, Any]:
        """Decode the fields that `to_bytes` was given, by their names, each still unchecked.

        The field `optional` may be missing from the file, and then is from what is returned.
        """
        if len(raw) > self.most:
            raise self.wrong(file, f"it is larger than {self.most:,} bytes")
        try:
            content = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise self.wrong(file, "it is not JSON") from error
        if not isinstance(content, dict):
            raise self.wrong(file, "it is not an object")
        stored_hash = content.pop(HASH, None)
        names = [name for name in names if name != optional or name in content]
        if content.get("kind") != self.kind or set(content) != {*names, "kind", "version"}:
            raise self.wrong(file, f"its kind or its fields are not those of “{self.kind}”")
        if content["version"] != self.version:
            version = f"its version is {content['version']!r:.40}, and {self.version} is known here"
            raise self.wrong(file, version)
        try:
            is_unchanged = stored_hash is None or stored_hash == _hash(content)
        except RecursionError as error:
            raise self.wrong(file, "its values are nested too deeply") from error
        if not is_unchanged:
            raise self.wrong(file, "it was damaged or changed since it was written")
        return {name: content[name] for name in names}

    def wrong(self, file: str | Path, reason: str) -> RecordError:
        """Make the error for a file that is none."""
        return RecordError(
            f"{file} is not {self.called} that can be opened here: {reason}. Give a file that "
            f"{self.writers} wrote."
        )


def _hash(content: dict[str, Any]) -> str:
    """Return the SHA-256 of the fields, in whatever order and spacing they are written."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def is_whole(value: Any, low: int = 0, high: int = 2**53 - 1) -> bool:
    """Tell a whole number of a range."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def is_finite(value: Any) -> bool:
    """Tell a number that a float holds; JSON's whole numbers have no end."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and abs(value) <= MAX_NUMBER


def is_text(value: Any, most: int) -> bool:
    """Tell a text of so many characters; JSON can spell half a character, which no screen takes."""
    return isinstance(value, str) and len(value) <= most and not _HALF.search(value)
