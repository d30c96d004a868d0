"""Parts of the Compare page without the page: what it says of a text, and why a number lacks."""

from types import SimpleNamespace

import pytest

import mha_viz as mv
from mha_viz.ui.compare import details, scatter


@pytest.mark.parametrize(("n_tokens", "reason"), [(1, "one_token"), (2, "constant")])
def test_why_not_blames_the_text_s_length_for_one_token_alone(n_tokens: int, reason: str) -> None:
    scene = SimpleNamespace(record=SimpleNamespace(tokens=["a"] * n_tokens))
    assert scatter.TEXTS(f"scatter.{reason}") in scatter._why_not(scene, "redundancy")


def test_about_counts_words_of_a_merged_record_and_tokens_of_others() -> None:
    record = mv.load("tiny-gpt2").trace("Unbelievably, it rains.")
    merged = record.merge_words()
    assert len(merged.tokens) < len(record.tokens)
    assert details._about(record).endswith(f" {len(record.tokens)} tokens")
    assert details._about(merged).endswith(f" {len(merged.tokens)} words")
