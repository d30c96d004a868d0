"""Texts that occur again: found among any number of texts, and counted once in a study."""

import random

import pytest

from mha_viz.corpus.sources import sampling
from mha_viz.corpus.sources.sampling import SeenTexts
from mha_viz.corpus.sources.source import open_source


def test_seen_texts_are_those_of_a_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when most of them have been merged into sorted runs."""
    monkeypatch.setattr(sampling, "_RECENT", 7)
    drawn = [f"{random.Random(i).randrange(400)} cats" for i in range(1_009)]
    seen, known = SeenTexts(), set[str]()
    for text in drawn:
        assert seen.add(text) == (text not in known)
        known.add(text)
    assert len(seen._runs) <= 7 and sum(map(len, seen._runs)) > 300


def test_source_leaves_copies_out_and_counts_them() -> None:
    source = open_source(["One.", " One. ", "Two.", "", "one.", "Two.", "One."])
    for _ in range(2):
        assert [(item.number, item.text) for item in source] == [
            (0, "One."),
            (1, "Two."),
            (2, "one."),
        ]
        assert (source.n_duplicates, source.n_skipped) == (3, 1)


def test_sample_draws_different_texts() -> None:
    source = open_source([f"Text {i % 13}." for i in range(1_009)], sample=13, seed=3)
    assert len({item.text for item in source}) == 13
