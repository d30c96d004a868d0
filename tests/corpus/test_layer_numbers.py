"""A study of a model with layers without attention names heads by the model's own numbers."""

import pytest

import mha_viz as mv
from tests.families.tiny import WORDS
from tests.making.hybrids import jamba

TEXTS = [" ".join(WORDS[(5 * i + n) % len(WORDS)] for i in range(9)) for n in range(12)]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> mv.Study:
    return mv.study(jamba(), TEXTS, tmp_path_factory.mktemp("hybrid") / "study")


def test_tables_have_positions_and_figures_have_names(study):
    assert study.layer_numbers == (3, 7) and set(study.heads.layer) == {0, 1}
    figures = study.figures("entropy", (1, 2))
    names = [f"L{layer} H{head}" for layer in (3, 7) for head in range(4)]
    assert figures["heads"].table["Head"].tolist() == names
    assert list(figures["heads"].draw().layout.yaxis.ticktext) == ["L3", "L7"]
    assert "L7 H2" in figures["histogram"].name and "L7 H2" in figures["offset"].caption
