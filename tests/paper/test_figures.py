"""A study's figures from the library: those of the page, saved for a paper."""

import numpy as np
import pytest

import mha_viz as mv
from mha_viz.paper.figures import fitting_limits
from mha_viz.plots.column_image import FORMATS


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> mv.Study:
    out = tmp_path_factory.mktemp("study") / "sample"
    return mv.study(mv.load("tiny-bert"), "sample", out, sample=47)


def test_every_figure_has_its_numbers_and_saves_as_pdf_and_svg(study: mv.Study, tmp_path) -> None:
    found = study.figures("distance", (1, 2))
    assert len(found) == 8
    for name, figure in found.items():
        assert not figure.table.empty
        for ending in FORMATS:
            figure.save(tmp_path / f"{name}.{ending}", column="double")
        assert (tmp_path / f"{name}.pdf").read_bytes().startswith(b"%PDF")
        assert b"<svg" in (tmp_path / f"{name}.svg").read_bytes()
    rows = study.heads.query("metric == 'distance'")
    np.testing.assert_array_equal(found["heads"].table["Low"], rows["low"])
    assert "L1 H2" in found["offset"].name
    rows = study.heads.query("metric == 'previous_token'")
    np.testing.assert_array_equal(found["scatter"].table["Previous token"], rows["mean"])


def test_a_histogram_has_bins_that_fit_the_texts_and_stored_ones_without_texts(study, tmp_path):
    fine = study.figures("confidence", (1, 2))["histogram"].table
    scores = study.texts.filter("layer = 1 and head = 2").df()["confidence"].astype(float)
    for low, high, n in fine.itertuples(index=False):
        assert n == ((scores >= low) & (scores < high)).sum()
    assert fine["texts"].sum() == 47
    sums = mv.study(mv.load("tiny-bert"), "sample", tmp_path / "sums", sample=13, keep_texts=False)
    stored = sums.figures("confidence", (1, 2))["histogram"].table
    assert stored["texts"].sum() == 13
    assert (stored["to"] - stored["from"]).to_numpy() == pytest.approx(1 / 64)


def test_limits_of_bins_hold_all_scores_and_are_of_a_round_width() -> None:
    dice = np.random.default_rng(7)
    for n in (2, 13, 101, 4_001):
        for scale in (1e-6, 0.37, 5_003.0):
            scores = scale * dice.standard_normal(n)
            limits = fitting_limits(scores)
            widths = np.diff(limits)
            assert limits[0] <= scores.min() and scores.max() <= limits[-1]
            assert len(widths) <= 65
            digit = widths.mean() / 10 ** np.floor(np.log10(widths.mean()) + 1e-9)
            assert digit == pytest.approx([1, 2, 5][np.argmin(np.abs(digit - [1, 2, 5]))])
    assert fitting_limits(np.full(5, 0.25)).tolist() == [-0.25, 0.75]
