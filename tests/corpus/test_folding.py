"""Studies that keep no rows by text: the same numbers, in space that does not grow."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import mha_viz as mv
from mha_viz.corpus.measure.profiles import bin_limits
from mha_viz.corpus.run import study_builder
from mha_viz.corpus.run.progress import Progress
from mha_viz.corpus.sources import source as sources
from mha_viz.corpus.store import study_file
from mha_viz.corpus.store.schema import ROWS
from mha_viz.corpus.store.study_file import FILE, StudyFile
from mha_viz.errors import ArgumentError, StudyError
from tests.corpus.small_studies import Stopped, tables_of

N_TEXTS = 60


@pytest.fixture(autouse=True, scope="module")
def _small_shards() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "SHARD_TEXTS", 15)
        patch.setattr(study_builder, "SHARDS_AT_ONCE", 2)
        patch.setattr(study_file, "SHARDS_AT_ONCE", 2)
        yield


def trees(model: mv.AttentionModel, out: Path, **more: Any) -> mv.Study:
    """Make the study of some sentences of the shipped treebank."""
    return mv.study(model, "sample", out, sample=N_TEXTS, **more)


@pytest.fixture(scope="module")
def kept(bert: Any, tmp_path_factory: pytest.TempPathFactory) -> mv.Study:
    return trees(bert, tmp_path_factory.mktemp("kept") / "study")


@pytest.fixture(scope="module")
def folded(bert: Any, tmp_path_factory: pytest.TempPathFactory) -> mv.Study:
    return trees(bert, tmp_path_factory.mktemp("folded") / "study", keep_texts=False)


def test_heads_and_labels_are_those_of_a_study_with_rows(kept: mv.Study, folded: mv.Study) -> None:
    assert (folded.n_texts, folded.n_tokens) == (kept.n_texts, kept.n_tokens)
    exact = ["layer", "head", "metric", "n_texts", "n_units", "mean", "std", "standard_error"]
    exact += ["low", "high"]
    pd.testing.assert_frame_equal(folded.heads[exact], kept.heads[exact], rtol=1e-9, atol=1e-12)
    assert len(kept.labels)
    pd.testing.assert_frame_equal(folded.labels, kept.labels, rtol=1e-9)
    np.testing.assert_allclose(folded.pairs("cka"), kept.pairs("cka"), rtol=1e-9)
    for table in ("untrained_heads", "chance_layers"):
        ours, theirs = (one.sql(f"from {table}") for one in (folded, kept))
        pd.testing.assert_frame_equal(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "name", ["profile", "relations", "parts_of_speech", "trees", "coreference"]
)
def test_what_is_a_sum_anyway_is_the_same(kept: mv.Study, folded: mv.Study, name: str) -> None:
    ours, theirs = (getattr(study, name) for study in (folded, kept))
    assert len(theirs)
    pd.testing.assert_frame_equal(ours, theirs, rtol=1e-9)


def test_quantiles_come_from_the_histogram(kept: mv.Study, folded: mv.Study) -> None:
    """Half of the texts lie below the median: in its bin, or in one of two with none between."""
    for metric in ("entropy", "distance", "previous_token", "output_norm"):
        limits = bin_limits(metric)
        ours, theirs = (one.heads.query(f"metric == {metric!r}") for one in (folded, kept))
        values = kept.sql(f'select layer, head, "{metric}" as value from texts')
        for row, exact in zip(ours.itertuples(), theirs.itertuples(), strict=True):
            own = values[(values.layer == row.layer) & (values["head"] == row.head)]["value"]
            binned = np.digitize([row.q50, exact.q50], limits[1:-1])
            between = np.digitize(own, limits[1:-1])
            apart = set(range(binned.min() + 1, binned.max())) & set(between)
            assert not apart, (metric, row.q50, exact.q50)


def test_nothing_of_single_texts_is_left(folded: mv.Study) -> None:
    stored = set(folded.sql("SELECT table_name AS n FROM duckdb_tables()")["n"])
    assert not stored & {*ROWS, "edge_rows", "means", "units"}
    assert b"gardener" not in (folded.folder / FILE).read_bytes()  # a word of the first sentence
    for question in (
        lambda: folded.texts,
        lambda: folded.examples(0, 0),
        lambda: folded.search("because"),
        lambda: folded.search(relation="obj"),
    ):
        with pytest.raises(StudyError, match="--no-texts"):
            question()
    with pytest.raises(ArgumentError, match="has the tables"):
        folded.sql("select * from texts")


@pytest.mark.parametrize("seed", range(3))
def test_study_stopped_while_shards_are_added_up_goes_on_to_the_same_tables(
    bert: Any, folded: mv.Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    left, replace = random.Random(seed).randrange(1, 11), StudyFile.replace

    def counted(*given: Any) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Stopped
        replace(*given)

    with monkeypatch.context() as patch:
        patch.setattr(StudyFile, "replace", counted)
        with pytest.raises(Stopped):
            trees(bert, tmp_path / "study", keep_texts=False)
    reports: list[Progress] = []
    again = trees(bert, tmp_path / "study", keep_texts=False, on_progress=reports.append)
    assert tables_of(again.folder) == tables_of(folded.folder)
    done = [now.n_texts for now in reports]
    assert done == sorted(done) and (not done or done[-1] == N_TEXTS)


def test_other_settings_are_refused(bert: Any, folded: mv.Study) -> None:
    with pytest.raises(StudyError, match=r"other settings \(edges"):
        trees(bert, folded.folder)
    assert trees(bert, folded.folder, keep_texts=False).n_texts == N_TEXTS
