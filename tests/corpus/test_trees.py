"""Trees as CoNLL-U and parsers give them, their words met with tokens; broken ones skipped."""

import numpy as np
import pytest
import torch
from scipy.sparse.csgraph import minimum_spanning_tree

import mha_viz as mv
from mha_viz.core.record.fields import Token
from mha_viz.corpus.treebank import trees
from mha_viz.corpus.treebank.alignment import align_words
from mha_viz.corpus.treebank.mentions import Mention, read_mentions
from mha_viz.corpus.treebank.parsing import (
    arc_hits,
    as_tensors,
    branching_hits,
    gold_arcs,
    spanning_trees,
    tree_words,
)
from mha_viz.corpus.treebank.trees import Sentence, Word, read_conllu, sample_lines
from tests.making.comparing import close
from tests.making.trees import sample, tree


def lines(*rows):
    """Rows of "number form UPOS head relation misc", written out."""
    for row in rows:
        if not row or row.startswith("#"):
            yield row
            continue
        number, form, upos, head, deprel, misc = (row.split() + ["_"] * 5)[:6]
        yield "\t".join([number, form, form, upos, "_", "_", head, deprel, "_", misc]) + "\n"


GOOD = ["1 It PRON 2 nsubj", "2 rains VERB 0 root SpaceAfter=No", "3 . PUNCT 2 punct", ""]


def read(*rows):
    faults = []
    found = list(read_conllu(lines(*rows), "a.conllu", lambda *fault: faults.append(fault)))
    return found, faults


def test_text_and_offsets_of_plain_multi_word_and_empty_tokens():
    [(text, place, sentence, _)], faults = read(*GOOD)
    assert (text, place, faults) == ("It rains.", "a.conllu:1", [])
    assert [text[word.start : word.end] for word in sentence.words] == ["It", "rains", "."]
    assert [word.head for word in sentence.words] == [1, trees.ROOT, 1]
    rows = ["1-2 Don't _ _ _ SpaceAfter=No", "1 Do AUX 0 root", "2 n't PART 1 advmod"]
    [found], _ = read(*rows, "3 ! PUNCT 1 punct")
    assert found.text == "Don't!"
    assert [(w.start, w.end) for w in found.sentence.words] == [(0, 2), (2, 5), (5, 6)]
    rows = ["1 Ann PROPN 0 root", "1.1 likes VERB", "2 tea NOUN 1 orphan"]
    [found], faults = read("# text = Ann  tea", *rows)
    assert not faults and found.text == "Ann  tea"
    assert [word.form for word in found.sentence.words] == ["Ann", "tea"]
    assert found.sentence.words[1].start == 5


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (["1 a X 2 dep", "2 b X 1 dep"], "root"),
        (["1 a X 0 root", "2 b X 3 dep", "3 c X 2 dep"], "lead to no root"),
        (["1 a X 0 root", "3 b X 1 dep"], "numbered"),
        (["1 a X _ root"], "no head"),
        (["one a X 0 root"], "not CoNLL-U"),
        ([f"{'9' * 5000} a X 0 root"], "not CoNLL-U"),
        (["1 a X 0 ro\udcfft"], "“ro⟨U+DCFF⟩t” (deprel) is not valid Unicode"),
        (["# text = a", "1-2 a", "1 a\udcff X 0 root", "2 b X 1 dep"], "(form) is not valid"),
        (["# text = a c", "1 a X 0 root", "2 b X 1 dep"], "“b”"),
        (["# text = a b c", "1 a X 0 root", "2 b X 1 dep"], "goes on"),
        (["1 a X 0 root Entity=e1)"], "did not begin"),
        (["1 a X 0 root Entity=(e1-person-1"], "no end"),
    ],
)
def test_a_broken_sentence_is_skipped_with_its_place(rows, reason):
    found, faults = read(*GOOD, *rows, "", *GOOD)
    assert [one.location for one in found] == ["a.conllu:1", f"a.conllu:{6 + len(rows)}"]
    [(place, said)] = faults
    assert place == "a.conllu:5" and reason in said


def test_lines_that_are_no_table_are_skipped(monkeypatch):
    faults = []
    assert not list(read_conllu(["Once upon a time\n"], "b", lambda *f: faults.append(f)))
    assert not list(read_conllu(["1\tword"], "b", lambda *f: faults.append(f)))
    assert [place for place, _ in faults] == ["b:1", "b:1"]
    monkeypatch.setattr(trees, "MAX_ROWS", 3)
    monkeypatch.setattr(trees, "MAX_LINE", 60)
    found, faults = read(*GOOD, *GOOD[:-1], "4 . PUNCT 2 punct", "", "1 " + "a" * 60, "", *GOOD)
    assert len(found) == 2
    assert [place for place, _ in faults] == ["a.conllu:5", "a.conllu:10"]


def test_a_sentence_tells_its_document_even_where_another_one_is_broken():
    broken = ["# newdoc id = b", "1 a X 9 dep", ""]
    found, faults = read(*GOOD, "# newdoc", *GOOD, *GOOD, *broken, *GOOD, "#newdoc", "", *GOOD)
    assert [one.document for one in found] == [0, 1, 1, 2, 3] and len(faults) == 1
    assert [one.document for one in read("# newdocument", "# new newdoc", *GOOD)[0]] == [0]


def test_halves_are_about_equal_and_follow_the_text_alone():
    halves = [found.sentence.half for found in read_conllu(sample_lines())]
    assert 0.4 < halves.count(trees.CHOOSE) / len(halves) < 0.6
    assert halves == [found.sentence.half for found in read_conllu(sample_lines(), "other")]


