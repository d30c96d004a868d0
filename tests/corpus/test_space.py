"""The space that a study is said to take, against what it takes on the disk."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import mha_viz as mv
from mha_viz.corpus.run import progress, run
from mha_viz.corpus.run.progress import space_note
from mha_viz.corpus.sources import source as sources
from mha_viz.corpus.store.storage import write_manifest

PER_SHARD, N_TEXTS = 13, 91
TEXTS = [
    f"The cat of house {100 + i} sat on the mat, and {i % 7} dogs slept." for i in range(N_TEXTS)
]


def test_space_note_estimates_the_number_of_texts_from_the_size_of_the_source(
    bert: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "SHARD_TEXTS", PER_SHARD)
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    folder = tmp_path / "begun"  # as the study is before its shards are deleted
    monkeypatch.setattr(run, "remove_shards", lambda made: shutil.copytree(made, folder))
    mv.study(bert, tmp_path / "texts.txt", tmp_path / "study")
    assert space_note(folder, 10**6) == "" and space_note(tmp_path, 10**9) is None

    monkeypatch.setattr(progress, "MANY", N_TEXTS - 9)
    note = space_note(folder, None)
    assert note
    count = re.search(r"about ([\d,]+) texts", note)
    assert count and int(count[1].replace(",", "")) == pytest.approx(N_TEXTS, rel=0.02)
    manifest = json.loads((folder / "study.json").read_text())
    manifest["source"]["files"][0]["size"] //= 2
    write_manifest(folder, manifest)
    assert space_note(folder, None) == ""
