"""Made-up attention, for the tests of what draws it."""

import numpy as np

from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.core.record.fields import Token
from mha_viz.text.from_weights import record

WORDS = (
    "[CLS] The cat sat on the mat because it was <b>warm</b> . [SEP] السلام عليكم "
    "👍🏽 naïve 東京 $x$ <script>alert(1)</script> antidisestablishmentarianism"
).split()


def made_up(layers: int, heads: int, queries: int, keys: int) -> np.ndarray:
    """Heads of the well-known kinds, each with noise: previous, next, self, first, block, broad."""
    rng = np.random.default_rng(7)
    q = np.arange(queries)[:, None]
    k = np.arange(keys)[None, :]
    kinds = [
        -np.abs(k - q + 1) * 3.0,
        -np.abs(k - q - 1) * 3.0,
        -np.abs(k - q) * 2.5,
        np.where(k == 0, 5.0, 0.0) + 0 * q,
        np.where(k // 6 == q // 6, 2.5, 0.0),
        np.zeros((queries, keys)),
        -np.abs(k - q) * 0.25,
        np.where(k % 5 == q % 5, 2.0, 0.0),
    ]
    scores = np.stack(
        [
            np.stack(
                [
                    kinds[(3 * h + 5 * layer) % len(kinds)] * rng.uniform(0.6, 1.4)
                    + rng.normal(0, 0.7, (queries, keys))
                    for h in range(heads)
                ]
            )
            for layer in range(layers)
        ]
    )
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


def entropy_of(pattern: np.ndarray) -> np.ndarray:
    return -(pattern * np.log(np.maximum(pattern, 1e-30))).sum(-1).mean(-1)


def attention(layers: int, heads: int, queries: int, keys: int) -> AttentionRecord:
    return record(
        made_up(layers, heads, queries, keys),
        [_token(i, queries) for i in range(queries)],
        [_token(i, keys) for i in range(keys)] if keys != queries else (),
        model="made-up attention",
    )


def _token(i: int, count: int) -> Token:
    word = WORDS[i % len(WORDS)]
    return Token(word, i, is_special=word.startswith("["), segment=int(i > count // 2))
