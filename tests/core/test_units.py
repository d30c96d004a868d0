"""Intervals and tests over independent units: against plain loops, scipy, and what they promise."""

import numpy as np
import pytest
from scipy import stats

from mha_viz.core.metrics.chance import discoveries, q_values
from mha_viz.core.metrics.units import (
    WITHIN,
    difference,
    freedom_of,
    interval,
    jackknife,
    paired_p_value,
)


def draw(kind: str, n_units: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, float]:
    """Sums and counts of units, and the mean that they are drawn around."""
    if kind == "beta":
        return rng.beta(0.3, 3, n_units), np.ones(n_units), 0.3 / 3.3
    n = rng.integers(1, 30, n_units)  # texts of a document, whose own mean they scatter around
    own = rng.beta(2, 5, n_units)
    sums = np.array([rng.normal(mean, 0.2, k).sum() for mean, k in zip(own, n, strict=True)])
    return sums, n.astype(float), 2 / 7


def test_jackknife_is_what_leaving_out_each_unit_gives():
    sums, counts, _ = draw("clustered", 13, np.random.default_rng(0))
    found = jackknife(np.append(sums, 0.0)[None], np.append(counts, 0.0)[None])  # one is empty
    mean = sums.sum() / counts.sum()
    left = [np.delete(sums, g).sum() / np.delete(counts, g).sum() for g in range(13)]
    pseudo = 13 * mean - 12 * np.array(left)
    assert (found.n_units, found.mean) == (13, pytest.approx(mean))
    assert found.error == pytest.approx(pseudo.std(ddof=1) / np.sqrt(13))
    assert found.skewness == pytest.approx(stats.skew(pseudo))


def test_interval_without_skewness_is_students():
    values = np.arange(11.0)
    low, high = interval(jackknife(values[None], np.ones((1, 11))))
    expected = stats.t.interval(0.95, 10, values.mean(), stats.sem(values))
    assert (low[0], high[0]) == pytest.approx(expected)
    for n_units in (0, 1):
        counts = np.r_[np.full(n_units, 5.0), 0.0][None]
        assert np.isnan(interval(jackknife(0.25 * counts, counts))).all()
    assert np.ravel(interval(jackknife(np.full((1, 3), 0.5), np.ones((1, 3))))) == pytest.approx(
        [0.5] * 2
    )


def test_interval_ends_where_the_transformed_mean_has_students_quantiles():
    """Hall's transformation itself, of which `interval` takes the inverse."""
    values = np.random.default_rng(1).beta(0.3, 3, 17)
    found = jackknife(values[None], np.ones((1, 17)))
    k = found.skewness / np.sqrt(17)
    low, high = interval(found)
    ends = np.concatenate([found.mean - low, found.mean - high]) / found.error
    transformed = ends + k * ends**2 / 3 + k**2 * ends**3 / 27 + k / 6
    assert transformed == pytest.approx([stats.t.ppf(0.975, 16), -stats.t.ppf(0.975, 16)])
    assert found.mean - low < high - found.mean  # skewed to the right


@pytest.mark.parametrize("kind", ["beta", "clustered"])
def test_interval_of_skewed_units_covers_the_mean_as_often_as_it_says(kind: str):
    """Cover skewed values more often than a bootstrap does."""
    rng = np.random.default_rng(20)
    sums, counts, true = zip(*(draw(kind, 20, rng) for _ in range(2_000)), strict=True)
    low, high = interval(jackknife(np.array(sums), np.array(counts)))
    assert 0.93 <= ((low <= true[0]) & (true[0] <= high)).mean() <= 0.97


@pytest.mark.parametrize("n_units", [8, 20, 60])
def test_interval_of_uneven_documents_covers_their_common_mean(n_units: int):
    """Documents of 1 to 61 texts, with skewed values; Student's interval covers 88 to 93 %."""
    rng = np.random.default_rng(1)
    n = np.minimum(61, np.ceil(rng.lognormal(1.3, 1.1, 400)))
    sums = n * rng.beta([[0.3], [2], [1]], [[3], [5], [1]], (3, 400))  # one mean a document
    pick = np.random.default_rng(n_units).integers(400, size=(2_000, n_units))
    counts = np.broadcast_to(n[pick], (3, *pick.shape)).reshape(-1, n_units)
    drawn, true = jackknife(sums[:, pick].reshape(-1, n_units), counts), sums.sum(1) / n.sum()
    low, high = (end.reshape(3, -1) for end in interval(drawn))
    assert 0.935 <= ((low <= true[:, None]) & (true[:, None] <= high)).mean() <= 0.965
    apart = np.abs(drawn.mean.reshape(3, -1) - true[:, None]) / drawn.error.reshape(3, -1)
    assert (apart <= stats.t.ppf(0.975, n_units - 1)).mean() < 0.93


