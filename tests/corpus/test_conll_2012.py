"""Coreference from CoNLL-2012: words, mentions and documents of a file made by hand."""

import gzip
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import mha_viz as mv
from mha_viz.corpus.sources.source import open_source
from mha_viz.corpus.treebank.conll_2012 import heads_of_phrases, read_conll_2012
from mha_viz.corpus.treebank.coreference import (
    Reference,
    as_tensors,
    coreference_scores,
    nearest_hit,
    reference_hits,
    references,
    same_word_hit,
)
from mha_viz.corpus.treebank.mentions import Mention
from mha_viz.corpus.treebank.trees import ROOT
from mha_viz.errors import SourceError
from tests.making.conll_2012 import FILE, SHE, SLEPT, TEXTS, TOLD, WOKE, block, part
from tests.making.trees import tree

# By hand: the words that mentions stand by are Ann, man, she | His, dog, Rex, him | Eve | She.
MENTIONS = [
    [("1", 0, 1, 0), ("2", 2, 7, 4), ("1", 8, 9, 8)],
    [("3", 0, 5, 1), ("2", 0, 1, 0), ("3", 3, 4, 3), ("2", 6, 7, 6)],
    [("2", 0, 1, 0)],
    [("2", 0, 1, 0)],
]
SINGLY = [
    [Reference(8, (0, 4), (True, False))],
    [Reference(3, (0, 1), (False, True)), Reference(6, (0, 1, 3), (True, False, False))],
    [],
    [],
]
JOINED = [
    [
        Reference(8, (0, 4), (True, False)),
        Reference(11, (0, 4, 8), (False, True, False)),
        Reference(14, (0, 4, 8, 11, 12), (False, False, False, False, True)),
        Reference(17, (0, 4, 8, 11, 12, 14), (False, True, False, True, False, False)),
    ],
    [Reference(3, (0,), (True,))],
]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ontonotes") / "made_0001.v4_gold_conll"
    path.write_text(FILE)
    return path


def test_words_mentions_and_documents() -> None:
    found = list(read_conll_2012(FILE.splitlines(), "a"))
    assert [one.text for one in found] == TEXTS
    assert [(one.location, one.document) for one in found] == [
        ("a:1", 1),
        ("a:14", 1),
        ("a:24", 2),
        ("a:29", 2),
    ]
    for one, expected in zip(found, MENTIONS, strict=True):
        assert one.sentence.mentions == tuple(Mention(*each) for each in expected)
        words = one.sentence.words
        assert [one.text[word.start : word.end] for word in words] == one.text.split()
        assert {(word.head, word.deprel) for word in words} == {(ROOT, "")}
    upos = " ".join(word.upos for word in found[1].sentence.words)
    assert upos == "PRON NOUN PUNCT PROPN PUNCT VERB PRON PUNCT"


def test_heads_of_phrases() -> None:
    """Find heads that were worked out by hand, with the rules of Collins."""
    rows = [row.split() for row in TOLD.splitlines()]
    heads = heads_of_phrases([row[2] for row in rows], [row[1] for row in rows])
    #                Ann told  the tall man who slept that she left .
    assert heads == [1, ROOT, 4, 4, 1, 6, 4, 9, 9, 1, 1]
    assert heads_of_phrases(["(NP(NP*", "*)", "*)"], ["NNP", "POS", "NN"]) == [2, 0, ROOT]
    assert heads_of_phrases(["(NP(NP*)", "*", "(NP*))"], ["NN", "CC", "NN"]) == [ROOT, 0, 0]
    assert heads_of_phrases(["-", "*)", "(NP*"], ["NN", "NN", "NN"]) == [1, 2, ROOT]


