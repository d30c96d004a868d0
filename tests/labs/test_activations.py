"""A record's own run once more, and weights with a head of each kind for every query head."""

import torch

from mha_viz.engine.layer_activations import layer_activations
from mha_viz.learn.activations import MATRICES, record_activations, spread
from tests.making.families import build

TEXT, OTHER = "the cat sat on a mat and the cat ran on", "a mat sat on the cat"


def test_a_records_texts_and_part_are_run_again():
    model = build("t5")
    for part in model.parts:
        record = model.trace(TEXT, OTHER, part=part)
        found = record_activations(model, record, 1)
        again = layer_activations(model, TEXT, OTHER, layer=1, part=part)
        assert found.X.shape == (len(record.tokens), 23)
        assert found.Y.shape == (len(record.key_tokens), 23)
        for name in ("X", "Y", "output"):
            assert torch.equal(getattr(found, name), getattr(again, name))


def test_shared_key_and_value_heads_are_given_to_each_of_their_query_heads():
    given = build("llama").attention_weights(1)
    found = spread(given)
    for name in MATRICES:
        own, theirs = getattr(found, name), getattr(given, name)
        if theirs is None:
            assert own is None
        elif name in ("W_K", "W_V"):
            assert own.shape == (6, 30, 14) and len(theirs) == 3
            assert all(torch.equal(own[head], theirs[head // 2]) for head in range(6))
        else:
            assert torch.equal(own, theirs)
    assert found.scale == given.scale
