"""Two heads beside each other: the formulas in loops over pairs, and at their edges."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from mha_viz.core.metrics import output_pairs, pairs
from tests.core import patterns
from tests.core.formulas import cka, hellinger, jensen_shannon
from tests.making.comparing import ROUNDING, close

LAYERS, HEADS, N, KEYS, D_HEAD = 3, 5, 11, 7, 13
ALL = LAYERS * HEADS
OF_PATTERN = (pairs.hellinger, pairs.jensen_shannon)
OF_Z = (
    *(output_pairs.correlation, output_pairs.redundancy),
    *(output_pairs.cka, output_pairs.cka_biased),
)


def random_pattern(query: int = N, key: int = KEYS, seed: int = 13) -> Tensor:
    return patterns.random_pattern(query, key, seed=seed, layers=LAYERS, heads=HEADS)


def random_z(query: int = N, d_head: int = D_HEAD) -> Tensor:
    return patterns.random_z(query, d_head, LAYERS, HEADS)


def looped(heads: Tensor, formula: Callable[[np.ndarray, np.ndarray], float]) -> Tensor:
    every = heads.double().flatten(0, 1).numpy()
    return torch.tensor([[formula(a, b) for b in every] for a in every], dtype=torch.float64)


def inputs(function: Callable[..., Tensor]) -> Tensor:
    return random_pattern() if function in OF_PATTERN else random_z()


# -- each against its definition ---------------------------------------------------------------


@pytest.mark.parametrize(("query", "key"), [(11, 7), (1, 13), (5, 1), (17, 17)])
def test_pattern_distances_against_their_formulas(query: int, key: int) -> None:
    pattern = random_pattern(query, key)
    wide = pattern.double() / pattern.double().sum(-1, keepdim=True)
    for given, atol in ((pattern, ROUNDING), (wide, 1e-9)):
        close(pairs.hellinger(given) ** 2, looped(wide, hellinger) ** 2, atol, rtol=0)
        close(pairs.jensen_shannon(given), looped(wide, jensen_shannon), atol, rtol=0)


@pytest.mark.parametrize(("query", "d_head"), [(11, 13), (13, 3), (4, 7), (5, 1), (17, 101)])
def test_cka_against_the_unbiased_estimator_written_out(query: int, d_head: int) -> None:
    z = random_z(query, d_head)
    close(output_pairs.cka(z), looped(z, cka), atol=2e-5)
    close(output_pairs.cka(z.double()), looped(z, cka), atol=1e-9, rtol=0)


@pytest.mark.parametrize("query", [1, 2, 3])
def test_cka_needs_four_tokens(query: int) -> None:
    assert output_pairs.cka(random_z(query)).isnan().all()
    assert output_pairs.cka(random_z(output_pairs.LEAST_TOKENS)).isfinite().all()


def test_a_head_whose_tokens_are_all_equally_unlike_has_no_cka() -> None:
    z = random_z(7, 7)
    z[0, 1] = torch.eye(7)  # what is left of K off its diagonal is one number
    got = output_pairs.cka(z)
    assert got[1].isnan().all() and got[0, 2:].isfinite().all()


@pytest.mark.parametrize("value", [0.0, 0.1, -3.0])
@pytest.mark.parametrize("function", OF_Z)
def test_a_constant_head_has_no_likeness_that_is_defined(
    function: Callable[..., Tensor], value: float
) -> None:
    z = random_z(101)
    z[1, 2] = value
    matrix, at = function(z), HEADS + 2
    others = [i for i in range(ALL) if i != at]
    assert matrix[others][:, others].isfinite().all()
    if function is output_pairs.redundancy and value != 0:  # which is not centred
        assert matrix.isfinite().all()
    else:
        assert matrix[at].isnan().all() and matrix[:, at].isnan().all()


@pytest.mark.parametrize(
    "function", [output_pairs.correlation, output_pairs.cka, output_pairs.cka_biased]
)
def test_a_head_that_differs_by_rounding_alone_has_no_likeness(
    function: Callable[..., Tensor],
) -> None:
    z = random_z()
    z[1, 2] = 9.0 + 1e-6 * torch.randn(z.shape[-2:])
    z[0, 1] = 9.0 + 1e-4 * torch.randn(z.shape[-2:])
    got, place = function(z), HEADS + 2
    others = torch.arange(len(got)) != place
    assert got[place].isnan().all() and got[others][:, others].isfinite().all()
    close(got[others][:, others], function(z.double())[others][:, others], atol=2e-2)


@pytest.mark.parametrize("function", OF_Z)
def test_larger_outputs_keep_their_accuracy(function: Callable[..., Tensor]) -> None:
    z = torch.randn(1, 5, 257, 64) * torch.rand(64) + 10  # which must not cancel
    z[0, 3] = z[0, 1] + 1e-3 * torch.randn(257, 64)  # nearly the same head
    z[0, 4] = z[0, 1]
    got = function(z)
    close(got, function(z.double()))
    close(got[1, 4], 1.0)


# -- what must hold for any input --------------------------------------------------------------


@pytest.mark.parametrize("function", OF_PATTERN + OF_Z)
def test_symmetric_with_an_exact_diagonal_and_layers_before_heads(
    function: Callable[..., Tensor],
) -> None:
    given = inputs(function)
    matrix = function(given)
    assert matrix.shape == (ALL, ALL) and torch.equal(matrix, matrix.T)
    assert (matrix.diagonal() == (0 if function in OF_PATTERN else 1)).all()
    pair = torch.stack([given[2, 3], given[0, 4]])[None]
    close(function(pair)[0, 1], matrix[2 * HEADS + 3, 4])


@pytest.mark.parametrize("function", OF_PATTERN + OF_Z)
def test_blocks_do_not_change_the_result(
    function: Callable[..., Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = inputs(function)
    whole = function(given)
    for size in (1, 3, 22, 33, 10**6):
        monkeypatch.setattr(pairs, "BLOCK", size)
        monkeypatch.setattr(pairs, "STRIP", size % 10 + 1)
        monkeypatch.setattr(output_pairs, "BLOCK_ROWS", size)
        close(function(given), whole)


@pytest.mark.parametrize("function", OF_PATTERN + OF_Z)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_half_precision_is_added_up_in_float32(
    function: Callable[..., Tensor], dtype: torch.dtype
) -> None:
    given = inputs(function).to(dtype)
    got = function(given)
    assert got.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    want = function(given.double())  # the same numbers: nothing more may be lost
    close(got.double() ** 2, want**2)
    assert (got.diagonal() == (0 if function in OF_PATTERN else 1)).all()


# -- the edges ---------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [[2], [0, 10], list(range(N))])
def test_rows_of_zeros_look_nowhere(rows: list[int]) -> None:
    pattern = random_pattern()
    pattern[0, 1, rows] = 0.0
    pattern[2, 4, rows] = 0.0
    nowhere = (1 - pattern.sum(-1, keepdim=True)).round()
    extended = torch.cat([pattern, nowhere], dim=-1)  # the same with a key more, rows full
    close(pairs.hellinger(pattern) ** 2, looped(extended, hellinger) ** 2)
    close(pairs.jensen_shannon(pattern), looped(extended, jensen_shannon))
    if len(rows) == N:
        both = (1, 2 * HEADS + 4)
        close(pairs.hellinger(pattern)[both], 0.0)
        close(pairs.jensen_shannon(pattern)[both], 0.0)
        close(pairs.hellinger(pattern)[1, 3], 1.0)
        close(pairs.jensen_shannon(pattern)[1, 3], math.log(2))


def test_a_row_of_zeros_is_seen_beside_rows_that_sum_to_a_little_more_than_1() -> None:
    n = 251
    pattern = torch.full((1, 2, n, n), 1.004 / n)  # what half precision may sum to
    pattern[0, 1, 0] = 0.0  # alone it lacks less than all the others have too much
    far = pairs.hellinger(pattern)[0, 1]
    assert float(far) == pytest.approx(math.sqrt((1.004 + 1) / 2 / n), rel=1e-3)


def test_rows_that_lost_mass_are_told_apart_by_what_is_left() -> None:
    pattern = torch.tensor([[[[0.5, 0.0]], [[0.5, 0.0]], [[0.0, 0.5]], [[0.5, 0.5]]]])
    want = torch.tensor([0.0, 0.0, 1 - 0.5, 1 - 0.5])  # half on "nowhere", in common with all but
    close(pairs.hellinger(pattern)[0] ** 2, want)  # the last, with which half the mass meets half
    pattern = random_pattern()
    pattern[1] = pattern[0] * 0.996  # as bfloat16 may leave them
    assert pairs.hellinger(pattern).diagonal(HEADS)[:HEADS].max() < 3e-3
    assert pairs.jensen_shannon(pattern).diagonal(HEADS)[:HEADS].max() < 1e-5


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("at", [((0, 1), (1, 2)), ((0, 1), (0, 2)), ((1, 4), (2, 0))])
def test_the_same_weights_are_no_distance_apart(seed: int, at: tuple[tuple[int, int], ...]) -> None:
    pattern = random_pattern(query=23, key=23, seed=seed)
    first, second = at  # far from each other or neighbours, in a layer and across two
    place = tuple(layer * HEADS + head for layer, head in at)
    pattern[second] = pattern[first]
    assert pairs.hellinger(pattern)[place] < 1e-7
    pattern[second] = 0.9999 * pattern[first] + 0.0001 / 23
    root = pattern.double().sqrt()
    want = ((root[second] - root[first]).square().sum() / 2 / 23).sqrt()
    assert float(pairs.hellinger(pattern)[place]) == pytest.approx(float(want), rel=1e-3)


def test_what_a_device_does_is_what_the_processor_does() -> None:
    block = torch.cat([random_pattern().flatten(0, 1).flatten(1), torch.zeros(ALL, 3)], dim=1)
    want = pairs._mixed(block)
    close(pairs._mixed_on_device(block), want)
