"""A study as earlier versions wrote it: a folder of Parquet files with their hashes."""

import hashlib
import json
from pathlib import Path
from typing import Any

from pyarrow import parquet

import mha_viz as mv

ROWS = "sentences texts untrained chance words arcs parses untrained_parses".split()


def as_older(study: mv.Study, folder: Path, *, finished: bool = True) -> Path:
    """Write the tables of a study into Parquet files, as format 3 had them."""
    part = folder / "parts/00000"
    part.mkdir(parents=True)
    for name in study._database.tables:
        place = part if name in ROWS else folder
        rows = study._database.relation(f'FROM "{name}"').to_arrow_table()
        parquet.write_table(rows, place / f"{name}.parquet")
    seal(part / "shard.json", {"n_shards": 1})
    seal(folder / "study.json", {**study.manifest, "format": 3, "finished": finished})
    return folder


def seal(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file with the sizes and hashes of the tables beside it, and its own."""
    tables = sorted(path.parent.glob("*.parquet"))
    files = {table.name: table.stat().st_size for table in tables}
    hashes = {table.name: hashlib.sha256(table.read_bytes()).hexdigest() for table in tables}
    whole = {**content, "files": files, "sha256": hashes}
    own = hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps({**whole, "sha256": {**hashes, path.name: own}}))
