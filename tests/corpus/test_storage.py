"""What is written into the folder of a study, watched while it is written."""

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa

from mha_viz.corpus.store.storage import read_part, write_part


def test_write_part_shows_all_of_its_files_or_none_at_every_moment(tmp_path: Path) -> None:
    final, seen = tmp_path / "shards" / "00003", []

    def look(frame: FrameType, event: str, arg: Any) -> Any:
        if final.exists():
            sys.settrace(None)  # what looks is not looked at
            seen.append(read_part(tmp_path, final))  # raises where a file is missing or cut
            sys.settrace(look)
        return look

    tables = {name: pa.table({"n": np.arange(size)}) for name, size in (("texts", 7), ("pairs", 5))}
    before = sys.gettrace()
    sys.settrace(look)
    try:
        written = write_part(tmp_path, final, tables, {"n_texts": 7})
    finally:
        sys.settrace(before)
    assert seen and all(one == written for one in seen)
    assert [path.name for path in final.parent.iterdir()] == [final.name]
