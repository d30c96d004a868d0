"""The bootstrap over texts against what it stands for."""

import numpy as np
import pytest

from mha_viz.corpus.statistics.intervals import (
    N_RESAMPLES,
    Resamples,
    bootstrap_weights,
    sorted_quantiles,
)


def _interval(values: np.ndarray, cuts: tuple[int, ...] = ()) -> tuple[np.ndarray, np.ndarray]:
    weights = bootstrap_weights([f"text {i}" for i in range(len(values))])
    resamples = Resamples(values.shape[1])
    for rows in np.split(np.arange(len(values)), cuts):
        resamples.add(weights[:, rows], values[rows])
    return resamples.interval((~np.isnan(values)).sum(0).astype(float))


def test_a_text_comes_as_often_as_poisson_says() -> None:
    weights = bootstrap_weights([str(i) for i in range(300)])
    share = np.bincount(weights.ravel(), minlength=4)[:4] / weights.size
    assert share == pytest.approx([0.3679, 0.3679, 0.1839, 0.0613], abs=0.003)


def test_equal_texts_come_together_and_no_others() -> None:
    a, b, again = bootstrap_weights(["a", "b", "a"]).T
    assert (a == again).all() and abs(np.corrcoef(a, b)[0, 1]) < 0.15


def test_an_interval_is_as_wide_as_theory_says() -> None:
    values = np.random.default_rng(0).normal(3.0, 2.0, size=(400, 20))
    low, high = _interval(values)
    expected = 2 * 1.96 * values.std(0) / np.sqrt(400)
    assert (high - low) == pytest.approx(expected, rel=0.15)
    assert (low + high) / 2 == pytest.approx(values.mean(0), abs=0.05)


def test_shards_add_up_to_the_same_interval() -> None:
    values = np.random.default_rng(1).random((60, 3))
    assert np.allclose(_interval(values), _interval(values, (7, 20, 21)), atol=1e-12)


def test_a_column_has_the_interval_of_the_texts_that_define_it() -> None:
    values = np.random.default_rng(2).random((50, 2))
    values[20:, 1] = np.nan
    low, high = _interval(values)
    alone = _interval(values[:20, 1:])
    assert (low[1], high[1]) == pytest.approx((alone[0][0], alone[1][0]))


def test_where_no_text_defines_a_column_nothing_does() -> None:
    low, high = _interval(np.full((5, 1), np.nan))
    assert np.isnan(low).all() and np.isnan(high).all()


def test_one_text_has_no_interval() -> None:
    low, high = _interval(np.array([[0.25, np.nan], [np.nan, np.nan]]))
    assert np.isnan(low).all() and np.isnan(high).all()
    low, high = _interval(np.array([[0.25, np.nan], [0.75, np.nan], [0.5, 0.5]]))
    assert 0.25 <= low[0] < 0.5 < high[0] <= 0.75
    assert np.isnan((low[1], high[1])).all()


def test_copies_of_one_text_have_no_interval_either() -> None:
    values = np.array([[0.25], [0.75], [0.75], [0.75]])
    for texts, known in (("aaaa", False), ("abbb", True)):
        resamples = Resamples(1)
        resamples.add(bootstrap_weights(texts[:3]), values[:3])
        resamples.add(bootstrap_weights(texts[3:]), values[3:])
        low, high = resamples.interval(np.array([4.0]))
        assert np.isfinite(low[0]) == np.isfinite(high[0]) == known


def test_quantiles_are_those_of_numpy_without_nan() -> None:
    values = np.random.default_rng(3).random((31, 4))
    values[::3, 2] = np.nan
    shares = (0.05, 0.5, 0.975)
    assert np.allclose(sorted_quantiles(values, shares), np.nanquantile(values, shares, axis=0))
    assert len(bootstrap_weights(["one"])) == N_RESAMPLES
