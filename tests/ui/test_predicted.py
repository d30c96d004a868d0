"""Heads switched off beside the grid, and the prediction before and after."""

import numpy as np
import pytest

import mha_viz as mv
from tests.ui.heads_app import brought, heads_page

TEXT = "The old dog saw the young dog."


@pytest.mark.parametrize(
    ("model", "text", "measured"),
    [
        ("tiny-gpt2", TEXT, TEXT),
        ("tiny-bert", "The old dog [MASK] the young dog.", "The old dog [MASK] the young dog."),
        ("tiny-bert", TEXT, "The old dog saw the young [MASK]."),  # its last word is masked
    ],
)
def test_heads_that_are_off_bring_the_likeliest_tokens_of_an_ablation(
    model, text, measured
) -> None:
    app = heads_page(model=model, text=text, off="0.2,1.3")
    sent = brought(app, "prediction")
    ablation = mv.ablate(mv.load(model), measured, heads=[(0, 2), (1, 3)])
    expected = ablation.table().nlargest(5, "after")
    assert sent["off"] == [[0, 2], [1, 3]]
    assert [row[0].lstrip("…") for row in sent["rows"]] == expected["token"].tolist()
    rows = np.array([row[1:] for row in sent["rows"]], dtype=float)
    np.testing.assert_allclose(rows, expected[["before", "after"]], rtol=1e-5)
    assert sent["kl"] == pytest.approx(ablation.kl, rel=1e-5)


def test_heads_that_the_model_does_not_have_are_left_out_and_named() -> None:
    app = heads_page(model="tiny-gpt2", text=TEXT, off="0.2,40.1")
    assert brought(app, "prediction")["off"] == [[0, 2]]
    assert any("L40 H1" in warning.value for warning in app.warning)


def test_nothing_is_predicted_while_all_heads_are_on() -> None:
    sent = brought(heads_page(model="tiny-gpt2", text=TEXT), "prediction")
    assert sent["off"] == [] and not {"rows", "numbers", "kl", "message"} & sent.keys()


def test_a_text_without_a_word_says_that_nothing_can_be_predicted() -> None:
    sent = brought(heads_page(model="tiny-bert", text=". , !", off="0.2"), "prediction")
    assert sent["message"] and "rows" not in sent


def test_the_token_that_was_likeliest_is_among_those_shown_when_it_falls_far() -> None:
    text = "In spring Captain Zorval opened the green box. At night Captain Zorval opened the green"
    rows = brought(heads_page(model="tiny-gpt2", text=text, off="0.7"), "prediction")["rows"]
    assert len(rows) == 5 and rows[-1][0] == "box"
    assert rows[-1][1] > 0.5 > 0.05 > rows[-1][2]
    expected = mv.ablate(mv.load("tiny-gpt2"), text, heads=[(0, 7)]).table().nlargest(4, "after")
    assert [row[0].lstrip("…") for row in rows[:4]] == expected["token"].tolist()
