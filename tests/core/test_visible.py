"""Masked cells are told from visible weights of 0."""

from dataclasses import replace

import numpy as np
import torch

import mha_viz as mv
from mha_viz.core.record.visible import visible_keys
from tests.core.records import visible_everywhere

FUTURE = torch.ones(4, 4, dtype=torch.bool).triu(1)


def made(pattern, **given):
    tokens = [f"t{i}" for i in range(pattern.shape[-1])]
    return mv.record(np.asarray(pattern, dtype=np.float32), tokens, **given)


def test_a_weight_of_zero_is_visible_and_the_future_is_not():
    identity = np.eye(4)[None, None].repeat(2, 1)
    causal, full = (made(identity, causal=causal) for causal in (True, False))
    assert torch.equal(visible_keys(causal, 0), ~FUTURE)
    assert visible_keys(full, -1).all()


def test_a_row_without_weight_sees_nothing_unless_it_was_taken_away():
    pattern = np.full((2, 2, 4, 4), 0.25)
    pattern[1, :, 2] = 0.0
    pattern[0, 0, 2] = 0.0  # in one head of two only: no mask does that
    seen = visible_everywhere(made(pattern, causal=False))
    assert seen[0].all() and not seen[1, 2].any() and seen[1, [0, 1, 3]].all()
    first = np.zeros((1, 1, 4, 4))
    first[..., 0] = 1.0  # every row rests on the first token
    rested = made(first, causal=True).without_first()
    assert torch.equal(visible_keys(rested, 0), torch.ones(3, 3, dtype=torch.bool).tril())


def test_a_key_with_weight_is_visible_whatever_is_claimed():
    pattern = np.full((1, 1, 4, 4), 0.25)
    assert visible_keys(made(pattern, causal=True), 0).all()


def test_a_window_is_what_the_record_says():
    band = ~(FUTURE | torch.ones(4, 4, dtype=torch.bool).tril(-2))
    pattern = np.zeros((2, 1, 4, 4))
    pattern[:, :, range(4), range(4)] = 1.0
    both = replace(made(pattern, causal=True), allowed=torch.stack([band, ~FUTURE]))
    assert torch.equal(visible_everywhere(both), torch.stack([band, ~FUTURE]))
