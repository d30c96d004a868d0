"""Means over independent units (documents, authors, texts ...): errors, intervals, paired tests."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Num

MIN_UNITS = 10  # of fewer an interval covers too seldom for a label or a verdict
LEVEL = 0.95  # of intervals
WITHIN = 0.1  # correlation of the texts of a unit that the degrees of freedom assume
PerUnit = Float[np.ndarray, "row unit"]


class Jackknife(NamedTuple):
    """A weighted mean, and what leaving out one unit after the other says of it."""

    mean: Float[np.ndarray, "row"]  # sum by count; NaN where no unit has any
    error: Float[np.ndarray, "row"]  # its standard error; NaN of fewer than two units
    skewness: Float[np.ndarray, "row"]  # of the units' influences; 0 where these are all equal
    n_units: Int[np.ndarray, "row"]  # that have any count
    freedom: Float[np.ndarray, "row"]  # degrees of freedom of the error; see `freedom_of`


@np.errstate(all="ignore")  # a damaged file holds any numbers
def jackknife(sums: PerUnit, counts: PerUnit) -> Jackknife:
    """Leave out one unit after the other.

    With S and N the sums over all of G units, unit g moves the mean m = S / N by its influence
    d_g = (G - 1) (s_g - m n_g) / (N - n_g). The standard error is sqrt(var(d) / G), which holds
    however texts of one unit depend on each other.

    Source: Efron and Tibshirani 1993, chapter 11; for clusters Cameron, Gelbach and Miller 2008.

    >>> estimate = jackknife(np.array([[1.0, 2.0, 6.0]]), np.ones((1, 3)))
    >>> estimate.mean, estimate.error.round(3)  # std(1, 2, 6) / sqrt(3)
    (array([3.]), array([1.528]))
    """
    mean, apart, n = _influences(sums, counts)
    squares = (apart**2).sum(-1)
    error = np.sqrt(squares / (n * (n - 1)))
    skewness = (apart**3).sum(-1) / n / (squares / n) ** 1.5
    skewness = np.where(squares > 0, skewness, 0.0)
    return Jackknife(mean, error, skewness, n, freedom_of(counts))


def _influences(
    sums: PerUnit, counts: PerUnit
) -> tuple[Float[np.ndarray, "row"], PerUnit, Int[np.ndarray, "row"]]:
    """Return the means, how far each unit's influence is from their mean, and how many units."""
    is_counted = counts > 0
    n, total = is_counted.sum(-1), counts.sum(-1)
    mean = sums.sum(-1) / total
    moved = (n - 1)[:, None] * (sums - mean[:, None] * counts)
    moved = np.where(is_counted, moved / (total[:, None] - counts), 0.0)
    return mean, np.where(is_counted, moved - (moved.sum(-1) / n)[:, None], 0.0), n


@np.errstate(all="ignore")  # a damaged file holds any numbers
def freedom_of(counts: PerUnit) -> Float[np.ndarray, "row"]:
    """Compute the degrees of freedom of the jackknife's error from the sizes of the units.

    The squared error is about Q = sum(a_g (s_g - m n_g)^2) / N^2 with a_g = (1 - n_g / N)^-2. If
    texts have one variance, and those of a unit correlate by `WITHIN`, the sum of unit g has the
    variance w_g = n_g (1 + (n_g - 1) WITHIN), and Q has 2 E(Q)^2 / Var(Q) degrees of freedom. Units
    of one size have one less than they are; where few units hold most texts, it is far less.

    Source: Satterthwaite 1946; for the variance of clusters Bell and McCaffrey 2002.

    >>> freedom_of(np.array([[7.0] * 8, [1.0] * 7 + [43.0]])).round(1)
    array([7., 1.])
    """
    p = counts / counts.sum(-1, keepdims=True)
    w = counts * (1 + (counts - 1) * WITHIN)
    a = np.where(counts > 0, (1 - p) ** -2.0, 0.0)
    # Sums less their share of the total have the covariance diag(w) + p y' + y p'.
    y = p * w.sum(-1, keepdims=True) / 2 - w
    expected = (a * (w + 2 * p * y)).sum(-1)
    squares = (a * p**2).sum(-1) * (a * y**2).sum(-1) + (a * p * y).sum(-1) ** 2
    squares = 2 * squares + (a**2 * w * (w + 4 * p * y)).sum(-1)
    return np.minimum(expected**2 / squares, (counts > 0).sum(-1) - 1)


Shares = tuple[PerUnit, PerUnit]  # sums and counts