@pytest.mark.parametrize(
    ("chains", "reason"),
    [
        (["(1", "-", "-"], r"mention of “1” that begins with word 1 has no end in this"),
        (["-", "7)", "-"], r"mention of “7” ends with word 2 that did not begin in this"),
        (["-", "-", "12"], r"last column of word 3 is “12”: expected “-” or brackets"),
        (["((1)", "-", "-"], r"last column of word 1 is “\(\(1\)”"),
    ],
)
def test_a_broken_bracket_is_named_with_file_line_and_word(
    chains: list[str], reason: str, tmp_path: Path
) -> None:
    rows = (
        f"{row.rpartition(' ')[0]} {to}" for row, to in zip(SHE.splitlines(), chains, strict=True)
    )
    path = tmp_path / "a.conll"
    path.write_text(part(0, SLEPT, "\n".join(rows), WOKE))
    source = open_source(path)
    assert [item.text for item in source] == [TEXTS[2], TEXTS[1]]
    [(place, said)] = source.skipped
    assert place == "a.conll:6"

    assert re.search(reason, said)


def test_rows_of_another_format_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("EU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\n")
    with pytest.raises(
        SourceError,
        match=r"a\.conll:1: .*12 .*4",
    ):
        list(open_source(path))


def test_the_kind_is_told_by_the_name_or_the_content(file: Path, tmp_path: Path) -> None:
    for name in ("notes", "notes.gz", "x.gold_conll.gz", "x.V4_AUTO_CONLL", "a.conll"):
        (tmp_path / name).write_bytes(
            gzip.compress(file.read_bytes()) if name.endswith("gz") else file.read_bytes()
        )
        source = open_source(tmp_path / name)
        assert [item.text for item in source] == TEXTS
        assert (source.unit, source.n_units) == ("document", 2)
    with pytest.raises(SourceError, match="column"):
        list(open_source(file, column="word"))


def hits_by_hand(model: Any, text: str, asked: list[Reference], starts: list[int]) -> Any:
    """Count the references whose antecedent has the most weight, for each head; words by place."""
    record = model.trace(text)
    ends = [start + len(word) for start, word in zip(starts, text.split(), strict=True)]
    of_word = [
        [i for i, token in enumerate(record.tokens) if not token.is_special
         and start <= token.start < end]
        for start, end in zip(starts, ends, strict=True)
    ]  # fmt: skip
    hits = np.zeros(record.pattern.shape[:2], dtype=int)
    for one in asked:
        weights = [
            record.pattern[:, :, of_word[one.query]][..., of_word[key]].sum(-1).mean(-1)
            for key in one.earlier
        ]
        best = torch.stack(weights).argmax(0)
        hits += torch.tensor(one.right)[best].numpy()
    return hits


@pytest.mark.parametrize(("join", "asked", "nearest"), [(None, SINGLY, 1), ("document", JOINED, 2)])
def test_a_study_counts_what_is_counted_by_hand(
    file: Path,
    bert: Any,
    tmp_path: Path,
    join: str | None,
    asked: list[list[Reference]],
    nearest: int,
) -> None:
    joins = bert.layer_reader if join else None
    items = list(open_source(file, join=joins))
    texts = TEXTS if join is None else [" ".join(TEXTS[:2]), " ".join(TEXTS[2:])]
    assert [item.text for item in items] == texts
    expected = np.zeros((bert.n_layers, bert.n_heads), dtype=int)
    for item, each in zip(items, asked, strict=True):
        assert item.sentence is not None
        covered = torch.ones(len(item.sentence.words), dtype=torch.bool)
        assert references(item.sentence, covered) == each
        starts = [word.start for word in item.sentence.words]
        expected += hits_by_hand(bert, item.text, each, starts)

    made = mv.study(bert, file, tmp_path / "study", join=join)
    counted = made.sql(
        "select layer, head, sum(n) as n, sum(hits) as hits, sum(nearest_hits) as nearest, "
        "sum(same_word_hits) as same from coreference group by all order by all"
    )
    assert set(counted["n"]) == {sum(map(len, asked))}
    assert (set(counted["nearest"]), set(counted["same"])) == ({nearest}, {0})
    assert counted["hits"].tolist() == expected.ravel().tolist()

    # words look at words of their own sentence, whether sentences are joined or not
    spread = made.parts_of_speech.query("layer == 1 and head == 2")
    n_words = spread.groupby("from_upos")["n_words"].first()
    assert n_words.to_dict() == {
        "PROPN": 3, "VERB": 6, "DET": 1, "ADJ": 1, "NOUN": 2, "PRON": 5, "ADP": 1, "PUNCT": 6
    }  # fmt: skip
    assert made.has_trees and made.relations.empty and made.trees.empty


