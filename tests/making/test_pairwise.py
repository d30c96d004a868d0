"""Rows of parameters: every two values meet, in about as few rows as there can be."""

from itertools import combinations, product

import pytest

from tests.making.pairwise import covering_rows, pairwise, rows_with_every_value


@pytest.mark.parametrize("sizes", [(2, 6, 5), (7, 5, 3), (3, 5, 2, 7), (5, 5, 5), (2, 2, 2, 2)])
def test_covering_rows_hold_every_pair_in_few_rows(sizes):
    rows = covering_rows(list(sizes))
    for a, b in combinations(range(len(sizes)), 2):
        met = {(row[a], row[b]) for row in rows}
        assert met == set(product(range(sizes[a]), range(sizes[b]))), (a, b)
    longest = sorted(sizes)
    assert len(rows) == len(set(rows)) <= 1.25 * longest[-1] * longest[-2] + 1
    assert rows == sorted(rows) == covering_rows(list(sizes))


@pytest.mark.parametrize("sizes", [(), (5,), (2, 3)])
def test_covering_rows_of_two_lists_are_all_combinations(sizes):
    assert covering_rows(list(sizes)) == list(product(*map(range, sizes)))


def test_of_dear_rows_few_are_taken_often_and_every_value_is_among_them():
    rows = covering_rows([7, 5, 3])
    few = rows_with_every_value(rows)
    assert {*map(len, map(set, zip(*few, strict=True)))} == {7, 5, 3} and len(few) == 7
    mark = pairwise(dear=True, a=range(7), b=range(5), c=range(3))
    often = [param.values for param in mark.args[1] if not param.marks]
    assert often == sorted(few) and len(mark.args[1]) == len(rows)


def test_pairwise_names_its_values_and_sorts_by_the_first():
    mark = pairwise(model=["bert", "gpt2"], n=[7, 11, 13], causal={False: "no", True: "yes"})
    names, params = mark.args
    assert names == ("model", "n", "causal")
    assert [param.values[0] for param in params] == ["bert"] * 3 + ["gpt2"] * 3
    assert {param.values[2] for param in params} == {False, True}  # of a mapping, the keys
    assert all(param.id == "-".join(map(str, param.values)) for param in params)


@pairwise(a=[2, 3], b=[5, 7], c=[11, 13])
def test_pairwise_parametrizes_a_test(a, b, c, request):
    assert request.node.name.endswith(f"[{a}-{b}-{c}]")
