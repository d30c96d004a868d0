"""Texts that occur again: found among any number of texts, and counted once in a study."""

import random
from pathlib import Path
from typing import Any

import pytest

import mha_viz as mv
from mha_viz.corpus.sources import sampling
from mha_viz.corpus.sources import source as sources
from mha_viz.corpus.sources.sampling import SeenTexts
from mha_viz.corpus.sources.source import open_source
from tests.corpus.small_studies import LINES, files_of

TIMES = 5
TEXTS = LINES[:11]


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


def test_study_of_copies_has_the_bytes_of_one_without(
    bert: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So every mean, interval, label and number of texts is that of the different texts."""
    monkeypatch.setattr(sources, "SHARD_TEXTS", 3)
    once = mv.study(bert, TEXTS, tmp_path / "once")
    copies = mv.study(bert, TEXTS * TIMES, tmp_path / "copies")
    ours, theirs = (files_of(study.folder) for study in (copies, once))
    assert ours.pop("study.json") != theirs.pop("study.json") and ours == theirs
    assert copies.n_texts == len(TEXTS) and not once.notes
    assert str((TIMES - 1) * len(TEXTS)) in copies.notes[0]
