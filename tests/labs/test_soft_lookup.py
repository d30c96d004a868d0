"""Lab 1: what it claims about scores, temperature and the square root of d_k."""

import math

import pytest
import torch

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


def test_what_the_answer_says_of_64():
    found = soft_lookup.score_spread()
    place = soft_lookup.WIDTHS.index(64)
    plain, scaled = found["confidence"]
    assert plain[place] > 0.8 and 0.2 < scaled[place] < 0.3
    # the wider the head, the less gradient comes through, unless scores are divided
    plain, scaled = found["gradient"]
    assert plain[-1] < 0.1 < 0.8 < scaled[-1]
