"""Reads of files that may be dead links, forbidden, or gone since they were listed.

A file that cannot be looked at counts as missing, which is no error.
"""

import json
import os
from pathlib import Path
from typing import Any

MAX_JSON_BYTES = 64 * 10**6


def list_folder(folder: Path) -> list[Path]:
    """List a folder by name; nothing where it is none or may not be read."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def is_file(path: Path) -> bool:
    """Return whether this is a readable regular file, also behind links."""
    try:
        return path.is_file() and os.access(path, os.R_OK)
    except OSError:
        return False


def size(path: Path) -> int:
    """Return the size in bytes; 0 where there is nothing."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def modified_time(path: Path) -> float:
    """Return the time of the last change in seconds; 0 where there is nothing."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def json_object(path: Path) -> dict[str, Any]:
    """Read the object in a JSON file; {} where there is none, or one of more than 64 MB."""
    if not is_file(path) or size(path) > MAX_JSON_BYTES:
        return {}
    try:
        read = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}
