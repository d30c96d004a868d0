"""A study's figures from the library: those of the page, saved for a paper."""

import numpy as np
import pytest

import mha_viz as mv
from mha_viz.errors import ArgumentError
from mha_viz.plots.column_image import FORMATS


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> mv.Study:
    out = tmp_path_factory.mktemp("study") / "sample"
    return mv.study(mv.load("tiny-bert"), "sample", out, sample=47)


def test_every_figure_has_its_numbers_and_saves_as_pdf_and_svg(study: mv.Study, tmp_path) -> None:
    found = study.figures("distance", (1, 2))
    assert list(found) == [
        "heads",
        "quantiles",
        "histogram",
        "offset",
        "kind",
        "pairs",
        "parts_of_speech",
    ]
    for name, figure in found.items():
        assert not figure.table.empty
        assert figure.caption.startswith("tiny-bert · 47 texts of sample")
        for ending in FORMATS:
            figure.save(tmp_path / f"{name}.{ending}", column="double")
        assert (tmp_path / f"{name}.pdf").read_bytes().startswith(b"%PDF")
        assert b"<svg" in (tmp_path / f"{name}.svg").read_bytes()
    rows = study.heads.query("metric == 'distance'")
    np.testing.assert_array_equal(found["heads"].table["Low"], rows["low"])
    assert "L1 H2" in found["offset"].name


def test_the_head_of_the_figures_is_by_default_the_one_with_a_label_on_most_texts(study) -> None:
    best = study.labels.sort_values("share_of_texts", kind="stable").iloc[-1]
    assert f"L{best['layer']} H{best['head']}" in study.figures()["kind"].name


def test_what_the_study_does_not_have_is_refused(study: mv.Study) -> None:
    with pytest.raises(ArgumentError, match="'charm'"):
        study.figures("charm")
    with pytest.raises(ArgumentError, match="head must be from 0 to 7"):
        study.figures(head=(0, 8))
    with pytest.raises(ArgumentError, match='"svg" or "pdf"'):
        study.figures()["heads"].save("heads.gif")
