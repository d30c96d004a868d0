"""A head over a study in sentences, whose numbers are those of the study's tables."""

import numpy as np
import pytest

import mha_viz as mv
from mha_viz.checkpoints.catalog import shipped_folder
from mha_viz.core.amounts import format_number
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.run.sample_study import FOLDER
from mha_viz.errors import ArgumentError
from mha_viz.paper.head_sentence import head_sentence


@pytest.fixture(scope="module")
def study() -> Study:
    return Study.load(shipped_folder() / "tiny-bert" / FOLDER)


def test_a_head_with_labels_is_named_by_the_clearest(study: Study) -> None:
    text = head_sentence(study, (0, 3), study.relations)
    label = study.labels.query("layer == 0 and head == 3 and label == 'previous_token'").iloc[0]
    numbers = [format_number(label[name]) for name in ("mean", "low", "high", "baseline")]
    assert text.startswith(f"L0 H3 looks at the previous token: {numbers[0]} of the weight")
    assert "(95 % interval {1} to {2}; baseline {3})".format(*numbers) in text
    assert f"{format_number(100 * label['share_of_texts'])} % of single texts" in text
    assert "“Local”" in text


def test_a_head_without_labels_is_named_by_its_most_unusual_metric(study: Study) -> None:
    text = head_sentence(study, (3, 2))
    wide = study.heads.pivot(index=["layer", "head"], columns="metric", values="mean").dropna(
        axis=1
    )
    apart = (wide - wide.median()).abs()
    metric = (apart.loc[(3, 2)] / apart.median()).idxmax()
    own, middle = wide.loc[(3, 2), metric], wide[metric].median()
    assert "earns no label" in text and mv.METRICS[metric].title in text
    assert f": {format_number(own)}" in text
    assert f"median of all heads {format_number(middle)}" in text


def test_a_relation_is_chosen_on_one_half_and_told_of_the_other(study: Study) -> None:
    rows = study.relations.query("layer == 3 and head == 2 and beats and relation != 'all'")
    best = rows.loc[rows["chosen_on"].idxmax()]
    text = head_sentence(study, (3, 2))
    numbers = [format_number(best[name]) for name in ("accuracy", "offset_baseline")]
    assert f"It finds {best['relation']} (" in text
    assert f"in {numbers[0]} of {best['n']} cases" in text and f"offset {numbers[1]}" in text


def test_few_texts_have_neither_labels_nor_intervals(tmp_path) -> None:
    few = mv.study(mv.load("tiny-gpt2"), ["The cat sat on the mat."], tmp_path / "few")
    text = head_sentence(few, (1, 5))
    assert "10 independent units" in text and "nan" not in text and "interval" not in text
    assert np.isnan(few.heads["low"]).all()
    with pytest.raises(ArgumentError, match="layer"):
        head_sentence(few, (4, 0))
