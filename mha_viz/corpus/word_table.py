"""The words of a treebank's sentences as rows of a table, and a sentence out of its rows again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pyarrow as pa

from mha_viz.corpus.alignment import Alignment
from mha_viz.corpus.trees import Sentence, Word

SCHEMA = pa.schema(
    [
        ("text_id", pa.int64()),
        ("word", pa.int32()),
        ("form", pa.string()),
        ("lemma", pa.string()),
        ("upos", pa.string()),
        ("head", pa.int32()),
        ("relation", pa.string()),
        ("start", pa.int32()),
        ("stop", pa.int32()),
        ("tokens", pa.list_(pa.int32())),
    ]
)


def word_rows(
    text_id: int, tokens_of: Sequence[Sequence[int]], sentence: Sentence
) -> list[dict[str, Any]]:
    """A row for each word, with its place in the tree and among the model's tokens.

    Args:
        text_id: the number of the sentence in the study.
        tokens_of: of each word the tokens that spell it, as `tokens_of_words` finds them.
        sentence: with its tree.
    """
    return [
        dict(text_id=text_id, word=number, form=word.form, lemma=word.lemma, upos=word.upos)
        | dict(head=word.head, relation=word.deprel, start=word.start, stop=word.end)
        | dict(tokens=list(tokens))
        for number, (word, tokens) in enumerate(zip(sentence.words, tokens_of, strict=True))
    ]


def tokens_of_words(alignment: Alignment) -> list[list[int]]:
    """Of each word the tokens that it is spelled with, wholly or in part.

    Args:
        alignment: of a sentence's tokens to its words.
    """
    found: list[list[int]] = [[] for _ in alignment.shares]
    for word, token in alignment.shares.nonzero().tolist():
        found[word].append(token)
    return found


def sentence_of(text: str, words: pd.DataFrame) -> Sentence:
    """A sentence with its tree, or several joined; without what is talked about in it.

    Args:
        text: as the model read it.
        words: the rows of its words, in their order.
    """
    fields = ("form", "lemma", "upos", "head", "relation", "start", "stop")
    columns = [words[name].tolist() for name in fields]
    return Sentence(text, tuple(Word(*row) for row in zip(*columns, strict=True)))
