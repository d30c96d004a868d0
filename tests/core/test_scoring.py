"""The keys that queries may see, as a rule and cell by cell."""

from itertools import product

import torch

from mha_viz.core.attention.scoring import Sight


def test_the_queries_that_see_any_key_are_those_of_a_row_with_any():
    dice = torch.Generator().manual_seed(7)
    sights = [Sight(*band) for band in product((None, -2, 0, 3), (None, -2, 0, 3))]
    mask = torch.rand(7, 5, generator=dice) > 0.7
    for sight, shape in [*product(sights, ((7, 5), (5, 7), (1, 1))), (Sight(mask=mask), (7, 5))]:
        expected = sight.visible_keys(slice(None), *shape).any(-1)
        assert torch.equal(sight.sees_any(*shape), expected), (sight, shape)
    assert not mask.any(-1).all() and mask.any()
