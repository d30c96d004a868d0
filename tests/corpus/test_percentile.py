"""Where one text stands among those of a study."""

import numpy as np
import pandas as pd
import pytest

import mha_viz as mv
from mha_viz.corpus.query.comparison import percentiles, scores_of_head

TEXTS = [
    "The cat sat on the mat because it was tired.",
    "Rain fell all night, and the river rose.",
    "She said that he had gone home because he was ill.",
    "Birds sing.",
]


MODEL = mv.load("tiny-bert")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return mv.study(MODEL, TEXTS, tmp_path_factory.mktemp("study"))


def test_a_text_of_the_study_stands_where_its_own_score_is(study):
    """Counted in the reports of the single texts, which the study has not seen."""
    reports = [
        mv.head_report(MODEL.trace(text)).set_index(["layer", "head"]).loc[(2, 5)] for text in TEXTS
    ]
    rows = scores_of_head(study, 2, 5)
    for here in reports:
        scores = {name: here[name] for name in rows if name in here}
        found = percentiles(rows, scores)
        for metric, value in scores.items():
            others = [report.get(metric, np.nan) for report in reports]
            others = [other for other in others if not np.isnan(other)]
            if np.isnan(value):
                assert np.isnan(found.loc[metric, "lower"])
                continue
            close = np.isclose(others, value, rtol=1e-4)
            lower, higher = (
                np.mean(sign * (np.array(others) - value) > 0 & ~close) for sign in (-1, 1)
            )
            assert found.loc[metric, "n_texts"] == len(others)
            assert found.loc[metric, "lower"] == pytest.approx(lower)
            assert found.loc[metric, "higher"] == pytest.approx(higher)


def test_what_always_is_the_same_is_neither_lower_nor_higher_where_it_is_so_again():
    rows = pd.DataFrame({"duplicate_token": [0.0, 0.0, 0.0], "sink": [np.nan] * 3})
    found = percentiles(rows, {"duplicate_token": 1e-9, "sink": 0.5, "unknown": 1.0})
    assert found.loc["duplicate_token", ["lower", "higher"]].tolist() == [0.0, 0.0]
    assert found.loc["sink", "n_texts"] == 0 and np.isnan(found.loc["sink", "lower"])
    assert "unknown" not in found.index
