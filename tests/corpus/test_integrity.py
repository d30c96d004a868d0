"""A byte of a study that was changed after it was written is never shown, but told."""

import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pytest

import mha_viz as mv
from mha_viz.corpus.sources import source as sources
from mha_viz.corpus.store.address import Address
from mha_viz.corpus.store.study_file import (
    COUNTS,
    FILE,
    UNFINISHED,
    begun_threads,
    claim_folder,
    open_study,
)
from mha_viz.corpus.store.temporary import delete_left_behind, temporary_folder
from mha_viz.corpus.treebank.trees import sample_lines
from mha_viz.errors import MhaVizError, StudyError, WriteError
from tests.corpus.small_studies import Stopped, study_in_shards, tables_of


@pytest.fixture(scope="module")
def whole(bert: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of trees in three parts, with every kind of table that a study has."""
    folder = tmp_path_factory.mktemp("whole")
    sentences = "\n".join(sample_lines()).strip().split("\n\n")[::31]
    (folder / "a.conllu").write_text("\n\n".join(sentences) + "\n\n", "utf-8")
    return study_in_shards(3, bert, folder / "a.conllu", folder / "study").folder


@pytest.fixture
def study(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "study"))


@pytest.mark.parametrize("seed", range(17))
def test_a_changed_bit_is_told_or_changes_no_value(whole: Path, study: Path, seed: int) -> None:
    """Change a bit: some bytes of a file belong to nothing, all others stand below a checksum."""
    content = bytearray((study / FILE).read_bytes())
    dice = random.Random(seed)
    content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
    (study / FILE).write_bytes(content)
    try:
        mv.Study.load(study).verify()
    except StudyError as error:
        assert f"damaged: {FILE} cannot be read" in str(error)  # noqa: PT017  # or else
    else:
        assert tables_of(study) == tables_of(whole)


def test_every_block_that_has_rows_has_a_checksum(study: Path) -> None:
    """Change a byte of each: none is read by what opens it or by what reads all tables."""
    content = (study / FILE).read_bytes()
    told = 0
    starts = range(3 * 4096 + 100, len(content), 65_536)
    for at in starts[::5]:
        (study / FILE).write_bytes(content[:at] + bytes([content[at] ^ 255]) + content[at + 1 :])
        try:
            mv.Study.load(study)
        except StudyError as error:
            told += "checksum" in str(error)  # counted below
    assert told >= 0.9 * len(starts[::5])  # the others are free


@pytest.mark.parametrize("keep_texts", [True, False])
def test_an_unfinished_study_with_a_changed_byte_does_not_go_on(
    bert: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep_texts: bool
) -> None:
    monkeypatch.setattr(sources, "SHARD_TEXTS", 3)
    texts = [f"{number} cats sat on the mat." for number in range(19)]

    def stop(now: Any) -> None:
        if now.n_texts >= 17:
            raise Stopped

    def make(**more: Any) -> mv.Study:
        return mv.study(bert, texts, tmp_path / "study", keep_texts=keep_texts, **more)

    with pytest.raises(Stopped):
        make(on_progress=stop)
    path = tmp_path / "study" / UNFINISHED
    content = path.read_bytes()
    for at in range(3 * 4096 + 100, len(content), 7 * 65_536):
        path.write_bytes(content[:at] + bytes([content[at] ^ 255]) + content[at + 1 :])
        try:
            make(on_progress=stop)
        except Stopped:
            continue  # no block that is read before the end
        except MhaVizError as error:
            assert isinstance(error, StudyError) and "is damaged" in str(error)  # noqa: PT017
            break
    else:
        pytest.fail("no changed byte was told")
    path.write_bytes(content)
    assert make().n_texts == 19


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


URL = "memory://bucket/study"


@pytest.fixture
def memory() -> Iterator[Any]:
    """Give the file system behind memory://, and empty it in the end."""
    found = fsspec.filesystem("memory")
    yield found
    found.store.clear()
    found.pseudo_dirs[:] = [""]


def test_a_study_is_put_whole_and_fetched_again(
    made: mv.Study, memory: Any, tmp_path: Path
) -> None:
    address = Address(URL)
    memory.pipe(f"/bucket/study/{UNFINISHED}", b"what was there before")
    address.put(made.folder)
    assert [Path(path).name for path in memory.ls("/bucket/study", detail=False)] == [FILE]
    address.fetch(tmp_path)
    assert mv.Study.load(tmp_path).heads.equals(made.heads)


def test_addresses_that_hold_other_things_or_cannot_be_used_are_told(
    memory: Any, tmp_path: Path, made: mv.Study
) -> None:
    memory.pipe("/bucket/study/thesis.tex", b"mine")
    with pytest.raises(StudyError, match=r"thesis\.tex"):
        Address(URL).fetch(tmp_path)
    (tmp_path / "study").write_text("a file")
    with pytest.raises(WriteError, match=r"file://.*study"):
        Address(f"file://{tmp_path}/study").put(made.folder)
    with pytest.raises(StudyError, match="nowhere://bucket"):
        Address("nowhere://bucket")
    for address in (URL, Path(URL)):
        with pytest.raises(StudyError, match="bucket/study"):
            mv.Study.load(address)


def test_many_heads_with_gold_trees_go_on_after_a_kill_and_are_added_up(tmp_path: Path) -> None:
    n_rows, columns = 78 * 2 * 144, [f"hits_u{unit}" for unit in range(127)]
    keys = np.indices((78, 2, 12, 12)).reshape(4, n_rows)
    numbers = np.random.default_rng(5).integers(0, 97, (len(columns), n_rows))
    relation, direction, layer, head = keys
    table = {"half": ["fit"] * n_rows, "relation": relation.astype(str)}
    table |= {"direction": direction.astype(str), "layer": layer, "head": head}
    table |= {"n": layer, "hits": head} | dict(zip(columns, numbers, strict=True))
    about: dict[str, dict[str, Any]] = {"model": {"n_layers": 12, "n_heads": 12}, "source": {}}
    about["settings"] = {"keep_texts": True, "threads": 3}
    killed, copy = tmp_path / "killed", tmp_path / "copy"
    claim_folder(killed)
    with open_study(killed, about) as file:
        for _ in range(7):
            file.add({"relations": pa.table(table)}, dict.fromkeys(COUNTS, 1), [])
        shutil.copytree(killed, copy)
    assert begun_threads(copy) == 3
    with open_study(copy, about) as file:
        assert file.n_shards == 7
        with file.transaction():
            file.add_up()
        sums = file.read("SELECT count(*), sum(hits), sum(hits_u5)", "relations")
    assert sums == [(n_rows, 7 * head.sum(), 7 * numbers[5].sum())]
