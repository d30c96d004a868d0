"""A study against its own random weights."""

import numpy as np
import pandas as pd
import pytest

import mha_viz as mv
from mha_viz.checkpoints.untrained_copy import untrained_copy
from mha_viz.corpus.compare import beyond_by_chance, compare, compare_with_random
from mha_viz.errors import StudyError
from tests.corpus.test_standing import TEXTS


def test_random_weights_are_those_of_a_study_of_an_untrained_copy(tmp_path):
    model = mv.load("tiny-bert")
    trained = mv.study(model, TEXTS, tmp_path / "trained")
    untrained = mv.study(untrained_copy(model), TEXTS, tmp_path / "untrained")
    keys = ["layer", "head", "metric"]
    found, expected = (
        table.sort_values(keys, ignore_index=True)
        for table in (compare_with_random(trained), compare(untrained, trained))
    )
    pd.testing.assert_frame_equal(found, expected, rtol=1e-5)
    assert found["standard_errors"].abs().max() > 3


def test_a_study_without_random_weights_has_nothing_to_be_compared_with(tmp_path, monkeypatch):
    monkeypatch.setattr("mha_viz.corpus.run._untrained", lambda model: None)
    study = mv.study(mv.load("tiny-bert"), TEXTS, tmp_path / "study")
    with pytest.raises(StudyError, match="no random weights"):
        compare_with_random(study)


def test_so_many_are_far_out_by_chance_as_of_normal_numbers():
    drawn = np.abs(np.random.default_rng(0).standard_normal(100_000))
    for far in (1.0, 2.0, 3.0):
        assert beyond_by_chance(100_000, far) == pytest.approx((drawn > far).sum(), rel=0.15)
