"""Attention from one text of a pair to the other."""

import pytest
import torch

import mha_viz as mv
from mha_viz.core.record.views import between
from tests.making.comparing import close


@pytest.mark.parametrize(("looks", "looked"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_the_weights_of_these_tokens_are_left_as_they_are(looks, looked):
    record = mv.load("tiny-bert").trace("The cat sat.", "It was tired of it.")
    part = between(record, looks, looked)
    rows = [i for i, token in enumerate(record.tokens) if token.segment == looks]
    columns = [i for i, token in enumerate(record.tokens) if token.segment == looked]
    assert torch.equal(part.pattern, record.pattern[:, :, rows][..., columns])
    assert [token.text for token in part.tokens] == [record.tokens[i].text for i in rows]
    gone = 1 - part.pattern.sum(-1)
    close(part.removed, gone)
