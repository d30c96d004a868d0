"""The difference of two tokens' logits, where both are chosen and where only one is."""

import pytest

import mha_viz as mv


def test_ablate_logit_difference_needs_both_tokens() -> None:
    model, text, heads = mv.load("tiny-gpt2"), "Once upon a", [(0, 0), (3, 1)]
    alone = mv.ablate(model, text, heads, target="time")
    assert alone.target is not None and alone.against is None
    assert alone.logit_difference_before is None and alone.logit_difference_after is None
    both = mv.ablate(model, text, heads, target="time", against="man")
    assert both.target is not None and both.against is not None
    for difference, moment in (
        (both.logit_difference_before, "before"),
        (both.logit_difference_after, "after"),
    ):
        expected = getattr(both.target, moment) - getattr(both.against, moment)
        assert difference == pytest.approx(expected)
    swapped = mv.ablate(model, text, heads, target="man", against="time")
    assert swapped.logit_difference_before == pytest.approx(-both.logit_difference_before)
