"""Sentences with trees, written in one line."""

import torch
from torch import Tensor

from mha_viz.core.token import Token
from mha_viz.corpus.trees import Sentence, read_conllu, sample_lines


def tree(written: str) -> Sentence:
    """A sentence out of "form/UPOS/head/relation" for each word; heads count from 1, 0 is none."""
    rows = []
    for number, word in enumerate(written.split(), start=1):
        form, upos, head, deprel, *misc = word.split("/")
        rows.append([str(number), form, form, upos, "_", "_", head, deprel, "_", *(misc or "_")])
    return next(read_conllu("\t".join(row) for row in rows)).sentence


def sample() -> list[Sentence]:
    """The sentences of the shipped treebank."""
    return [found.sentence for found in read_conllu(sample_lines())]


def word_tokens(sentence: Sentence) -> tuple[Token, ...]:
    """One token for each word, between two special ones."""
    edge = Token("[EDGE]", 0, is_special=True)
    words = [Token(w.form, i, w.start, w.end, word=i) for i, w in enumerate(sentence.words)]
    return edge, *words, edge


def looking_at(keys: list[int], n: int) -> Tensor:
    """(token, token): each word looks at one key, 0.6; half of the rest is for itself.

    Args:
        keys: for each word the number of another; -1 for the special token at the end.
        n: number of words.
    """
    pattern = torch.zeros(n + 2, n + 2)
    pattern[:, 0] = 0.4
    for word, key in enumerate(keys):
        pattern[word + 1, key + 1 if key >= 0 else n + 1] += 0.6
        pattern[word + 1, [0, word + 1]] -= torch.tensor([0.2, -0.2])
    pattern[[0, n + 1], 0] = 1.0
    return pattern
