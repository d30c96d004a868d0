"""Sums that are stored with each part of a study, against numpy and pandas over its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import mha_viz as mv
from mha_viz.checkpoints.untrained_copy import untrained_copy
from mha_viz.corpus.measure.shard import Settings, measure_shard
from mha_viz.corpus.sources.source import Item
from mha_viz.corpus.statistics import totals
from mha_viz.corpus.statistics.totals import BY_TEXT, ROWS, Totals, write_shard
from mha_viz.corpus.store.blocks import INDEX
from mha_viz.corpus.store.storage import shard_folder

SIZES = (7, 5, 3)  # texts of the parts
N_UNITS = 11  # that are kept apart: fewer than there are
TEXTS = [f"{'The old cat sat, and so did the dog. ' * (1 + i % 3)}Text {i}." for i in range(15)]


@pytest.fixture(scope="module", autouse=True)
def _few_units() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mha_viz.corpus.statistics.intervals.N_UNITS", N_UNITS)
        yield


@pytest.fixture(scope="module")
def parts(bert: mv.AttentionModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three parts whose texts are of 13 units, some of them in two parts."""
    folder, first = tmp_path_factory.mktemp("parts"), 0
    items = [Item(i, text, f"texts:{i}", unit=i % 13) for i, text in enumerate(TEXTS)]
    for number, n in enumerate(SIZES):
        own = items[first : first + n]
        shard = measure_shard(bert, own, Settings(batch_tokens=512), untrained=untrained_copy(bert))
        write_shard(folder, number, shard)
        first += n
    return folder


def table(folder: Path, number: int, name: str) -> pd.DataFrame:
    return pq.read_table(shard_folder(folder, number) / f"{name}.parquet").to_pandas()


def rows_by_place(folder: Path, number: int, name: str) -> pd.DataFrame:
    """A row for each text, place and column of a table."""
    rows = table(folder, number, name)
    rows = rows.merge(table(folder, number, "sentences")[["text_id", "unit"]], on="text_id")
    rows["place"] = rows["layer"] if name == "chance" else rows["layer"] * 8 + rows["head"]
    columns = [c for c in rows if c not in (*INDEX, "unit", "place")]
    return rows.melt(["text_id", "unit", "place"], columns, "column").astype({"value": float})


@pytest.mark.parametrize("name", BY_TEXT)
@pytest.mark.parametrize("number", range(3))
def test_sums_of_a_part_are_those_of_its_rows(parts: Path, number: int, name: str) -> None:
    rows, means = rows_by_place(parts, number, name), table(parts, number, "means")
    own = means[means["table"] == name].set_index(["place", "column"])
    of_texts = rows.groupby(["place", "column"])["value"].agg(["count", "mean", "var"])
    expected = of_texts.loc[own.index]
    assert np.array_equal(own["n"], expected["count"])
    np.testing.assert_allclose(own["mean"], expected["mean"].fillna(0), rtol=1e-12)
    squares = (expected["var"] * (expected["count"] - 1)).fillna(0)
    np.testing.assert_allclose(own["squares"], squares, rtol=1e-9, atol=1e-12)

    units = table(parts, number, "units")
    there = sorted({*(rows["unit"] % N_UNITS)})
    n_units = len(there)
    assert units["unit"].tolist() == there * len(means)
    keys = rows.assign(unit=rows["unit"] % N_UNITS).groupby(["place", "column", "unit"])["value"]
    for column, how in (("sum", "sum"), ("n", "count")):
        found = units[column].to_numpy().reshape(-1, n_units)[(means["table"] == name).to_numpy()]
        by_unit = keys.agg(how).unstack()[there].loc[own.index]
        np.testing.assert_allclose(found, by_unit, rtol=1e-12)


def test_added_parts_are_all_rows_at_once(parts: Path) -> None:
    found = Totals(4, 8)
    found.add_shards(parts)
    assert (found.n_shards, found.counts["n_texts"]) == (3, 15)
    for name in BY_TEXT:
        rows = pd.concat([rows_by_place(parts, number, name) for number in range(3)])
        own = rows.groupby(["place", "column"], sort=True)["value"].agg(["count", "mean", "std"])
        means = found.means[name]
        at = pd.MultiIndex.from_product([range(means.n_places), means.columns])
        assert np.array_equal(means.moments.n, own["count"].loc[at])
        np.testing.assert_allclose(means.moments.std, own["std"].loc[at], rtol=1e-9, atol=1e-12)
        units = rows.assign(unit=rows["unit"] % N_UNITS).groupby(["place", "column", "unit"])
        sums = units["value"].sum().unstack().loc[at]
        np.testing.assert_allclose(means.units.sums, sums, rtol=1e-12)
    entropy = found.means["texts"].moments.mean.reshape(32, -1)[:, 0]
    assert (entropy > 0).all()


def test_sums_do_not_depend_on_when_tables_are_added_up(
    parts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor on a stop after any part, when what is written is read again."""

    def tables(at_once: int, stop: int = 0) -> dict[str, Any]:
        monkeypatch.setattr(totals, "_ROWS_AT_ONCE", at_once)
        found = Totals(4, 8)
        found.add_shards(parts, stop)
        if stop:
            place = parts.with_name(f"{parts.name}-{stop}")
            written, about = found.written()
            place.mkdir(exist_ok=True)
            for name, one in written.items():
                pq.write_table(one, place / f"{name}.parquet")
            found = Totals(4, 8)
            found.add_written(place, {**about, "files": [f"{name}.parquet" for name in written]})
        found.add_shards(parts)
        return found.written()[0]

    expected = tables(2**17)
    assert {"profile", "pairs", "histogram", "means", "units", "labels"} <= set(expected)
    for other in (tables(0), tables(2**17, 1), tables(0, 2)):
        for name, one in expected.items():
            assert other[name].equals(one), name


def test_a_part_without_its_texts_has_their_sums_alone(
    bert: mv.AttentionModel, parts: Path, tmp_path: Path
) -> None:
    items = [Item(i, text, f"texts:{i}", unit=i % 13) for i, text in enumerate(TEXTS[:7])]
    shard = measure_shard(bert, items, Settings(batch_tokens=512), untrained=untrained_copy(bert))
    write_shard(tmp_path, 0, shard, keep_texts=False)
    names = {path.stem for path in shard_folder(tmp_path, 0).glob("*.parquet")}
    assert names.isdisjoint(ROWS) and {"means", "units", "labels", "pairs"} <= names
    for name in names:
        ours, theirs = (table(folder, 0, name) for folder in (tmp_path, parts))
        pd.testing.assert_frame_equal(ours, theirs, check_exact=True)
