"""Parts of finished studies: how many files are opened with them, and what they hold."""

from __future__ import annotations

import builtins
import io
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import mha_viz as mv
from mha_viz.corpus.query.comparison import compare, compare_with_random
from mha_viz.corpus.run import run
from mha_viz.corpus.sources import source as sources
from mha_viz.corpus.store import blocks
from mha_viz.corpus.store.blocks import whole_column

PER_SHARD, N_TEXTS = 3, 31
TEXTS = [f"{'The old cat sat. ' * (1 + i % 3)}It is number {i}." for i in range(N_TEXTS)]


@pytest.fixture(scope="module")
def made(bert: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, mv.Study]:
    """One study in a single part, in eleven parts, and in its shards as an earlier version."""
    folder = tmp_path_factory.mktemp("merged")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "SHARD_TEXTS", PER_SHARD)
        patch.setattr(run, "remove_shards", lambda made: shutil.copytree(made, folder / "shards"))
        one = mv.study(bert, TEXTS, folder / "one")
        patch.setattr(run, "remove_shards", lambda _: None)
        patch.setattr(blocks, "PART_BYTES", 1)
        many = mv.study(bert, TEXTS, folder / "many")
    shutil.rmtree(folder / "shards/parts")
    old = {name: of for name, of in one.manifest.items() if name != "parts"}
    for study in (one, many):
        shutil.rmtree(study.folder / "shards")
    return {"one": one, "many": many, "shards": mv.Study(folder / "shards", old)}


def test_parts_hold_the_rows_of_all_shards(made: dict[str, mv.Study]) -> None:
    expected = made["shards"]
    assert [len(list(made[name].folder.glob("parts/*"))) for name in ("one", "many")] == [1, 11]
    for table in ("texts", "untrained", "chance", "sentences"):
        rows = expected.sql(f"FROM {table} ORDER BY ALL")
        for name in ("one", "many"):
            assert made[name].sql(f"FROM {table} ORDER BY ALL").equals(rows), table
    columns = [whole_column(one.folder, "texts", "entropy", 32) for one in made.values()]
    assert columns[0].shape == (N_TEXTS, 32)
    assert all((column == columns[0]).all() for column in columns)


def test_each_shard_is_a_group_of_rows(made: dict[str, mv.Study]) -> None:
    """They are read one by one, in as little memory as shards were."""
    for table, n_rows in (("texts", 32), ("chance", 4), ("sentences", 1)):
        with pq.ParquetFile(made["one"].folder / f"parts/00000/{table}.parquet") as file:
            groups = [file.metadata.row_group(at).num_rows for at in range(file.num_row_groups)]
        assert groups == [PER_SHARD * n_rows] * 10 + [n_rows]


def test_edges_lie_beside_the_parts_alone(made: dict[str, mv.Study]) -> None:
    folder = made["one"].folder
    assert [path.parent for path in folder.rglob("edges*.parquet")] == [folder]
    assert made["one"].search("cat").equals(made["shards"].search("cat"))


def test_studies_are_compared_however_their_rows_are_cut(made: dict[str, mv.Study]) -> None:
    ours, theirs = (compare_with_random(made[name]) for name in ("one", "many"))
    assert ours.equals(theirs) and (ours["standard_error"] > 0).any()
    for name in ("many", "shards"):
        for a, b in ((made["one"], made[name]), (made[name], made["one"])):
            found = compare(a, b)
            assert (found["difference"] == 0).all() and set(found["n_texts"]) >= {N_TEXTS}


def test_study_of_many_parts_opens_no_more_files(
    made: dict[str, mv.Study], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files below it that Python opens; those of single texts wait until they are asked for."""
    opened: list[str] = []
    real = io.open

    def counting(file: Any, *given: Any, **named: Any) -> Any:
        opened.append(str(file))
        return real(file, *given, **named)

    monkeypatch.setattr(io, "open", counting)
    monkeypatch.setattr(builtins, "open", counting)

    def files_opened(name: str) -> set[str]:
        opened.clear()
        folder = made[name].folder
        mv.Study.load(folder)
        found = (Path(path) for path in opened)
        return {str(p.relative_to(folder)) for p in found if p.is_relative_to(folder)}

    few, many = files_opened("one"), files_opened("many")
    assert few == many and "study.json" in few and "heads.parquet" in few
    assert not any(name.startswith("parts") for name in many)
