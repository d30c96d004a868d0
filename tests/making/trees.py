"""Sentences with trees, written in one line."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from mha_viz.core.record.fields import Token
from mha_viz.corpus.treebank.relations import TO_DEPENDENT, TO_HEAD
from mha_viz.corpus.treebank.trees import ROOT, Sentence, read_conllu, sample_lines


def tree(written: str) -> Sentence:
    """A sentence out of "form/UPOS/head/relation" for each word; heads count from 1, 0 is none."""
    return next(read_conllu(conllu(written).splitlines())).sentence


def conllu(written: str, *comments: str) -> str:
    """The same as a block of a CoNLL-U file, below some comments ("newdoc")."""
    rows = [f"# {comment}" for comment in comments]
    for number, word in enumerate(written.split(), start=1):
        form, upos, head, deprel, *misc = word.split("/")
        row = [str(number), form, form, upos, "_", "_", head, deprel, "_", *(misc or "_")]
        rows.append("\t".join(row))
    return "\n".join(rows) + "\n\n"


def document(*written: str) -> str:
    """Sentences as a document of a CoNLL-U file."""
    return "".join(conllu(one, *["newdoc"][i:]) for i, one in enumerate(written))


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


def plain_words(pattern: np.ndarray, tokens: Sequence[Token], sentence: Sentence) -> np.ndarray:
    """Weights between words, token by token, of one head."""
    words = np.zeros((len(sentence.words),) * 2)
    parts = [
        [
            (i, max(0, min(t.end, w.end) - max(t.start, w.start)))
            for i, t in enumerate(tokens)
            if not t.is_special
        ]
        for w in sentence.words
    ]
    length = {i: sum(dict(p)[i] for p in parts) for i, _ in parts[0]}
    shares = [{i: common / length[i] for i, common in p if common} for p in parts]
    for query, mine in enumerate(shares):
        for key, theirs in enumerate(shares):
            each = [a * sum(pattern[i, j] * b for j, b in theirs.items()) for i, a in mine.items()]
            words[query, key] = sum(each) / sum(mine.values())
    return words


def plain_relations(
    texts: Iterable[tuple[np.ndarray, Sequence[Token], Sentence]], *, causal: bool
) -> tuple[dict[tuple[str, ...], int], dict[tuple[str, ...], int]]:
    """Count how often one head's strongest other word was asked for, and right, arc by arc.

    Args:
        texts: pattern of the head, tokens and tree of each.
        causal: a question counts where the right word and another one stand before.
    """
    right: dict[tuple[tuple[str, ...], int, str], bool] = {}
    for pattern, tokens, sentence in texts:
        words = plain_words(pattern, tokens, sentence)
        for i, word in enumerate(sentence.words):
            if word.head == ROOT:
                continue
            for query, key, way in [(i, word.head, TO_HEAD), (word.head, i, TO_DEPENDENT)]:
                if causal and not key < query > 1:
                    continue
                others = [other for other in range(len(words)) if other != query]
                looked = max(others, key=lambda other: words[query, other])
                # a head with several such dependents is asked once
                place = ((sentence.half, word.deprel, way), query, sentence.text)
                right[place] = right.get(place, False) or looked == key
    n = Counter(name for name, *_ in right)
    return dict(n), {
        name: sum(hit for (own, *_), hit in right.items() if own == name) for name in n
    }
