"""All edges of a study in one file: each once, in row groups that a search for a word can skip."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mha_viz.corpus.store import edges_index
from mha_viz.corpus.store.edges_index import sort_edges

WORDS = [f" Word{rank}" for rank in range(499)]
N_EDGES, N_PARTS, ROWS = 60_013, 3, 2_048  # DuckDB takes no fewer rows for a group


@pytest.fixture
def edges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pa.Table:
    """The edges of three parts, of words as frequent as in prose, written as shards are."""
    monkeypatch.setattr(edges_index, "ROWS", ROWS)
    dice, share = np.random.default_rng(0), 1 / np.arange(1, len(WORDS) + 1)
    words = dice.choice(len(WORDS), (2, N_EDGES), p=share / share.sum())
    columns = {name: dice.integers(0, 7, N_EDGES).astype(np.int16) for name in ("layer", "head")}
    columns |= {name: np.arange(N_EDGES, dtype=np.int32) for name in ("text_id", "query", "key")}
    columns |= {
        f"{side}_token": pa.DictionaryArray.from_arrays(pa.array(ids.astype(np.int32)), WORDS)
        for side, ids in zip(("query", "key"), words, strict=True)
    }
    table = pa.table({**columns, "weight": dice.random(N_EDGES).astype(np.float32)})
    for part in range(N_PARTS):
        folder = tmp_path / "shards" / f"{part:05}"
        folder.mkdir(parents=True)
        pq.write_table(table.take(np.arange(part, N_EDGES, N_PARTS)), folder / "edges.parquet")
    return table


def test_each_edge_is_there_once_and_a_word_is_in_few_row_groups(
    edges: pa.Table, tmp_path: Path
) -> None:
    sort_edges(tmp_path)
    found = pq.read_table(tmp_path / "edges.parquet").sort_by("text_id")
    for name in edges.column_names:
        assert found[name].to_pylist() == edges[name].to_pylist()
    for side in ("query", "key"):
        lower = [token.strip().lower() for token in edges[f"{side}_token"].to_pylist()]
        assert found[f"{side}_word"].to_pylist() == lower
    with pq.ParquetFile(tmp_path / "edges.parquet") as file:
        groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
    assert len(groups) > 20
    names = groups[0].to_dict()["columns"]
    for side in ("query", "key"):
        at = [column["path_in_schema"] for column in names].index(f"{side}_word")
        limits = [group.column(at).statistics for group in groups]
        for rank in (20, 97, 311):
            word = f"word{rank}"
            assert 0 < sum(one.min <= word <= one.max for one in limits) <= 12
    assert not [path.name for path in tmp_path.iterdir() if path.name.endswith(".part")]


def test_the_same_parts_give_the_same_bytes(edges: pa.Table, tmp_path: Path) -> None:
    sort_edges(tmp_path)
    first = (tmp_path / "edges.parquet").read_bytes()
    (tmp_path / ".edges.ranges.part" / "place=0").mkdir(parents=True)  # as a kill leaves it
    sort_edges(tmp_path)
    assert (tmp_path / "edges.parquet").read_bytes() == first
