"""Studies of documents whose sentences are joined: what they count, keep, go on with and refuse."""

import re
from pathlib import Path
from typing import Any

import pytest

import mha_viz as mv
from mha_viz.corpus.run.progress import Progress
from mha_viz.corpus.sources import documents
from mha_viz.corpus.treebank.relations import head_vs_tree
from mha_viz.errors import ArgumentError, SourceError
from tests.corpus.small_studies import study_in_shards, tables_of
from tests.making.trees import conllu, document

MET = "Ann/PROPN/2/nsubj/Entity=(e1) met/VERB/0/root Eve/PROPN/2/obj/Entity=(e2)"
ASLEEP = "She/PRON/2/nsubj/Entity=(e1) fell/VERB/0/root asleep/ADJ/2/xcomp"
SAW = "Eve/PROPN/2/nsubj/Entity=(e2) saw/VERB/0/root her/PRON/2/obj/Entity=(e1)"
BALL = "The/DET/2/det/Entity=(e1 ball/NOUN/3/nsubj/Entity=e1) fell/VERB/0/root"
ROLLS = "It/PRON/2/nsubj/Entity=(e1) rolls/VERB/0/root far/ADV/2/advmod"
AGAIN = " again/ADV/2/advmod"
# Of the first, two documents of three and two sentences; their openings are on the two halves.
DOCUMENTS = [(MET, ASLEEP, SAW), (BALL, ROLLS), (MET + AGAIN, SAW + AGAIN)]
# More than tiny-bert's 128 tokens; no two sentences are the same.
LONG = [
    f"{sentence} {number}/NUM/2/obl"
    for number, sentence in enumerate((MET, ASLEEP, SAW, SAW, ASLEEP) * 8)
]


@pytest.fixture(scope="module")
def treebank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents, a sentence of none, and a line of a plain text's folder."""
    folder = tmp_path_factory.mktemp("documents") / "source"
    folder.mkdir()
    (folder / "a.txt").write_text("A plain text has no tree.\n")
    (folder / "b.conllu").write_text("".join(document(*one) for one in DOCUMENTS))
    (folder / "c.conllu").write_text(conllu(ROLLS + AGAIN) + document(*LONG))
    return folder


@pytest.fixture(scope="module")
def joined(bert: Any, treebank: Path, tmp_path_factory: pytest.TempPathFactory) -> mv.Study:
    out = tmp_path_factory.mktemp("joined") / "study"
    return study_in_shards(2, bert, treebank, out, join="document")


@pytest.fixture(scope="module")
def singly(bert: Any, treebank: Path, tmp_path_factory: pytest.TempPathFactory) -> mv.Study:
    return study_in_shards(17, bert, treebank, tmp_path_factory.mktemp("singly") / "study")


def sums(one: mv.Study, table: str, *names: str) -> list[int]:
    rows = one.sql(f"select * from {table} where layer = 0 and head = 0")
    return [int(rows[name].sum()) for name in names]


def test_a_text_is_a_document_or_what_fits_of_it(joined: mv.Study, singly: mv.Study) -> None:
    texts = joined.sql("select place, text, n_left_out from sentences order by text_id")
    assert texts["text"].tolist()[:5] == [
        "A plain text has no tree.",
        "Ann met Eve She fell asleep Eve saw her",
        "The ball fell It rolls far",
        "Ann met Eve again Eve saw her again",
        "It rolls far again",
    ]
    assert texts["place"].tolist()[1:5] == [
        "b.conllu:1",
        "b.conllu:14",
        "b.conllu:23",
        "c.conllu:1",
    ]
    assert (texts["n_left_out"] == 0).all() and joined.n_texts > 6
    assert singly.n_texts == 1 + 7 + 1 + len(LONG)
    assert " ".join(texts["text"][5:]) == " ".join(
        word.split("/")[0] for one in LONG for word in one.split()
    )


def test_mentions_are_asked_across_sentences_and_trees_as_before(
    joined: mv.Study, singly: mv.Study
) -> None:
    """Count by hand: She, Eve, her | It | Eve, her of the short documents, and of the long one all
    mentions but the first two of each text."""
    n_long = sum(sentence.count("Entity=") for sentence in LONG)
    assert n_long == 8 * 8
    parts = joined.n_texts - 5
    assert sums(joined, "coreference", "n") == [3 + 1 + 2 + n_long - 2 * parts]
    assert sums(singly, "coreference", "n") == [0]
    for table, names in (("relations", ["n"]), ("trees", ["n_arcs", "branching_hits"])):
        assert sums(joined, table, *names) == sums(singly, table, *names)
    assert len(joined.coreference) and joined.coreference["random_baseline"].notna().all()


def test_what_a_cut_took_is_counted_and_said(joined: mv.Study, singly: mv.Study) -> None:
    parts = joined.n_texts - 5
    counts = joined.manifest["counts"]
    assert (counts["n_going_on"], counts["n_lost"]) == (parts - 1, 2 * (parts - 1))
    numbers = [int(number) for number in re.findall(r"\d+", joined.cut)]
    assert {parts - 1, joined.n_texts, 2 * (parts - 1), 128} <= {*numbers}
    assert singly.cut == "" and "n_lost" not in singly.manifest["counts"]


def test_a_joined_text_comes_back_with_its_trees(joined: mv.Study, bert: Any) -> None:
    text = joined.sentence(1)
    assert [word.form for word in text.words] == "Ann met Eve She fell asleep Eve saw her".split()
    assert [words.stop for words, _ in text.parts] == [3, 6, 9]
    tree = head_vs_tree(bert.trace(text.text), text, 1, 0)
    assert [(arc.dependent, arc.head) for arc in tree.arcs] == [
        *[(0, 1), (2, 1), (3, 4), (5, 4), (6, 7), (8, 7)]
    ]
    found = joined.search(relation="obj", direction="to_head", query_upos="PRON", min_weight=0)
    assert len(found) and set(found["query_token"]) == {"her"}
    assert set(found["key_token"]) == {"saw"}
    assert len(joined.examples(1, 0)) > 3


def test_stopped_and_gone_on_with_it_has_the_same_bytes(
    joined: mv.Study, bert: Any, treebank: Path, tmp_path: Path
) -> None:
    def stop(now: Progress) -> None:
        if now.n_texts >= 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        study_in_shards(2, bert, treebank, tmp_path / "study", join="document", on_progress=stop)
    study_in_shards(2, bert, treebank, tmp_path / "study", join="document")
    assert tables_of(tmp_path / "study") == tables_of(joined.folder)


def test_what_has_no_documents_is_refused_before_anything_is_made(
    bert: Any, treebank: Path, tmp_path: Path
) -> None:
    (tmp_path / "plain.conllu").write_text(conllu(MET))
    for source in (["One.", "Two."], tmp_path / "plain.conllu"):
        with pytest.raises(SourceError, match=r"# newdoc"):
            mv.study(bert, source, tmp_path / "study", join="document")
    with pytest.raises(ArgumentError, match=r"join.*'document'"):
        mv.study(bert, treebank, tmp_path / "study", join="paragraph")
    assert not (tmp_path / "study").exists()


def test_size_of_a_sentence_is_that_of_its_tokens_however_long(bert: Any) -> None:
    budget = documents._TokenBudget(bert.reader)
    for n_letters in (40, 100 * budget.most, 100 * (budget.most + 1)):  # the last is not tokenized
        text = "a " * (n_letters // 2)
        n_tokens = n_letters // 2 if n_letters <= 100 * budget.most else budget.most + 1
        assert budget.size(text) == n_tokens
