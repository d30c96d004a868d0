"""Sentences of documents joined to texts: what is joined, what is asked, counted by hand."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle, islice
from typing import Any

import pytest
import torch

from mha_viz.corpus.sources import documents
from mha_viz.corpus.sources.documents import join_documents, join_sentences
from mha_viz.corpus.sources.reading import Passage
from mha_viz.corpus.treebank.relations import ALL
from mha_viz.corpus.treebank.trees import Sentence, read_conllu, sample_lines
from mha_viz.errors import SourceError
from mha_viz.text.encoding import encode_texts
from tests.corpus.tree_tables import tree_tables
from tests.making.trees import document, looking_at, plain_relations, sample, tree, word_tokens

MET = "Ann/PROPN/2/nsubj/Entity=(e1) met/VERB/0/root Eve/PROPN/2/obj/Entity=(e2)"
WAVED = "She/PRON/2/nsubj/Entity=(e1) waved/VERB/0/root"
SAW = "Eve/PROPN/2/nsubj/Entity=(e2) saw/VERB/0/root her/PRON/2/obj/Entity=(e1)"
STORY = [tree(MET), tree(WAVED), tree(SAW)]
#         Ann 0 met 1 Eve 2 | She 3 waved 4 | Eve 5 saw 6 her 7
OTHER = "Ann/PROPN/2/nsubj/Entity=(e1) slept/VERB/0/root"


def passages(written: str) -> list[Passage]:
    found = read_conllu(written.splitlines(), "a.conllu")
    return [Passage(one.location, one.text, one.sentence, one.document) for one in found]


def sample_passages() -> list[Passage]:
    return passages("\n".join(sample_lines()))


def test_a_joined_text_is_its_sentences_with_their_trees() -> None:
    text = join_sentences(STORY, "Ann met Eve")
    assert text.text == "Ann met Eve She waved Eve saw her"
    assert [text.text[w.start : w.end] for w in text.words] == [w.form for w in text.words]
    assert [word.head for word in text.words] == [1, -1, 1, 4, -1, 6, -1, 6]
    assert [(m.entity, m.head) for m in text.mentions] == [
        *[("e1", 0), ("e2", 2), ("e1", 3), ("e2", 5), ("e1", 7)]
    ]
    assert [(words.start, words.stop) for words, _ in text.parts] == [(0, 3), (3, 5), (5, 8)]


def test_antecedents_in_earlier_sentences_counted_by_hand() -> None:
    """Three mentions have one: She (Ann), Eve (Eve), her (Ann and She)."""
    text = join_sentences(STORY, "Ann met Eve")
    finds = looking_at([2, 0, 0, 0, 3, 2, 5, 5], 8)  # She: Ann; Eve: Eve; her: the wrong Eve
    back = looking_at([-1, 0, 1, 2, 3, 4, 5, 6], 8)  # the word before, which is one for She: Eve
    pattern = torch.stack([finds, back])[None]
    counted = tree_tables([(0, pattern, word_tokens(text), text)], causal=False)["coreference"]
    rows = counted.to_pandas().set_index("head")
    assert rows.n.tolist() == [3, 3] and rows.hits.tolist() == [2, 0]
    assert rows.nearest_hits.tolist() == [0, 0]  # before She stands Eve, before Eve She, and so on
    assert rows.same_word_hits.tolist() == [1, 1]  # Eve


@pytest.mark.parametrize("causal", [False, True])
def test_trees_are_asked_within_their_sentences_whatever_the_rest_of_the_text_gets(
    causal: bool,
) -> None:
    """Each word gives most of its weight to another sentence; of its own, to random words."""
    sentences = sample()[:6]
    text = join_sentences(sentences, sentences[0].text)
    n = len(text.words)
    torch.manual_seed(0)
    pattern = torch.rand(1, 1, n + 2, n + 2)
    own = torch.zeros(n + 2, n + 2, dtype=torch.bool)
    for words, _ in text.parts:
        own[words.start + 1 : words.stop + 1, words.start + 1 : words.stop + 1] = True
    pattern = torch.where(own, pattern * 0.01, pattern + 1)
    tables = tree_tables([(0, pattern, word_tokens(text), text)], causal=causal)
    singly = [
        (i, _block(pattern, words), word_tokens(sentence), sentence)
        for i, ((words, _), sentence) in enumerate(zip(text.parts, sentences, strict=True))
    ]
    rows = tables["relations"].to_pandas()
    found = rows[rows.relation != ALL].set_index(["relation", "direction"])
    n_asked, hits = plain_relations(
        [
            (block[0, 0].numpy(), tokens, replace(one, opening=text.opening))
            for _, block, tokens, one in singly
        ],
        causal=causal,
    )
    assert found.n.to_dict() == {key[1:]: n for key, n in n_asked.items()}
    assert found.hits.to_dict() == {key[1:]: n for key, n in hits.items()}
    expected = tree_tables(singly, causal=causal)
    for name, keys, sums in (
        ("parses", ["layer"], ["n_arcs", "hits", "branching_hits"]),
        ("relation_offsets", ["relation", "direction", "offset"], ["n", "hits"]),
        ("parts_of_speech", ["from_upos", "to_upos"], ["weight", "expected"]),
    ):
        ours, theirs = (
            one[name].to_pandas().groupby(keys)[sums].sum() for one in (tables, expected)
        )
        both = ours.join(theirs.add_suffix("_singly"), how="outer").fillna(0)
        for column in sums:
            assert both[column].tolist() == pytest.approx(both[f"{column}_singly"].tolist())


def _block(pattern: torch.Tensor, words: slice) -> torch.Tensor:
    """The pattern of a sentence alone, between the special tokens."""
    at = [0, *range(words.start + 1, words.stop + 1), pattern.shape[-1] - 1]
    return pattern[..., at, :][..., at]


def test_documents_are_joined_as_long_as_they_fit_and_never_across(bert: Any) -> None:
    every = sample_passages()
    reader, rest = replace(bert.reader, n_ctx=40), iter(every)
    joined = list(join_documents(every, reader))
    for text, after in zip(joined, [*joined[1:], None], strict=True):
        members = [next(rest) for _ in text.sentence.parts]
        assert text.text == " ".join(member.text for member in members)
        assert {member.document for member in members} == {text.document}
        assert encode_texts(reader, text.text)[0].n_truncated == 0
        if after is not None:
            assert after.continues == (text.document == after.document)
        if after is not None and after.continues:  # its first sentence had no room
            first = after.text[: after.sentence.parts[0][1].words[-1].end]
            assert encode_texts(reader, f"{text.text} {first}")[0].n_truncated > 0
    assert next(rest, None) is None and sum(text.continues for text in joined) > 7


def test_all_texts_of_a_document_are_on_one_half(bert: Any) -> None:
    found = list(join_documents(sample_passages(), replace(bert.reader, n_ctx=24)))
    of_document: dict[int, set[str]] = {}
    for one in found:
        assert one.sentence is not None
        of_document.setdefault(one.document, set()).add(one.sentence.half)
    assert all(len(halves) == 1 for halves in of_document.values())
    assert len({half for halves in of_document.values() for half in halves}) == 2


def test_what_a_cut_took_the_antecedent_of_is_counted(bert: Any) -> None:
    """Two sentences fit: Ann, Eve, She | Eve, her: both of the second text had antecedents."""
    reader = replace(bert.reader, n_ctx=2 + sum(_size(bert, one) for one in STORY[:2]))
    first, second, other = join_documents(
        passages(document(MET, WAVED, SAW) + document(OTHER)), reader
    )
    assert (first.text, second.text) == ("Ann met Eve She waved", "Eve saw her")
    assert [one.continues for one in (first, second, other)] == [False, True, False]
    assert [one.n_lost for one in (first, second, other)] == [0, 2, 0]  # another document's e1


def _size(bert: Any, sentence: Sentence) -> int:
    return len(encode_texts(bert.reader, sentence.text)[0].tokens) - 2


def test_a_document_begins_where_its_first_sentence_is_broken_and_ends_at_the_next(
    bert: Any,
) -> None:
    broken = "a/X/9/dep"
    text = document(MET) + document(broken, WAVED) + "# newdoc\n\n" + document(SAW)
    found = list(join_documents(passages(text), bert.reader))
    assert [one.text for one in found] == ["Ann met Eve", "She waved", "Eve saw her"]
    assert not any(one.continues or one.n_lost for one in found)


def test_a_document_that_never_ends_is_read_as_it_comes(
    bert: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "_MAX_NAMES", 3)
    taken = 0

    def endless() -> Iterator[Passage]:
        nonlocal taken
        for one in cycle(passages(document(MET, WAVED, SAW))):
            taken += 1
            yield one

    found = list(islice(join_documents(endless(), bert.reader), 5))
    assert sum(len(one.sentence.parts) for one in found if one.sentence) == taken - 1
    names = documents._SeenEntities()
    for number in range(9):
        names.add(tree(f"a/X/0/root/Entity=(e{number})").mentions)
    assert len(names._names) == 3
    assert names.lost(tree("a/X/0/root/Entity=(e8)").mentions) == 1
    assert names.lost(tree("a/X/0/root/Entity=(e0)").mentions) == 0


def test_what_was_read_of_a_damaged_file_is_not_lost(bert: Any) -> None:
    def damaged() -> Iterator[Passage]:
        yield from passages(document(MET, WAVED))
        raise SourceError("The file ends too soon.")

    coming = join_documents(damaged(), bert.reader)
    assert next(coming).text == "Ann met Eve She waved"
    with pytest.raises(SourceError, match="too soon"):
        next(coming)
