"""Lab 1: what it claims about scores, temperature and the square root of d_k."""

import math

import pytest
import torch

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.learn.labs.soft_lookup import numbers as soft_lookup
from tests.making.comparing import close


def test_lookup_is_softmax_of_scaled_dots_times_values():
    query, key, value = soft_lookup.example(5, 3, seed=7)
    found = soft_lookup.lookup(query, key, value, temperature=0.7)
    dots = torch.einsum("qd,kd->qk", query, key)
    pattern = torch.softmax(dots / (0.7 * math.sqrt(3)), dim=-1)
    close(found.dots, dots)
    close(found.pattern, pattern)
    close(found.output, pattern @ value)
    close(found.scores, found.dots * found.scale)


def test_the_variance_of_scores_is_d_k_and_one_after_the_division():
    widths = [4, 16, 64, 256]
    found = soft_lookup.score_spread(widths, n_keys=512, n_queries=1024, seed=1)
    variance, scaled = found["variance"]
    assert variance == pytest.approx(widths, rel=0.15)
    assert scaled == pytest.approx([1.0] * 4, rel=0.15)


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan, math.inf])
def test_a_temperature_that_is_none(temperature):
    with pytest.raises(ArgumentError, match="temperature"):
        soft_lookup.lookup(*soft_lookup.example(3, 2), temperature=temperature)


def test_sizes_that_the_lab_does_not_take():
    for n, d_k in ((2, 4), (9, 4), (4, 0), (4, 9)):
        with pytest.raises(ArgumentError, match="3 to 8 tokens"):
            soft_lookup.example(n, d_k)
    with pytest.raises(ArgumentError):
        soft_lookup.score_spread([])
    with pytest.raises(ArgumentError):
        soft_lookup.score_spread([4], n_keys=1)
    with pytest.raises(ShapeError):
        soft_lookup.lookup(torch.ones(3), torch.ones(3), torch.ones(3))


def test_what_the_answer_says_of_64():
    found = soft_lookup.score_spread()
    place = soft_lookup.WIDTHS.index(64)
    plain, scaled = found["confidence"]
    assert plain[place] > 0.8 and 0.2 < scaled[place] < 0.3
    # the wider the head, the less gradient comes through, unless scores are divided
    plain, scaled = found["gradient"]
    assert plain[-1] < 0.1 < 0.8 < scaled[-1]
