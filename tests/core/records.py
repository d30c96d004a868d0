"""A small record of two layers, and tokens for others."""

import torch

from mha_viz.core.record.attention_record import AttentionRecord, Token
from mha_viz.core.record.visible import visible_keys

LAYERS, HEADS, TOKENS, D_HEAD, D_KEY, D_MODEL, D_VALUE = 2, 3, 5, 7, 11, 13, 17


def tokens_of(*words: int | None, segments: tuple[int, ...] = ()) -> tuple[Token, ...]:
    """Tokens t0, t1 ... that belong to these words; None is a special token."""
    return tuple(
        Token(
            f"t{i}",
            10 + i,
            word=word,
            is_special=word is None,
            segment=segments[i] if segments else 0,
        )
        for i, word in enumerate(words)
    )


def visible_everywhere(record: AttentionRecord) -> torch.Tensor:
    """`visible_keys` of every layer."""
    return torch.stack([visible_keys(record, layer) for layer in range(record.n_layers)])


def make(**changes) -> AttentionRecord:
    """[CLS] wal ##king cats [SEP], every tensor kept."""
    generator = torch.Generator().manual_seed(7)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    fields = dict(
        pattern=draw(LAYERS, HEADS, TOKENS, TOKENS).softmax(-1),
        tokens=(
            Token("[CLS]", 2, is_special=True),
            Token("wal", 17, 0, 3, word=0),
            Token("king", 19, 3, 7, word=0),
            Token("cats", 23, 8, 12, word=1),
            Token("[SEP]", 3, is_special=True),
        ),
        z=draw(LAYERS, HEADS, TOKENS, D_HEAD),
        query=draw(LAYERS, HEADS, TOKENS, D_KEY),
        key=draw(LAYERS, HEADS, TOKENS, D_KEY),
        scale=(0.5, 0.25),
        W_O=tuple(draw(HEADS, D_HEAD, D_MODEL) for _ in range(LAYERS)),
        model="m",
        family="f",
        text="Walking cats",
        value=draw(LAYERS, HEADS, TOKENS, D_VALUE),
    )
    return AttentionRecord(**(fields | changes))
