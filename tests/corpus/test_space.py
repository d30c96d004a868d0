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

PER_SHARD, N_TEXTS = 101, 707
TEXTS = [f"The cat of house {i} sat on the mat, and {i % 7} dogs slept." for i in range(N_TEXTS)]
_UNITS = {"bytes": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}


def sizes(note: str) -> list[float]:
    """The sizes in a sentence, in bytes."""
    return [float(n) * _UNITS[unit] for n, unit in re.findall(r"([\d.]+) (bytes|[kMG]B)", note)]


def on_disk(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def begun(bert: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[mv.Study, Path]:
    """A finished study of seven parts, and the same before its shards were deleted."""
    folder = tmp_path_factory.mktemp("space")
    (folder / "texts.txt").write_text("\n".join(TEXTS))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "SHARD_TEXTS", PER_SHARD)
        patch.setattr(run, "remove_shards", lambda made: shutil.copytree(made, folder / "begun"))
        made = mv.study(bert, folder / "texts.txt", folder / "study")
    shutil.rmtree(made.folder / "shards")
    return made, folder / "begun"


@pytest.mark.extended
def test_space_note_estimates_what_the_study_takes(
    begun: tuple[mv.Study, Path], bert: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished, folder = begun
    assert space_note(folder, 10**6) == "" and space_note(tmp_path, 10**9) is None
    monkeypatch.setattr(progress, "MANY", N_TEXTS - 1)
    note = space_note(folder, N_TEXTS)
    assert note is not None and f"about {N_TEXTS} texts" in note and note.count("--no-texts") == 1
    at_end, meanwhile, alone = sizes(note)
    parts = [*finished.folder.glob("parts/*/*.parquet"), *finished.folder.glob("edges*")]
    assert at_end == pytest.approx(sum(path.stat().st_size for path in parts), rel=0.25)
    assert meanwhile == pytest.approx(on_disk(folder), rel=0.25)
    texts = [f"{text} Again." for text in TEXTS] + TEXTS
    without = mv.study(bert, texts, tmp_path / "sums", keep_texts=False)
    assert 0.4 * alone < on_disk(without.folder) < alone  # the room for what is added up meanwhile


def test_number_of_texts_is_estimated_from_the_size_of_the_source(
    begun: tuple[mv.Study, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "MANY", N_TEXTS - 20)
    folder = Path(shutil.copytree(begun[1], tmp_path / "study"))
    note = space_note(folder, None)
    assert note
    found = re.search(r"about ([\d,]+) texts", note)
    assert found and int(found[1].replace(",", "")) == pytest.approx(N_TEXTS, rel=0.02)
    manifest = json.loads((folder / "study.json").read_text())
    manifest["source"]["files"][0]["size"] //= 2
    write_manifest(folder, manifest)
    assert space_note(folder, None) == ""
