"""Units of texts that depend on each other: found in any source, and taken as one in a study."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from scipy import stats

import mha_viz as mv
from mha_viz.core.metrics.units import interval, jackknife
from mha_viz.corpus.query.comparison import compare_with_random
from mha_viz.corpus.sources.source import Source, open_source
from mha_viz.corpus.statistics.intervals import N_UNITS, Moments, UnitSums
from mha_viz.errors import SourceError
from tests.corpus.small_studies import LINES
from tests.making.comparing import near
from tests.making.trees import conllu

AUTHORS = ["Ann", "Bo", "", "Ann", None, "Bo", "Cy"]
UNITS = [0, 1, 2, 0, 3, 1, 4]  # a text of no author is a unit of its own
TREE = "{}/NOUN/2/nsubj slept/VERB/0/root"


def units(source: Source) -> list[int]:
    return [item.unit for item in source]


def table(folder: Path, ending: str) -> Path:
    """Texts with their authors."""
    path = folder / f"texts{ending}"
    rows = [{"text": LINES[i], "by": author} for i, author in enumerate(AUTHORS)]
    if ending == ".parquet":
        parquet.write_table(pa.Table.from_pylist(rows), path)
    elif ending == ".csv":
        pd.DataFrame(rows).to_csv(path, index=False)
    else:
        lines = [json.dumps(row) for row in rows]
        path.write_text("\n".join(lines) if ending == ".jsonl" else f"[{','.join(lines)}]")
    return path


@pytest.mark.parametrize("ending", [".csv", ".json", ".jsonl", ".parquet"])
def test_column_says_which_texts_are_one_unit(tmp_path: Path, ending: str) -> None:
    path = table(tmp_path, ending)
    source = open_source(path, group="by")
    for _ in range(2):
        assert (units(source), source.n_units, source.unit) == (UNITS, 5, "by")
    assert source.identity()["group"] == "by"
    alone = open_source(path)
    assert (units(alone), alone.unit) == ([*range(7)], "text")
    assert "group" not in alone.identity()  # a study of an earlier version is one of the same
    with pytest.raises(SourceError, match="“author”"):
        units(open_source(path, group="author"))


def test_column_of_what_has_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("One.\n")
    (tmp_path / "a.conllu").write_text(conllu(TREE.format("Cats")))
    for given, what in (("a.txt", "plain text"), ("a.conllu", "a treebank")):
        with pytest.raises(SourceError, match=f"{what}.*“by”"):
            units(open_source(tmp_path / given, group="by"))
    with pytest.raises(SourceError, match="“by”"):
        units(open_source(["One.", "Two."], group="by"))


def treebank(folder: Path) -> Path:
    """A sentence of no document, two documents of two and three, with a copy in the second."""
    names = [(), ("newdoc",), (), ("newdoc id = x",), (), (), ()]
    words = ["Cats", "Dogs", "Birds", "Cows", "Cats", "Mice", "Bees"]
    blocks = [conllu(TREE.format(w), *more) for w, more in zip(words, names, strict=True)]
    (folder / "a.conllu").write_text("".join(blocks))
    return folder / "a.conllu"


def test_documents_are_units_and_files_where_there_are_several(tmp_path: Path) -> None:
    source = open_source(treebank(tmp_path))
    assert (units(source), source.unit, source.n_units) == (
        [0, 1, 1, 2, 2, 2],
        "document or text",
        3,
    )
    (tmp_path / "b.txt").write_text("One.\nTwo.\n")
    source = open_source(tmp_path)
    assert units(source) == [0, 1, 1, 2, 2, 2, 3, 3]
    assert source.unit == "document or file"
    alone = open_source(tmp_path, group="text")
    assert (units(alone), alone.unit) == ([*range(8)], "text")
    (tmp_path / "a.conllu").unlink()
    assert units(open_source(tmp_path)) == [0, 1]  # of one file each text counts


def test_units_of_a_sample_are_numbered_anew(tmp_path: Path) -> None:
    texts = [{"text": f"Text {i}.", "by": i // 3} for i in range(60)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, texts)))
    source = open_source(tmp_path / "a.jsonl", group="by", sample=17, seed=5)
    found, first = [], dict[int, int]()
    for item in source:
        found.append((item.unit, int(item.text[5:-1]) // 3))
    assert [unit for unit, by in found] == [first.setdefault(by, len(first)) for _, by in found]
    assert source.n_units == len(first) < 17


@pytest.fixture(scope="module")
def grouped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """21 texts of 11 authors, whose texts stand apart from each other."""
    path = tmp_path_factory.mktemp("grouped") / "texts.jsonl"
    rows = [{"text": text, "by": f"author {i % 11}"} for i, text in enumerate(LINES)]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


@pytest.fixture(scope="module")
def by_author(bert: Any, grouped: Path, tmp_path_factory: pytest.TempPathFactory) -> mv.Study:
    return mv.study(bert, grouped, tmp_path_factory.mktemp("by") / "study", group="by")


def test_study_takes_the_texts_of_a_unit_together(by_author: mv.Study) -> None:
    """Its standard errors and intervals are of sums by author, made here from single texts."""
    assert by_author.manifest["unit"] == "by" and by_author.manifest["counts"]["n_units"] == 11
    assert " by " in by_author.unit_note and "11" in by_author.unit_note
    rows = by_author.sql("FROM texts JOIN sentences USING (text_id)")
    assert (rows["unit"] == rows["text_id"] % 11).all()
    for metric in ("entropy", "duplicate_token"):
        heads = by_author.heads[by_author.heads["metric"] == metric]
        own = rows.groupby(["layer", "head", "unit"])[metric].agg(["sum", "count"])
        sums, counts = (own[name].unstack().to_numpy(float) for name in ("sum", "count"))
        expected = jackknife(sums, counts)
        assert heads["mean"].to_numpy() == pytest.approx(expected.mean, rel=1e-6)
        assert heads["standard_error"].to_numpy() == pytest.approx(expected.error, rel=1e-5)
        assert (heads["n_units"] == expected.n_units).all()


def test_comparison_takes_the_texts_of_a_unit_together(by_author: mv.Study) -> None:
    found = (
        compare_with_random(by_author).query("metric == 'entropy'").sort_values(["layer", "head"])
    )
    both = by_author.sql(
        """SELECT unit, layer, head, texts.entropy - untrained.entropy AS apart FROM texts
        JOIN untrained USING (text_id, layer, head) JOIN sentences USING (text_id)"""
    )
    own = both.groupby(["layer", "head", "unit"])["apart"].agg(["sum", "count"])
    expected = jackknife(*(own[name].unstack().to_numpy(float) for name in ("sum", "count")))
    assert found["standard_error"].to_numpy() == pytest.approx(expected.error, rel=1e-4)


def _interval(
    values: np.ndarray, cuts: tuple[int, ...] = (), units: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    sums = UnitSums(values.shape[1])
    units = np.arange(len(values)) if units is None else units
    for rows in np.split(np.arange(len(values)), cuts):
        sums.add(units[rows], values[rows])
    return interval(sums.jackknife())


def test_an_interval_is_as_wide_as_theory_says() -> None:
    values = np.random.default_rng(0).normal(3.0, 2.0, size=(400, 20))
    low, high = _interval(values)
    expected = 2 * stats.t.ppf(0.975, 399) * values.std(0, ddof=1) / np.sqrt(400)
    assert (high - low) == pytest.approx(expected, rel=0.01)
    assert (low + high) / 2 == pytest.approx(values.mean(0), abs=0.02)
    values = np.random.default_rng(3).random((50, 2))
    values[20:, 1] = np.nan
    low, high = _interval(values)
    alone = _interval(values[:20, 1:])
    assert (low[1], high[1]) == pytest.approx((alone[0][0], alone[1][0]))
    assert np.isnan(_interval(np.full((5, 1), np.nan))).all()
    values = np.random.default_rng(4).random((5, 1))
    assert np.isnan(_interval(values, units=np.full(5, 3))).all()


def test_texts_of_one_unit_count_as_one() -> None:
    """Copies of each text, in one unit, make the interval of the texts, and no narrower one."""
    values = np.random.default_rng(1).random((13, 3))
    alone, copied = (
        _interval(values),
        _interval(np.tile(values, (7, 1)), units=np.tile(np.arange(13), 7)),
    )
    assert np.allclose(alone, copied)
    assert (np.diff(_interval(np.tile(values, (7, 1))), axis=0) < np.diff(alone, axis=0) / 2).all()


def test_shards_add_up_to_the_same_bits() -> None:
    rng = np.random.default_rng(2)
    values, units = rng.random((60, 3)), rng.integers(0, 17, 60)
    ours, theirs = (_interval(values, cuts, units) for cuts in ((), (7, 20, 21)))
    assert np.array_equal(ours, theirs)


def test_moments_of_parts_are_those_of_all_texts() -> None:
    values = np.random.default_rng(0).normal(7, 3, (13, 5))
    values[:5] += 11  # parts with means far apart
    values[2, 1] = np.nan
    moments = Moments.empty(5)
    for part in (values[:5], values[5:]):
        moments.add(part)
    assert moments.std == near(np.nanstd(values, axis=0, ddof=1))
    assert moments.mean == near(np.nanmean(values, axis=0))


def test_more_units_than_are_kept_apart_take_turns() -> None:
    values = np.random.default_rng(5).random((3 * N_UNITS, 1))
    sums = UnitSums(1)
    sums.add(np.arange(3 * N_UNITS), values)
    found = sums.jackknife()
    assert (found.n_units, found.mean[0]) == (N_UNITS, pytest.approx(values.mean()))
    expected = values.std(ddof=1) / np.sqrt(3 * N_UNITS)
    assert found.error[0] == pytest.approx(expected, rel=0.1)