@np.errstate(all="ignore")  # a damaged file holds any numbers
def difference(first: Shares, second: Shares, *, paired: bool) -> dict[str, np.ndarray]:
    """Compare weighted means: difference (second less first), its 95 % interval, two-sided p.

    With a_g and b_g a unit's influences on the means (`jackknife`) by sqrt(G (G - 1)), the squared
    standard error is sum((b_g - a_g)^2) where both have the same units (`paired`), else
    sum(a_g^2 + b_g^2); interval and test are Student's. Counts may differ. Where all units differ
    alike, p is the sign test's. NaN of fewer than `MIN_UNITS`.

    >>> hits, n = np.array([[1.0, 0.0] * 6]), np.ones((1, 12))
    >>> difference((hits, n), (n, n), paired=True)["p"].round(3)
    array([0.007])
    """
    from scipy.special import stdtr  # late, and not all of scipy.stats

    (a, of_a, n_a), (b, of_b, n_b) = _influences(*first), _influences(*second)
    of_a, of_b = (of / np.sqrt(n * (n - 1))[:, None] for of, n in ((of_a, n_a), (of_b, n_b)))
    error = np.sqrt(((of_b - of_a) ** 2 if paired else of_a**2 + of_b**2).sum(-1))
    n, apart = np.minimum(n_a, n_b), b - a
    alike = np.where(np.abs(apart) > 1e-12, 2.0 ** (1 - n), 1.0)
    p = np.where(error > 1e-12, 2 * stdtr(n - 1, -np.abs(apart) / error), alike)
    reach, p = (np.where(n < MIN_UNITS, np.nan, of) for of in (t_quantile(n) * error, p))
    return dict(difference=apart, low=apart - reach, high=apart + reach, p=p)


def t_quantile(n_units: Num[np.ndarray, "row"]) -> Float[np.ndarray, "row"]:
    """Return the 97.5 % quantile of Student's t, with one degree of freedom less than units."""
    from scipy.special import stdtrit  # late, and not all of scipy.stats

    return np.asarray(stdtrit(np.maximum(n_units - 1, 1), (1 + LEVEL) / 2))


def interval(estimate: Jackknife) -> tuple[Float[np.ndarray, "row"], Float[np.ndarray, "row"]]:
    """Compute the 95 % interval of means, allowing for skewed units, uneven ones, and few of them.

    With t Student's quantile for f degrees of freedom (`freedom_of`) and
    k = skewness sqrt(f / (G (G - 1))), its ends are m - h(t) error and m - h(-t) error, where
    h(x) = (3 / k) (cbrt(1 + k (x - k / 6)) - 1) takes the skewness out of the studentised mean;
    without skewness h(x) = x. NaN of fewer than two units.

    Source: Hall 1992, "On the removal of skewness by transformation"; we take Student's quantiles,
    and less of the skewness where a few large units make it.

    >>> low, high = interval(jackknife(np.arange(9.0)[None], np.ones((1, 9))))
    >>> low.round(2), high.round(2)
    (array([1.89]), array([6.11]))
    """
    n, freedom = np.maximum(estimate.n_units, 2), np.nan_to_num(estimate.freedom)
    k = estimate.skewness * np.sqrt(freedom / (n * (n - 1)))
    t = t_quantile(freedom + 1)
    bent = np.abs(k) > 1e-6
    slope = np.where(bent, k, 1.0)

    def h(x: Float[np.ndarray, "row"]) -> Float[np.ndarray, "row"]:
        return np.where(bent, 3 / slope * (np.cbrt(1 + k * (x - k / 6)) - 1), x)

    return estimate.mean - h(t) * estimate.error, estimate.mean - h(-t) * estimate.error


@np.errstate(all="ignore")  # a damaged file holds any numbers
def paired_p_value(hits: PerUnit, baseline: PerUnit) -> Float[np.ndarray, "row"]:
    """Compute the probability that a baseline's hits, on the same words, fall so far behind.

    With d_g = n10 - n01 in unit g, the words that only the head gets right less those that only the
    baseline does, z = sum(d) / sqrt(sum(d^2)) is about normal where neither is better. One-sided;
    where each unit is one word it is McNemar's test.

    Source: McNemar 1947; for clusters Durkalski et al. 2003.

    >>> hits = np.array([[1.0] * 9 + [0.0]])  # nine words that only the head gets right, and one
    >>> paired_p_value(hits, 1 - hits).round(4)  # that only the baseline does
    array([0.0057])
    """
    from scipy.special import ndtr  # late, and not all of scipy.stats

    apart = hits - baseline
    spread = np.sqrt((apart**2).sum(-1))
    return np.asarray(ndtr(-apart.sum(-1) / np.where(spread > 0, spread, 1.0)))
