"""A byte of a study that was changed after it was written is never shown, but told."""

import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mha_viz as mv
from mha_viz.corpus.query.verification import verify_study
from mha_viz.corpus.run import run
from mha_viz.corpus.sources import source as sources
from mha_viz.corpus.store import blocks
from mha_viz.corpus.store.temporary import delete_left_behind, temporary_folder
from mha_viz.corpus.treebank.trees import sample_lines
from mha_viz.errors import StudyError


@pytest.fixture(scope="module")
def whole(bert: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of trees in three parts, with every kind of file that a study has."""
    folder = tmp_path_factory.mktemp("whole")
    sentences = "\n".join(sample_lines()).strip().split("\n\n")[::31]
    (folder / "a.conllu").write_text("\n\n".join(sentences) + "\n\n", "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "SHARD_TEXTS", 3)
        patch.setattr(blocks, "PART_BYTES", 1)
        return mv.study(bert, folder / "a.conllu", folder / "study").folder


@pytest.fixture
def study(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "study"))


def flip(path: Path, seed: int = 0) -> None:
    """One bit of a file, neither in its first nor its last four bytes."""
    content = bytearray(path.read_bytes())
    dice = random.Random(f"{path.name}{seed}")
    content[dice.randrange(4, len(content) - 4)] ^= 1 << dice.randrange(8)
    path.write_bytes(content)


def ways_to_read(table: str) -> list[Callable[[mv.Study], Any]]:
    return [
        lambda study: study.sql(f'SELECT * FROM "{table}"'),
        lambda study: study._database.query(f"FROM {table.upper()}"),
        lambda study: study._database.relation(f"SELECT count(*) FROM {table}").df(),
    ]


def test_every_table_with_a_changed_bit_is_refused(study: Path) -> None:
    """Refuse it when the study is opened or, of what may be large, before the first answer."""
    opened = mv.Study.load(study)
    assert all(len(read(opened)) for of in opened._database.tables for read in ways_to_read(of))
    tables = sorted(study.rglob("*.parquet"))
    assert len(tables) > 40
    for path in tables:
        content, shown = path.read_bytes(), path.relative_to(study).as_posix()
        flip(path)
        if path.parent == study or not (study / path.name).exists():  # else nobody reads it
            _check_refused(study, path.stem, shown)
        with pytest.raises(StudyError, match=rf"1 file of \d+ .*{shown}"):
            verify_study(study)
        path.write_bytes(content)
    assert verify_study(study).n_files == len(tables) + 1 + len(list(study.glob("parts/*")))


def _check_refused(folder: Path, table: str, shown: str) -> None:
    told = rf"damaged: {shown} was|cannot be read"
    try:
        study = mv.Study.load(folder)
    except StudyError as error:
        assert re.search(told, str(error))  # noqa: PT017  # or else it is told later
        return
    for read in ways_to_read(table):
        with pytest.raises(StudyError, match=told):
            read(study)


@pytest.mark.parametrize("seed", range(4))
def test_json_with_a_changed_bit_is_refused(study: Path, seed: int) -> None:
    path = study / ("study.json", "parts/00001/shard.json")[seed % 2]
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content, separators=(",", ":")))  # where each byte means something
    flip(path, seed)
    with pytest.raises(StudyError, match=rf"{path.name}|newer mha-viz"):
        mv.Study.load(study).verify("texts")


def test_lost_files_are_named(study: Path) -> None:
    shutil.rmtree(study / "parts/00000")
    (study / "labels.parquet").unlink()
    with pytest.raises(StudyError, match=r"2 .*labels\.parquet, parts/00000/shard"):
        verify_study(study)


class Stopped(Exception):
    """An end of a study before it is finished."""


@pytest.mark.parametrize("keep_texts", [True, False])
def test_parts_with_a_changed_bit_are_not_added_up(
    bert: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep_texts: bool
) -> None:
    """Neither those of a study that goes on, nor the sums of parts that are gone."""
    monkeypatch.setattr(sources, "SHARD_TEXTS", 3)
    monkeypatch.setattr(run, "SHARDS_AT_ONCE", 2)
    texts = [f"{number} cats sat on the mat." for number in range(19)]

    def stop(now: run.Progress) -> None:
        if now.n_texts >= 17:
            raise Stopped

    def make(**more: Any) -> mv.Study:
        return mv.study(bert, texts, tmp_path / "study", keep_texts=keep_texts, **more)

    with pytest.raises(Stopped):
        make(on_progress=stop)
    kept = {path: path.read_bytes() for path in sorted((tmp_path / "study").rglob("*.parquet"))}
    folders = {path.relative_to(tmp_path / "study").parts[0] for path in kept}
    assert folders == ({"shards"} if keep_texts else {"shards", "totals"})
    for path, content in [*kept.items()][:: 7 if keep_texts else 3]:
        flip(path)
        with pytest.raises(StudyError, match=rf"{path.parent.name}/{path.name}"):
            make()
        path.write_bytes(content)
    assert verify_study(make().folder).n_bytes > 0


_HOLD = """
from mha_viz.corpus.store.temporary import temporary_folder
with temporary_folder() as folder:
    (folder / "own.txt").write_text("A visitor's text.")
    print(folder, flush=True)
    input()
"""


def test_temporary_folders_of_killed_processes_are_deleted_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, pipe = [sys.executable, "-c", _HOLD], subprocess.PIPE
    env = os.environ | {"TMPDIR": str(tmp_path)}
    both = [subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, text=True) for _ in "ab"]
    folders = [Path(one.stdout.readline().strip()) for one in both if one.stdout]
    both[0].kill()
    both[0].wait()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "others").mkdir()
    with temporary_folder() as own:
        assert delete_left_behind() == folders[:1]
        assert {path.name for path in tmp_path.iterdir()} == {"others", own.name, folders[1].name}
    both[1].communicate("\n")
    assert [path.name for path in tmp_path.iterdir()] == ["others"]
