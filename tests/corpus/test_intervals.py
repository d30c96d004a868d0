"""Sums of units, added up in any cut, against numpy and scipy on all texts at once."""

import numpy as np
import pytest
from scipy import stats

from mha_viz.core.metrics.units import interval
from mha_viz.corpus.statistics.intervals import N_UNITS, UnitSums


def _interval(
    values: np.ndarray, cuts: tuple[int, ...] = (), units: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    sums = UnitSums(values.shape[1])
    units = np.arange(len(values)) if units is None else units
    for rows in np.split(np.arange(len(values)), cuts):
        sums.add(units[rows], values[rows])
    return interval(sums.jackknife())


def test_an_interval_is_as_wide_as_theory_says() -> None:
    values = np.random.default_rng(0).normal(3.0, 2.0, size=(400, 20))
    low, high = _interval(values)
    expected = 2 * stats.t.ppf(0.975, 399) * values.std(0, ddof=1) / np.sqrt(400)
    assert (high - low) == pytest.approx(expected, rel=0.01)
    assert (low + high) / 2 == pytest.approx(values.mean(0), abs=0.02)


def test_texts_of_one_unit_count_as_one() -> None:
    """Copies of each text, in one unit, make the interval of the texts, and no narrower one."""
    values = np.random.default_rng(1).random((13, 3))
    alone, copied = (
        _interval(values),
        _interval(np.tile(values, (7, 1)), units=np.tile(np.arange(13), 7)),
    )
    assert np.allclose(alone, copied)
    assert (np.diff(_interval(np.tile(values, (7, 1))), axis=0) < np.diff(alone, axis=0) / 2).all()


def test_shards_add_up_to_the_same_bits() -> None:
    rng = np.random.default_rng(2)
    values, units = rng.random((60, 3)), rng.integers(0, 17, 60)
    ours, theirs = (_interval(values, cuts, units) for cuts in ((), (7, 20, 21)))
    assert np.array_equal(ours, theirs)


def test_a_column_has_the_interval_of_the_texts_that_define_it() -> None:
    values = np.random.default_rng(3).random((50, 2))
    values[20:, 1] = np.nan
    low, high = _interval(values)
    alone = _interval(values[:20, 1:])
    assert (low[1], high[1]) == pytest.approx((alone[0][0], alone[1][0]))


def test_where_no_text_or_one_unit_defines_a_column_nothing_does() -> None:
    assert np.isnan(_interval(np.full((5, 1), np.nan))).all()
    values = np.random.default_rng(4).random((5, 1))
    assert np.isnan(_interval(values, units=np.full(5, 3))).all()


def test_more_units_than_are_kept_apart_take_turns() -> None:
    values = np.random.default_rng(5).random((3 * N_UNITS, 1))
    sums = UnitSums(1)
    sums.add(np.arange(3 * N_UNITS), values)
    found = sums.jackknife()
    assert (found.n_units, found.mean[0]) == (N_UNITS, pytest.approx(values.mean()))
    expected = values.std(ddof=1) / np.sqrt(3 * N_UNITS)
    assert found.error[0] == pytest.approx(expected, rel=0.1)
