"""Squared norms of many products, by tiles and by the products themselves."""

import pytest
import torch

from mha_viz.circuits.products import _by_products, _by_tiles, all_squared_norms


def test_both_ways_give_what_products_give() -> None:
    rng = torch.Generator().manual_seed(3)
    for m, n, j, k, d in [(5, 3, 7, 2, 37), (1, 1, 1, 1, 1), (2, 11, 3, 3, 61)]:
        left = torch.randn(m, j, d, generator=rng, dtype=torch.float64)
        right = torch.randn(n, d, k, generator=rng, dtype=torch.float64)
        expected = torch.einsum("mjd,ndk->mnjk", left, right).square().sum((2, 3))
        for way in (_by_products, _by_tiles, all_squared_norms):
            torch.testing.assert_close(way(left, right), expected, rtol=1e-12, atol=0)


def test_tiles_and_parts_that_do_not_divide_the_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mha_viz.circuits.products._CELLS", 1)  # the smallest tiles and parts
    rng = torch.Generator().manual_seed(5)
    left = torch.randn(3, 5, 41, generator=rng, dtype=torch.float64)
    right = torch.randn(7, 41, 2, generator=rng, dtype=torch.float64)
    expected = torch.einsum("mjd,ndk->mnjk", left, right).square().sum((2, 3))
    torch.testing.assert_close(_by_tiles(left, right), expected, rtol=1e-12, atol=0)
    torch.testing.assert_close(_by_products(left, right), expected, rtol=1e-12, atol=0)
