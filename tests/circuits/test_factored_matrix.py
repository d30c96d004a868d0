"""Factored matrices, and squared norms of many products by tiles and by the products themselves."""

import pytest
import torch

from mha_viz.circuits.composition import pair_products
from mha_viz.circuits.composition.factored_matrix import FactoredMatrix
from mha_viz.circuits.composition.pair_products import (
    _by_products,
    _by_tiles,
    later_squared_norms,
)


def expected_squares(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return torch.einsum("mjd,ndk->mnjk", left, right).square().sum((2, 3))


def test_both_ways_give_what_products_give() -> None:
    rng = torch.Generator().manual_seed(3)
    for m, n, j, k, d in [(5, 3, 7, 2, 37), (1, 1, 1, 1, 1), (2, 11, 3, 3, 61)]:
        left = torch.randn(m, j, d, generator=rng, dtype=torch.float64)
        right = torch.randn(n, d, k, generator=rng, dtype=torch.float64)
        for way in (_by_products, _by_tiles):
            found = way(left, right)
            torch.testing.assert_close(found, expected_squares(left, right), rtol=1e-12, atol=0)


@pytest.mark.parametrize("k", [1, 19])  # few multiplications by the products, and by tiles
def test_pairs_of_later_layers_are_what_products_give(k: int) -> None:
    rng = torch.Generator().manual_seed(11)
    n_layers, n_heads, d = 7, 3, 23
    left = torch.randn(n_layers * n_heads, k, d, generator=rng, dtype=torch.float64)
    right = torch.randn(n_layers * n_heads, d, k, generator=rng, dtype=torch.float64)
    layer = torch.arange(n_layers * n_heads) // n_heads
    later = layer[:, None] <= layer  # those on the right begin one layer above
    found = later_squared_norms(left, right, n_heads)[later]
    torch.testing.assert_close(found, expected_squares(left, right)[later], rtol=1e-12, atol=0)


def test_tiles_and_parts_that_do_not_divide_the_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_products, "_CELLS", 1)  # the smallest tiles and parts
    rng = torch.Generator().manual_seed(5)
    left = torch.randn(3, 5, 41, generator=rng, dtype=torch.float64)
    right = torch.randn(7, 41, 2, generator=rng, dtype=torch.float64)
    expected = expected_squares(left, right)
    torch.testing.assert_close(_by_tiles(left, right), expected, rtol=1e-12, atol=0)
    torch.testing.assert_close(_by_products(left, right), expected, rtol=1e-12, atol=0)


def test_factored_matrix_has_the_columns_and_eigenvalues_of_its_product() -> None:
    rng = torch.Generator().manual_seed(7)
    A = torch.randn(2, 9, 3, generator=rng, dtype=torch.float64)
    B = torch.randn(2, 3, 9, generator=rng, dtype=torch.float64)
    matrix = FactoredMatrix(A, B)
    for one, product in ((matrix, A @ B), (matrix.T, (A @ B).mT)):
        unit = product / torch.linalg.matrix_norm(product, keepdim=True)
        factor = one.column_factor
        torch.testing.assert_close(factor @ factor.mT, unit @ unit.mT)
        expected = torch.linalg.eigvals(product).abs().sort(descending=True).values[:, :3]
        torch.testing.assert_close(one.eigenvalues.abs().sort(descending=True).values, expected)
    assert FactoredMatrix(A, 0 * B).column_factor.isnan().all()
