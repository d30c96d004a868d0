"""Which head a text opens on, by scores made by hand."""

import numpy as np
import pytest
import torch

from mha_viz.core.metrics import METRICS
from mha_viz.reports.informative_head import PLACES, most_informative_head

TOLD = np.array([[0.2, 1.0, 0.9], [0.8, 0.1, 0.3]])


def test_the_head_that_tells_most_is_taken_where_none_looks_at_places():
    assert most_informative_head({"mutual_information": TOLD}) == (0, 1)
    assert most_informative_head({"mutual_information": torch.tensor(TOLD)}) == (0, 1)


@pytest.mark.parametrize("place", PLACES)
def test_a_head_that_looks_at_places_tells_less_of_the_words(place):
    fixed = np.zeros_like(TOLD)
    fixed[0, 1] = 0.5  # 1.0 becomes 0.5
    assert most_informative_head({"mutual_information": TOLD, place: fixed}) == (0, 2)
    assert place in METRICS


def test_what_is_not_defined_is_neither_told_nor_fixed():
    unknown = np.full_like(TOLD, np.nan)
    told = TOLD.copy()
    told[0, 1] = np.nan
    assert most_informative_head({"mutual_information": told, "special_token": unknown}) == (0, 2)


@pytest.mark.parametrize(
    "scores", [{}, {"entropy": TOLD}, {"mutual_information": np.full((2, 3), np.nan)}]
)
def test_where_nothing_tells_heads_apart_it_is_the_first(scores):
    assert most_informative_head(scores) == (0, 0)
