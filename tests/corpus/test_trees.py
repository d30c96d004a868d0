"""CoNLL-U is read as it stands, and what is broken is skipped with its place."""

import pytest

from mha_viz.corpus.treebank import trees
from mha_viz.corpus.treebank.mentions import Mention, read_mentions
from mha_viz.corpus.treebank.trees import read_conllu, sample_lines


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


def test_text_and_offsets_follow_the_spaces():
    [(text, place, sentence, _)], faults = read(*GOOD)
    assert (text, place, faults) == ("It rains.", "a.conllu:1", [])
    assert [text[word.start : word.end] for word in sentence.words] == ["It", "rains", "."]
    assert [word.head for word in sentence.words] == [1, trees.ROOT, 1]


def test_parts_of_a_multi_word_token_have_their_own_letters():
    rows = ["1-2 Don't _ _ _ SpaceAfter=No", "1 Do AUX 0 root", "2 n't PART 1 advmod"]
    [found], _ = read(*rows, "3 ! PUNCT 1 punct")
    assert found.text == "Don't!"
    assert [(w.start, w.end) for w in found.sentence.words] == [(0, 2), (2, 5), (5, 6)]


def test_empty_nodes_are_no_words():
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
    assert [one.place for one in found] == ["a.conllu:1", f"a.conllu:{6 + len(rows)}"]
    [(place, said)] = faults
    assert place == "a.conllu:5" and reason in said


def test_lines_that_are_no_table_are_skipped():
    faults = []
    assert not list(read_conllu(["Once upon a time\n"], "b", lambda *f: faults.append(f)))
    assert not list(read_conllu(["1\tword"], "b", lambda *f: faults.append(f)))
    assert [place for place, _ in faults] == ["b:1", "b:1"]


def test_what_is_too_large_is_skipped_and_never_held(monkeypatch):
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
