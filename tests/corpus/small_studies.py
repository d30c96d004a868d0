"""Texts of a small study, and all bytes that a study has written."""

import hashlib
from pathlib import Path

from tests.corpus.plain_study import TEXTS

LINES = [f"{text} Number {i}." for i in range(3) for text in TEXTS]  # 21 texts, 6 shards of 4
FEW = LINES[:12]  # 3 shards


def files_of(folder: Path) -> dict[str, str]:
    """Every file of a folder and the hash of its bytes."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
