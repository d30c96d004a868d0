"""The shipped treebank is UD v2: checked line by line, by rules of its own, without our reader."""

import re
from collections import Counter
from itertools import combinations

import pytest

from mha_viz.corpus.treebank.trees import SAMPLE

UPOS = set("ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split())
RELATIONS = set(
    """acl advcl advmod amod appos aux case cc ccomp clf compound conj cop csubj dep det discourse
    dislocated expl fixed flat goeswith iobj list mark nmod nsubj nummod obj obl orphan parataxis
    punct reparandum root vocative xcomp""".split()
)
SUBTYPES = set(
    """acl:relcl aux:pass cc:preconj compound:prt csubj:pass det:predet nmod:desc nmod:poss
    nmod:unmarked nsubj:outer nsubj:pass obl:agent obl:unmarked advcl:relcl""".split()
)
# The parts of speech that a relation may have where it has few.
OF_RELATION = {
    "aux": {"AUX"},
    "cop": {"AUX"},
    "case": {"ADP", "PART"},
    "cc": {"CCONJ"},
    "det": {"DET"},
    "expl": {"PRON"},
    "mark": {"SCONJ", "PART"},
    "nummod": {"NUM"},
    "punct": {"PUNCT"},
    "amod": {"ADJ"},
    "advmod": {"ADV", "PART"},
    "nsubj": {"NOUN", "PROPN", "PRON", "NUM"},
    "discourse": {"INTJ"},
}
# What may hang from a word with one of these relations, which have hardly any dependents.
BELOW = {"aux": set(), "cop": set(), "punct": set(), "cc": set(), "det": set(), "mark": set()}
BELOW |= {"case": {"fixed"}, "fixed": set(), "flat": set(), "expl": set()}


def blocks():
    text = SAMPLE.read_text("utf-8")
    for block in text.strip().split("\n\n"):
        lines = block.splitlines()
        comments = [line[2:].split(" = ", 1) for line in lines if line.startswith("#")]
        rows = [line.split("\t") for line in lines if not line.startswith("#")]
        yield dict(comments), rows


BLOCKS = list(blocks())
EACH = [pytest.param(about, rows, id=about["sent_id"]) for about, rows in BLOCKS]


def words(rows):
    return [row for row in rows if row[0].isdigit()]


def test_there_are_many_different_sentences_of_many_constructions():
    texts = [about["text"] for about, _ in BLOCKS]
    assert len(set(texts)) == len(texts) >= 150
    relations = Counter(row[7] for _, rows in BLOCKS for row in words(rows))
    for relation, least in dict(
        nsubj=150, det=150, obj=80, obl=50, conj=25, mark=25, cop=30, advmod=40, amod=30, xcomp=10
    ).items():
        assert relations[relation] >= least, relation
    for relation in ["acl:relcl", "nsubj:pass", "nmod:poss", "compound:prt", "nummod", "advcl"]:
        assert relations[relation] >= 5, relation
    assert sum(text.endswith("?") for text in texts) >= 15
    assert sum(any("-" in row[0] for row in rows) for _, rows in BLOCKS) >= 15  # "don't"
    assert {row[3] for _, rows in BLOCKS for row in words(rows)} >= UPOS - {"X"}


def test_documents_tell_of_somebody_over_several_sentences_and_the_rest_stand_alone():
    documents = []
    for about, rows in BLOCKS:
        if "newdoc id" in about:
            documents.append([])
        found = re.findall(r"\((e\d+)", " ".join(row[9] for row in rows))
        documents[-1].append(Counter(found))
    long = [one for one in documents if len(one) > 1]
    assert len(long) >= 7 and len(documents) - len(long) >= 100
    for one in long:
        again = [
            name for i, here in enumerate(one) for name in here if name in set().union(*one[:i])
        ]
        assert len(again) >= 3


@pytest.mark.parametrize(("about", "rows"), EACH)
def test_columns_tags_and_relations_are_those_of_ud(about, rows):
    assert all(len(row) == 10 and all(row) for row in rows)
    assert [int(row[0]) for row in words(rows)] == list(range(1, len(words(rows)) + 1))
    for _, form, lemma, upos, _, feats, head, relation, _, _ in words(rows):
        assert upos in UPOS and "_" not in (lemma, head)
        assert relation in RELATIONS | SUBTYPES, form
        names = [feat.split("=")[0] for feat in feats.split("|")]
        assert names == sorted(names, key=str.lower)  # UD's order, each once
        assert len(set(names)) == len(names)


@pytest.mark.parametrize(("about", "rows"), EACH)
def test_it_is_a_tree_without_crossing_arcs(about, rows):
    heads = {int(row[0]): int(row[6]) for row in words(rows)}
    assert [row[7] == "root" for row in words(rows)] == [head == 0 for head in heads.values()]
    assert list(heads.values()).count(0) == 1
    for word in heads:
        seen = set()
        while word:
            assert word not in seen and word in heads
            seen.add(word)
            word = heads[word]
    arcs = [sorted(arc) for arc in heads.items()]
    for (a, b), (c, d) in combinations(sorted(arcs), 2):
        assert not a < c < b < d, f"{(a, b)} crosses {(c, d)}"


@pytest.mark.parametrize(("about", "rows"), EACH)
def test_words_fit_their_relations(about, rows):
    below = {row[0]: {child[7] for child in words(rows) if child[6] == row[0]} for row in rows}
    for number, form, _, upos, _, _, head, relation, _, _ in words(rows):
        kind = relation.split(":")[0]
        assert upos in OF_RELATION.get(kind, UPOS), form
        assert (upos == "PUNCT") == (kind == "punct"), form
        assert below[number] <= BELOW.get(relation, RELATIONS | SUBTYPES), form
        if kind in ("flat", "fixed", "conj"):  # the first of them is the head
            assert int(head) < int(number), form
    assert all(len([r for r in words(rows) if r[6] == n and r[7] == "obj"]) <= 1 for n in below)


@pytest.mark.parametrize(("about", "rows"), EACH)
def test_the_text_is_what_the_words_spell(about, rows):
    text, inside = "", 0
    by_number = {row[0]: row[1] for row in words(rows)}
    for number, form, *_, misc in rows:
        if "-" in number:
            first, inside = (int(end) for end in number.split("-"))
            assert "".join(by_number[str(i)] for i in range(first, inside + 1)) == form
        elif int(number) <= inside:
            assert "SpaceAfter" not in misc
            continue
        text += form + " " * ("SpaceAfter=No" not in misc)
    assert text.strip() == about["text"]
