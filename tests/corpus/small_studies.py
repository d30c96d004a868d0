"""Texts of a small study, all bytes that a study has written, and studies changed on purpose."""

import hashlib
import json
from pathlib import Path

from mha_viz.corpus.store.integrity import with_hashes

TEXTS = [
    "The cat sat on the mat because the cat was tired.",
    "She said that he had gone home.",
    "the  cat sat on the mat because the cat was tired.",
    "Why did the dog bark, and why did the dog stop?",
    "Rain fell all night because the wind had turned.",
    "A hundred_percent 100% sure thing.",
    "He saw her and she saw him.",
]
LINES = [f"{text} Number {i}." for i in range(3) for text in TEXTS]  # 21 texts, 6 shards of 4
FEW = LINES[:12]  # 3 shards


class Stopped(Exception):
    """An error that a test raises in the middle of a study."""


def files_of(folder: Path) -> dict[str, str]:
    """Every file of a folder and the hash of its bytes."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def resealed(folder: Path) -> Path:
    """The same study, whose JSON files say of its tables, and of themselves, what is true now."""
    for path in [*folder.rglob("shard.json"), folder / "study.json"]:
        content = json.loads(path.read_text("utf-8"))
        tables = sorted(path.parent.glob("*.parquet"))
        content["files"] = {table.name: table.stat().st_size for table in tables}
        for part in content.get("parts", ()):
            place = folder / f"parts/{part['first']:05d}"
            part["files"] = {path.name: path.stat().st_size for path in place.glob("*.parquet")}
        path.write_text(json.dumps(with_hashes(content, path)))
    return folder