def test_mentions_may_nest_and_have_more_fields_or_parts():
    miscs = [{"Entity": "(1-person-giv:act-1-ana(2[1/2]-thing"}, {"Entity": "2[1/2])"}, {}]
    miscs.append({"Entity": "(3)1)"})
    found = read_mentions(miscs, [3, 0, 3, -1])
    assert found == (Mention("1", 0, 4, 3), Mention("2", 0, 2, 0), Mention("3", 3, 4, 3))


CAT = tree("The/DET/3/det old/ADJ/3/amod cat/NOUN/4/nsubj slept/VERB/0/root ././4/punct")
EACH = sample()[::15]


def covered(sentence):
    return torch.ones(len(sentence.words), dtype=torch.bool)


@pytest.mark.parametrize("n", [2, 3, 7, 12])
def test_spanning_trees_are_scipys(n):
    words = np.random.default_rng(n).random((2, 3, n, n))
    found = spanning_trees(torch.from_numpy(words), torch.tensor([n, n]))
    assert found.shape == (2, 3, n - 1, 2)
    for place in np.ndindex(2, 3):
        both = words[place] + words[place].T
        expected = minimum_spanning_tree(np.triu(10 - both, 1)).tocoo()
        pairs = set(zip(expected.row.tolist(), expected.col.tolist(), strict=True))
        assert {tuple(sorted(arc)) for arc in found[place].tolist()} == pairs


def test_words_that_fill_a_tree_up_are_in_none():
    words = torch.rand(3, 2, 7, 7)
    together = spanning_trees(words, torch.tensor([7, 4, 1]))
    assert torch.equal(together[:1], spanning_trees(words[:1], torch.tensor([7])))
    alone = spanning_trees(words[1:2, :, :4, :4], torch.tensor([4]))
    assert torch.equal(together[1:2, :, :3], alone)
    assert not together[1, :, 3:].any() and not together[2].any()
    arcs = spanning_trees(torch.zeros(1, 1, 4, 4), torch.tensor([4]))[0, 0]
    assert arcs.tolist() == [[0, 1], [0, 2], [0, 3]]


def found_arcs(words, sentence):
    """Count the arcs of a sentence in the tree of one head's (word, word)."""
    kept = tree_words(sentence, covered(sentence))
    gold = as_tensors([(sentence, covered(sentence))])
    assert gold.words.tolist() == [kept]
    return arc_hits(words[kept][:, kept][None, None], gold).item()


def test_arcs_leave_punctuation_and_the_root_out():
    assert tree_words(CAT, covered(CAT)) == [0, 1, 2, 3]
    assert gold_arcs(CAT, covered(CAT)) == [(0, 2), (1, 2), (2, 3)]
    assert branching_hits(CAT, covered(CAT)) == 2
    assert gold_arcs(CAT, torch.tensor([True, False, True, True, True])) == [(0, 2), (2, 3)]


@pytest.mark.parametrize("sentence", EACH)
def test_a_head_that_looks_at_the_word_before_is_the_branching_baseline(sentence):
    """Among the words of the tree, for punctuation in between has no arc."""
    kept = tree_words(sentence, covered(sentence))
    n = len(sentence.words)
    words = torch.zeros(n, n)
    words[kept[1:], kept[:-1]] = 1.0
    assert found_arcs(words, sentence) == branching_hits(sentence, covered(sentence))


def word(form: str, start: int, end: int) -> Word:
    return Word(form, form, "X", -1, "dep", start, end)


def test_weight_to_a_word_is_summed_and_from_a_word_averaged():
    sentence = tree("walking/VERB/0/root home/ADV/1/advmod")
    tokens = [
        Token("[CLS]", 0, is_special=True),
        Token("walk", 1, 0, 4),
        Token("##ing", 2, 4, 7),
        Token("home", 3, 8, 12),
        Token("[SEP]", 4, is_special=True),
    ]
    pattern = torch.rand(2, 3, 5, 5).softmax(-1)
    words = align_words(tokens, sentence).between_words(pattern)
    to_home = pattern[:, :, 1:3, 3].mean(-1)
    to_walking = pattern[:, :, 3, 1] + pattern[:, :, 3, 2]
    close(words[:, :, 0, 1], to_home)
    close(words[:, :, 1, 0], to_walking)


def test_tokens_and_words_that_are_shared_or_cut_off():
    sentence = Sentence("dont", (word("do", 0, 2), word("nt", 2, 4)))
    shares = align_words([Token("don", 1, 0, 3), Token("t", 2, 3, 4)], sentence).shares
    close(shares, torch.tensor([[2 / 3, 0.0], [1 / 3, 1.0]]))
    sentence = Sentence("du", (word("de", 0, 2), word("le", 0, 2)))
    assert align_words([Token("du", 1, 0, 2)], sentence).shares.tolist() == [[0.5], [0.5]]
    sentence = tree("one/NUM/0/root two/NUM/1/dep")
    alignment = align_words([Token("one", 1, 0, 3)], sentence)
    assert alignment.covered.tolist() == [True, False]
    assert alignment.between_words(torch.ones(1, 1, 1)).tolist() == [[[1.0, 0.0], [0.0, 0.0]]]


@pytest.mark.parametrize("name", ["tiny-bert", "tiny-gpt2"])
def test_every_word_of_the_sample_is_covered_and_no_weight_is_lost(name):
    model = mv.load(name)
    for sentence in sample()[::12]:
        tokens = model.trace(sentence.text, keep=("pattern",)).tokens
        alignment = align_words(tokens, sentence)
        assert alignment.covered.all()
        special = torch.tensor([token.is_special for token in tokens])
        close(alignment.shares.sum(0), (~special).float())