def test_sentences_of_a_block_without_a_document_stay_alone(tmp_path: Path, bert: Any) -> None:
    path = tmp_path / "a.conll"
    path.write_text(block(SLEPT) + block(SHE))
    assert [item.text for item in open_source(path, join=bert.layer_reader)] == TEXTS[2:]
    with pytest.raises(SourceError, match=r"document.*CoNLL-2012"):
        open_source(path, join=bert.layer_reader).check_documents()


SHE_SAID = tree(
    "Ann/PROPN/2/nsubj/Entity=(e1) told/VERB/0/root Eve/PROPN/2/iobj/Entity=(e2) "
    "she/PRON/5/nsubj/Entity=(e1) slept/VERB/2/ccomp"
)
COVERED = torch.ones(5, dtype=torch.bool)
ASKED = Reference(3, (0, 2), (True, False))


def test_a_mention_is_asked_where_it_has_an_antecedent():
    assert references(SHE_SAID, COVERED) == [ASKED]
    assert references(SHE_SAID, torch.tensor([False, True, True, True, True])) == []


def test_the_antecedent_must_be_the_mention_with_the_most_weight():
    words = torch.zeros(4, 1, 5, 5)
    words[0, 0, 3] = torch.tensor([0.2, 0.7, 0.1, 0.0, 0.0])  # "told" is no mention
    words[1, 0, 3] = torch.tensor([0.1, 0.0, 0.2, 0.0, 0.0])
    words[2, 0, 3] = torch.tensor([0.2, 0.0, 0.2, 0.0, 0.0])  # a tie; the last looks nowhere
    asked = as_tensors([(text, ASKED) for text in range(4)], 5)
    assert reference_hits(asked, words)[:, 0].tolist() == [True, False, False, False]
    assert reference_hits(as_tensors([], 5), words).shape == (0, 1)


def test_baselines():
    assert not nearest_hit(ASKED) and nearest_hit(ASKED._replace(right=(False, True)))
    assert not same_word_hit(ASKED, SHE_SAID)
    again = tree(
        "the/DET/2/det/Entity=(e1 cat/NOUN/3/nsubj/Entity=e1) saw/VERB/0/root "
        "Cat/PROPN/3/obj/Entity=(e2) cat/NOUN/3/obl/Entity=(e1)"
    )
    [asked] = references(again, COVERED)
    assert asked == Reference(4, (1, 3), (True, False))
    assert not same_word_hit(asked, again)  # the nearest of the same word means another one


def test_the_head_is_chosen_on_one_half_and_reported_on_the_other_beside_the_baselines():
    names = ["half", "layer", "head", "n", "hits", "nearest_hits", "same_word_hits"]
    rows = [("choose", 0, 0, 4, 1, 4, 0), ("choose", 0, 1, 4, 3, 4, 0)]
    rows += [("report", 0, 0, 5, 5, 2, 1), ("report", 0, 1, 5, 4, 2, 1)]
    found = coreference_scores(pd.DataFrame(rows, columns=names))
    [best] = found[found.chosen].to_dict("records")
    assert (best["head"], best["n"], best["accuracy"], best["chosen_on"]) == (1, 5, 0.8, 0.75)
    assert (best["nearest_baseline"], best["same_word_baseline"]) == (0.4, 0.2)
    assert coreference_scores(pd.DataFrame(rows[:2], columns=names)).empty
