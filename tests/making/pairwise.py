"""Parameters of a test in which every two values of different arguments meet, in few rows."""

from collections.abc import Iterable, Mapping
from itertools import combinations, product

import pytest

Pair = tuple[tuple[int, int], tuple[int, int]]  # (argument, value) twice, the arguments in order
CANDIDATES = 24  # rows that are tried before the best of them is taken


def pairwise(*, dear: bool = False, **arguments: Iterable[object]) -> pytest.MarkDecorator:
    """Parametrize a test by rows in which every pair of values occurs.

    Three arguments of 6, 5 and 2 values take about 30 rows instead of 60. Two arguments take all
    their combinations. Rows are sorted, so that what is dear to change (a model) goes first.

    Args:
        dear: whether `make test` takes as few rows as have every value, and leaves the others to
            `make test-all`.
        **arguments: the values of each, which stand in the test's name.
    """
    values = [list(given) for given in arguments.values()]
    rows = covering_rows([len(each) for each in values])
    often = rows_with_every_value(rows) if dear else rows
    params = []
    for row in rows:
        chosen = [each[place] for each, place in zip(values, row, strict=True)]
        marks = () if row in often else (pytest.mark.extended,)
        params.append(pytest.param(*chosen, id="-".join(map(str, chosen)), marks=marks))
    return pytest.mark.parametrize(tuple(arguments), params)


def rows_with_every_value(rows: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return few of these rows, in which every number that a place has occurs there."""
    missing, few = {value for row in rows for value in enumerate(row)}, []
    while missing:
        few.append(max(rows, key=lambda row: len(missing & set(enumerate(row)))))
        missing -= set(enumerate(few[-1]))
    return few


def covering_rows(sizes: list[int]) -> list[tuple[int, ...]]:
    """Return sorted rows of one number below each size; any two numbers meet in some row.

    Each row is the one with the most pairs that are missing so far, of a few that begin with
    different ones. The same sizes give the same rows.
    """
    axes = range(len(sizes))
    if len(sizes) < 3:
        return list(product(*map(range, sizes)))
    missing: dict[Pair, None] = {
        ((a, i), (b, j)): None
        for a, b in combinations(axes, 2)
        for i, j in product(range(sizes[a]), range(sizes[b]))
    }
    rows = []
    while missing:
        starts = list(missing)[:: max(1, len(missing) // CANDIDATES)]
        row = max(
            (_filled(start, sizes, missing) for start in starts), key=lambda r: _new(r, missing)
        )
        rows.append(tuple(row[axis] for axis in axes))
        for pair in combinations(sorted(row.items()), 2):
            missing.pop(pair, None)
    return sorted(rows)


def _filled(start: Pair, sizes: list[int], missing: Mapping[Pair, None]) -> dict[int, int]:
    """Return a row with these two numbers, the others chosen one by one for most missing pairs."""
    row = dict(start)
    for axis in sorted(set(range(len(sizes))) - row.keys(), key=lambda axis: -sizes[axis]):
        row[axis] = max(range(sizes[axis]), key=lambda i: _new(row | {axis: i}, missing))
    return row


def _new(row: Mapping[int, int], missing: Mapping[Pair, None]) -> int:
    return sum(pair in missing for pair in combinations(sorted(row.items()), 2))
