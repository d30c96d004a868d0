"""The space that a study is said to take, against what it takes on the disk."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import mha_viz as mv
from mha_viz.corpus.run import progress, run
from mha_viz.corpus.run.progress import Progress, space_note
from mha_viz.corpus.sources import source as sources
from mha_viz.corpus.store import study_file

PER_SHARD, N_TEXTS = 13, 91
TEXTS = [
    f"The cat of house {100 + i} sat on the mat, and {i % 7} dogs slept." for i in range(N_TEXTS)
]


def test_space_note_estimates_the_number_of_texts_from_the_size_of_the_source(
    bert: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "SHARD_TEXTS", PER_SHARD)
    monkeypatch.setattr(study_file, "SHARDS_AT_ONCE", 3)
    monkeypatch.setattr(run, "SHARDS_AT_ONCE", 3)
    monkeypatch.setattr(run, "_COUNTED_BYTES", 0)  # nobody counts them
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    told: list[Progress] = []
    mv.study(bert, tmp_path / "texts.txt", tmp_path / "study", on_progress=told.append)
    assert space_note(told[0]) is None and told[-1].n_total is None
    assert space_note(told[-1]) == ""
    expected = told[-1].n_expected
    assert expected == pytest.approx(N_TEXTS, rel=0.02)

    monkeypatch.setattr(progress, "MANY", N_TEXTS - 9)
    note = space_note(told[-1])
    assert note and re.search(rf"about {expected:,.0f} texts", note)
