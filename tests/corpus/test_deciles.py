"""Texts of every decile of a head's score, against numpy, and a score that lies among them."""

import numpy as np
import pandas as pd
import pytest

import mha_viz as mv
from mha_viz.checkpoints.catalog import shipped_folder
from mha_viz.corpus.query.example_texts import DecilePlace
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.run.sample_study import FOLDER
from mha_viz.errors import ArgumentError, StudyError

HEAD = (2, 3)


@pytest.fixture(scope="module")
def study() -> Study:
    return Study.load(shipped_folder() / "tiny-bert" / FOLDER)


def _length_classes(n_tokens: np.ndarray, match_length: bool) -> np.ndarray:
    """The class of each text, by the quintiles of token counts."""
    ends = np.quantile(n_tokens, [0.2, 0.4, 0.6, 0.8]) if match_length else np.array([])
    return (ends[None] < n_tokens[:, None]).sum(1)


def _by_hand(rows: pd.DataFrame, match_length: bool) -> tuple[np.ndarray, np.ndarray]:
    """The quantile and the band of each text, pair by pair of texts of one class."""
    values, n_tokens = rows[["value", "n_tokens"]].to_numpy().T
    classes = _length_classes(n_tokens, match_length)
    quantile = np.zeros(len(values))
    for i, value in enumerate(values):
        others = values[classes == classes[i]]
        quantile[i] = (2 * np.sum(others < value) + np.sum(others == value)) / (2 * len(others))
    return quantile, np.searchsorted(np.arange(1, 10) / 10, quantile + 1e-9, side="right") + 1


def _scores(study: Study, metric: str) -> pd.DataFrame:
    rows = study.texts.filter("layer = {} and head = {}".format(*HEAD)).df()
    rows = rows.assign(value=rows[metric])
    return rows[["text_id", "n_tokens", "value"]].dropna().reset_index(drop=True)


@pytest.mark.parametrize("match_length", [True, False])
@pytest.mark.parametrize("metric", ["entropy", "keys_for_mass", "duplicate_token"])
def test_deciles_are_those_that_numpy_finds(study: Study, metric: str, match_length: bool) -> None:
    rows, k = _scores(study, metric), 3
    quantile, band = _by_hand(rows, match_length)
    found = study.deciles(*HEAD, by=metric, k=k, match_length=match_length)
    assert sorted(set(found["band"])) == sorted(set(band))
    for number, drawn in found.groupby("band"):
        inside = np.flatnonzero(band == number)
        inside = inside[np.lexsort([rows["text_id"][inside], quantile[inside]])]
        m = len(inside)
        places = [int((i + 0.5) * m / k) for i in range(k)] if m > k else range(m)
        assert drawn["text_id"].tolist() == rows["text_id"][inside[places]].tolist()
        assert drawn["quantile"].to_numpy() == pytest.approx(quantile[inside[places]])
        assert set(drawn["n_texts"]) == {m}
        ends = rows["value"][inside].agg(["min", "max"])
        assert drawn[["band_from", "band_to"]].drop_duplicates().to_numpy().tolist() == [[*ends]]


def test_equal_scores_share_a_band() -> None:
    study = Study.load(shipped_folder() / "tiny-gpt2" / FOLDER)
    rows = study.texts.df()[["layer", "head", "keys_for_mass"]]
    n_values = rows.groupby(["layer", "head"])["keys_for_mass"].nunique()
    layer, head = map(int, n_values.idxmin())
    assert n_values.min() < 10
    found = study.deciles(layer, head, by="keys_for_mass", k=97, match_length=False)
    assert found.groupby("value")["band"].nunique().eq(1).all()
    assert found["band"].nunique() <= n_values.min()


def test_few_texts_leave_bands_empty_and_come_whole(made: Study) -> None:
    found = made.deciles(0, 3, by="entropy", k=5, match_length=False)
    assert len(found) == 6 == found["text_id"].nunique()  # two differ in capitals and spaces alone
    assert found["band"].tolist() == [1, 3, 5, 6, 8, 10]
    assert found["value"].is_monotonic_increasing
    assert (found["band_from"] == found["value"]).all() and (found["n_texts"] == 1).all()
    pd.testing.assert_frame_equal(made.deciles(1, 2, by="local"), made.deciles(1, 2, by="distance"))


@pytest.mark.parametrize("match_length", [True, False])
def test_a_text_of_the_study_has_the_decile_that_it_lies_in(
    study: Study, match_length: bool
) -> None:
    found = study.deciles(*HEAD, by="entropy", k=2, match_length=match_length)
    for row in found.itertuples():
        place = study.decile_of(row.value, row.n_tokens, *HEAD, "entropy", match_length)
        assert place.band == row.band and place.quantile == pytest.approx(row.quantile)


def test_scores_beyond_all_texts_are_in_the_outermost_deciles(study: Study) -> None:
    longest = _length_classes(_scores(study, "entropy")["n_tokens"].to_numpy(), True) == 4
    above = study.decile_of(99.0, 4_001, *HEAD, "entropy")
    assert above == DecilePlace(10, 1.0, int(longest.sum()))
    assert study.decile_of(-1.0, 7, *HEAD, "entropy")[:2] == (1, 0.0)


def test_deciles_of_what_is_not_there(made: Study, study: Study, tmp_path, bert) -> None:
    with pytest.raises(ArgumentError, match="'x\" from texts --'"):
        made.deciles(0, 0, by='x" from texts --')
    with pytest.raises(ArgumentError, match=r"head .*7"):
        made.decile_of(0.5, 5, 0, 8)
    with pytest.raises(ArgumentError, match="nan"):
        made.decile_of(float("nan"), 5, 0, 0)
    with pytest.raises(ArgumentError, match=r"k .*1"):
        made.deciles(0, 0, k=0)
    with pytest.raises(ArgumentError, match=r"No text .* sink"):
        study.decile_of(0.5, 5, *HEAD, "sink")
    assert study.deciles(*HEAD, by="sink").empty
    bare = mv.study(bert, ["The cat sat.", "A dog ran."], tmp_path / "bare", keep_texts=False)
    with pytest.raises(StudyError, match="no single texts"):
        bare.deciles(0, 0)


def test_texts_that_do_not_define_a_metric_are_no_examples(study: Study) -> None:
    n_defined = len(_scores(study, "duplicate_token"))
    found = study.examples(*HEAD, by="duplicate_token", k=1_009, match_length=False)
    assert len(found) == n_defined < study.n_texts and found["value"].notna().all()
