"""Texts that occur again: found among any number of texts, and counted once in a study."""

import random
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import mha_viz as mv
from mha_viz.corpus.query.comparison import compare
from mha_viz.corpus.sources import sampling
from mha_viz.corpus.sources import source as sources
from mha_viz.corpus.sources.sampling import SeenTexts
from mha_viz.corpus.sources.source import open_source
from mha_viz.corpus.treebank.trees import sample_lines
from tests.corpus.small_studies import LINES, files_of

TIMES = 5
TEXTS, OTHERS = LINES[:11], LINES[11:18]


def test_seen_texts_are_those_of_a_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when most of them have been merged into sorted runs."""
    monkeypatch.setattr(sampling, "_RECENT", 7)
    drawn = [f"{random.Random(i).randrange(400)} cats" for i in range(1_009)]
    seen, known = SeenTexts(), set[str]()
    for text in drawn:
        assert seen.add(text) == (text not in known)
        known.add(text)
    assert len(seen._runs) <= 7 and sum(map(len, seen._runs)) > 300


def test_seen_texts_take_eight_bytes_each() -> None:
    seen = SeenTexts()
    for number in range(3 * sampling._RECENT):
        seen.add(str(number))
    assert sum(run.nbytes for run in seen._runs) == 8 * 3 * sampling._RECENT
    assert not seen._recent


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


@pytest.fixture(scope="module")
def studies(bert: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, mv.Study]:
    """Studies of some texts, of the same texts again and again, and of others."""
    folder, given = tmp_path_factory.mktemp("copies"), {"copies": TEXTS * TIMES, "others": OTHERS}
    given |= {"once": TEXTS, "few": TEXTS[:5] * TIMES + TEXTS}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "SHARD_TEXTS", 3)
        return {name: mv.study(bert, texts, folder / name) for name, texts in given.items()}


def test_study_of_copies_has_the_bytes_of_one_without(studies: dict[str, mv.Study]) -> None:
    """So every mean, interval, label and number of texts is that of the different texts."""
    once, copies, few = (files_of(studies[name].folder) for name in ("once", "copies", "few"))
    for files in (once, copies, few):
        del files["study.json"]
    assert once == copies
    changed = {name for name in once if few[name] != once[name]}
    assert {Path(name).name for name in changed} == {"sentences.parquet", "shard.json"}  # places
    assert studies["copies"].n_texts == len(TEXTS)
    n_left_out = (TIMES - 1) * len(TEXTS)
    assert studies["copies"].notes == [
        f"{n_left_out} duplicate texts were left out: a text that occurs again counts once."
    ]
    assert studies["few"].manifest["counts"]["n_duplicates"] == 5 * TIMES
    assert not studies["once"].notes


@pytest.mark.parametrize("name", ["copies", "few"])
def test_compare_takes_copies_as_one_text(studies: dict[str, mv.Study], name: str) -> None:
    once, others = studies["once"], studies["others"]
    expected = compare(others, once)
    assert expected["standard_error"].max() > 0
    pd.testing.assert_frame_equal(compare(others, studies[name]), expected)


def test_paired_compare_takes_copies_as_one_text(bert: Any, tmp_path: Path) -> None:
    """The same texts in two studies, of two models."""
    other = mv.load("tiny-gpt2")
    assert (other.n_layers, other.n_heads) == (bert.n_layers, bert.n_heads)
    pairs = [
        [mv.study(model, texts, tmp_path / f"{model.name}{len(texts)}") for model in (bert, other)]
        for texts in (TEXTS, TEXTS * TIMES)
    ]
    once, copies = (compare(*pair) for pair in pairs)
    pd.testing.assert_frame_equal(copies, once)
    assert set(once[once["metric"] == "entropy"]["n_texts"]) == {len(TEXTS)}


def test_questions_about_a_copied_sentence_are_asked_once(bert: Any, tmp_path: Path) -> None:
    """Counts and intervals of relations, trees, antecedents and parts of speech."""
    blocks = "\n".join(sample_lines()).strip().split("\n\n")[::7]
    for name, times in (("once", 1), ("copies", 3)):
        (tmp_path / f"{name}.conllu").write_text("\n\n".join(blocks * times) + "\n\n", "utf-8")
    once, copies = (
        mv.study(bert, tmp_path / f"{name}.conllu", tmp_path / name) for name in ("once", "copies")
    )
    assert copies.manifest["counts"]["n_duplicates"] == 2 * len(blocks)
    for table in ("relations", "trees", "coreference", "parts_of_speech", "heads", "labels"):
        expected = getattr(once, table)
        assert len(expected)
        pd.testing.assert_frame_equal(getattr(copies, table), expected)