def test_freedom_is_that_of_the_quadratic_form():
    n = np.array([1.0, 4, 0, 9, 2, 25, 1])
    p = n / n.sum()
    residual = np.eye(7) - np.outer(n, np.ones(7)) / n.sum()
    form = residual.T @ np.diag(np.where(n > 0, (1 - p) ** -2.0, 0)) @ residual
    product = form @ np.diag(n * (1 + (n - 1) * WITHIN))
    expected = np.trace(product) ** 2 / np.trace(product @ product)
    assert freedom_of(n[None]) == pytest.approx(expected)
    assert freedom_of(np.full((1, 9), 5.0)) == pytest.approx(8)


def test_paired_test_of_single_words_is_mcnemars():
    n10, n01 = 29, 13
    head = np.r_[np.ones(n10), np.zeros(n01), np.ones(5)][None]
    baseline = np.r_[np.zeros(n10), np.ones(n01), np.ones(5)][None]
    z = (n10 - n01) / np.sqrt(n10 + n01)
    assert paired_p_value(head, baseline) == pytest.approx(stats.norm.sf(z))
    assert paired_p_value(baseline, head) == pytest.approx(stats.norm.cdf(z))
    assert paired_p_value(head, head) == 0.5


def test_paired_p_value_of_units_is_near_that_of_all_flips_of_their_signs():
    apart = np.random.default_rng(2).integers(-2, 5, 11).astype(float)
    signs = 1 - 2 * (np.arange(2**11)[:, None] >> np.arange(11) & 1)
    sums = signs @ apart
    exact = (sums > apart.sum()).mean() + (sums == apart.sum()).mean() / 2
    assert paired_p_value(apart[None], np.zeros((1, 11))) == pytest.approx(exact, abs=0.01)


def test_q_values_are_scipys_and_leave_nan_out():
    p = np.random.default_rng(3).random(37) ** 3
    expected = stats.false_discovery_control(p)
    assert q_values(np.r_[np.nan, p])[1:] == pytest.approx(expected)
    assert np.isnan(q_values(np.r_[np.nan, p])[0])
    assert ((q_values(p) <= 0.05) == discoveries(p)).all() and discoveries(p).any()
    assert discoveries(np.r_[np.nan, p]).tolist() == [False, *discoveries(p)]


def test_difference_of_single_values_is_students_paired_or_welch_wide() -> None:
    rng = np.random.default_rng(5)
    first, second = rng.normal(0.4, 0.1, (2, 17))
    ones = np.ones((1, 17))
    paired = difference((first[None], ones), (second[None], ones), paired=True)
    expected = stats.ttest_rel(second, first)
    assert paired["p"] == pytest.approx(expected.pvalue)
    ends = expected.confidence_interval()
    assert (paired["low"][0], paired["high"][0]) == pytest.approx((ends.low, ends.high))
    apart = difference((first[None], ones), (second[None], ones), paired=False)
    error = np.hypot(*(stats.sem(values) for values in (first, second)))
    assert apart["high"] - apart["difference"] == pytest.approx(stats.t.ppf(0.975, 16) * error)


def test_difference_of_units_is_what_leaving_out_each_gives() -> None:
    rng = np.random.default_rng(6)
    counts = rng.integers(1, 9, (2, 13)).astype(float)  # one model is asked for other words
    hits = rng.binomial(counts.astype(int), 0.6).astype(float)
    found = difference((hits[:1], counts[:1]), (hits[1:], counts[1:]), paired=True)
    left = (hits.sum(1)[:, None] - hits) / (counts.sum(1)[:, None] - counts)
    apart = left[1] - left[0]
    error = np.sqrt(12 * ((apart - apart.mean()) ** 2).mean())
    assert found["high"] - found["difference"] == pytest.approx(stats.t.ppf(0.975, 12) * error)
    assert found["difference"] == pytest.approx(np.diff(hits.sum(1) / counts.sum(1)))


def test_difference_of_few_units_and_of_units_that_all_differ_alike() -> None:
    ones = np.ones((1, 9))
    few = difference((0 * ones, ones), (ones, ones), paired=True)
    assert np.isnan([few[name][0] for name in ("low", "high", "p")]).all()
    assert few["difference"] == 1
    ones = np.ones((1, 12))
    assert difference((0 * ones, ones), (ones, ones), paired=True)["p"] == 2.0**-11
    assert difference((ones, ones), (ones, ones), paired=True)["p"] == 1


@pytest.mark.parametrize("paired", [True, False])
def test_difference_of_heads_that_do_not_differ_has_uniform_p_values(paired: bool) -> None:
    rng, shape = np.random.default_rng(11), (4_000, 20)
    n = rng.integers(1, 20, shape)
    share = rng.beta(2, 3, shape)  # each unit is easy or hard, for both heads where it is the same
    other = share if paired else rng.beta(2, 3, shape)
    first, second = (rng.binomial(n, of).astype(float) for of in (share, other))
    p = difference((first, n.astype(float)), (second, n.astype(float)), paired=paired)["p"]
    assert 0.03 <= (p <= 0.05).mean() <= 0.065
