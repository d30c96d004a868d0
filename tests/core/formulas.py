"""The formulas of docs/metrics.md in plain numpy, each beside the LaTeX that it spells out.

Written from the LaTeX, not from the library: loops and dense matrices in float64.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import orth

Array = NDArray[np.float64]


class Text(NamedTuple):
    """Facts of a text that a formula may need beyond a pattern; `sees` is (query, key)."""

    ids: NDArray[np.int64]
    special: NDArray[np.bool_]
    sees: NDArray[np.bool_]
    period: int


LATEX: dict[str, str] = {}
FORMULAS: dict[str, Callable[..., Any]] = {}


def formula(latex: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the function below as this LaTeX; its name is the metric's key."""

    def kept(function: Callable[..., Any]) -> Callable[..., Any]:
        LATEX[function.__name__], FORMULAS[function.__name__] = latex, function
        return function

    return kept


def H(row: Array) -> float:
    """Entropy of one distribution."""
    return float(-sum(p * np.log(p) for p in row if p > 0))


def norm(x: Array) -> float:
    return float(np.sqrt((x**2).sum()))


# -- of one head: its pattern A ----------------------------------------------------------------


@formula(r"\frac{1}{n}\sum_q \Big(-\sum_k A_{qk} \ln A_{qk}\Big)")
def entropy(A: Array, text: Text) -> float:
    return sum(H(row) for row in A) / len(A)


@formula(r"\frac{1}{n}\sum_q \frac{-\sum_k A_{qk} \ln A_{qk}}{\ln m_q}")
def normalized_entropy(A: Array, text: Text) -> float:
    m = text.sees.sum(-1)
    return sum(H(A[q]) / np.log(m[q]) for q in range(len(A)) if m[q] > 1) / len(A)


@formula(r"H\Big(\frac{1}{n}\sum_q A_q\Big) - \frac{1}{n}\sum_q H(A_q)")
def mutual_information(A: Array, text: Text) -> float:
    return H(sum(A) / len(A)) - sum(H(row) for row in A) / len(A)


@formula(r"\frac{1}{n}\sum_q \max_k A_{qk}")
def confidence(A: Array, text: Text) -> float:
    return sum(max(row) for row in A) / len(A)


@formula(r"\frac{1}{n}\sum_q \min\Big\{|S| : \sum_{k \in S} A_{qk} \ge 0.9\Big\}")
def keys_for_mass(A: Array, text: Text) -> float:
    def least(row: Array) -> int:
        heaviest = sorted(row, reverse=True)
        return next(s for s in range(1, len(row) + 1) if sum(heaviest[:s]) >= 0.9 - 1e-9)

    return sum(map(least, A)) / len(A)


@formula(r"\frac{1}{n}\sum_q \sum_k A_{qk}\,|q-k|")
def distance(A: Array, text: Text) -> float:
    n = len(A)
    return sum(A[q, k] * abs(q - k) for q in range(n) for k in range(n)) / n


@formula(r"\frac{1}{n-1}\sum_{q \ge 1} A_{q,q-1}")
def previous_token(A: Array, text: Text) -> float:
    return sum(A[q, q - 1] for q in range(1, len(A))) / (len(A) - 1)


@formula(r"\frac{1}{n-1}\sum_{q \le n-2} A_{q,q+1}")
def next_token(A: Array, text: Text) -> float:
    return sum(A[q, q + 1] for q in range(len(A) - 1)) / (len(A) - 1)


@formula(r"\frac{1}{n}\sum_q A_{qq}")
def self_token(A: Array, text: Text) -> float:
    return sum(A[q, q] for q in range(len(A))) / len(A)


@formula(r"\frac{1}{n}\sum_q A_{q0}")
def first_token(A: Array, text: Text) -> float:
    return sum(A[:, 0]) / len(A)


@formula(r"\frac{1}{n}\sum_q \sum_{k\ \mathrm{special}} A_{qk}")
def special_token(A: Array, text: Text) -> float:
    return sum(A[:, k].sum() for k in range(A.shape[1]) if text.special[k]) / len(A)


@formula(r"\frac{1}{n}\sum_q \sum_{k \ge 1\ \mathrm{special}} A_{qk}")
def separator_token(A: Array, text: Text) -> float:
    return sum(A[:, k].sum() for k in range(1, A.shape[1]) if text.special[k]) / len(A)


@formula(r"1 - \frac{1}{n}\sum_q \sum_k A_{qk}")
def sink(A: Array, text: Text) -> float:
    return 1 - sum(A[q, k] for q in range(len(A)) for k in range(A.shape[1])) / len(A)


@formula(r"\frac{1}{|R|}\sum_{q \in R}\ \sum_{k \ne q,\ t_k = t_q} A_{qk}")
def duplicate_token(A: Array, text: Text) -> float:
    n, t = len(A), text.ids
    same = [[k for k in range(n) if k != q and t[k] == t[q]] for q in range(n)]
    R = [q for q in range(n) if not text.special[q] and any(text.sees[q, k] for k in same[q])]
    return sum(A[q, k] for q in R for k in same[q]) / len(R)


@formula(r"\frac{1}{p}\sum_{q=p}^{2p-1} A_{q,\,q-p+1}")
def induction(A: Array, text: Text) -> float:
    p = text.period
    return sum(A[q, q - p + 1] for q in range(p, 2 * p)) / p


# -- of one head: what it writes, z and W_O; `others` are all (z, W_O) of its layer ------------


@formula(r"\Big\lVert \frac{1}{n}\sum_q z_q W_O \Big\rVert_2")
def norm_of_mean_output(z: Array, W_O: Array, others: Any) -> float:
    return norm(sum(z @ W_O) / len(z))


@formula(r"\frac{1}{n}\sum_q \lVert z_q W_O \rVert_2")
def output_norm(z: Array, W_O: Array, others: Any) -> float:
    return sum(map(norm, z @ W_O)) / len(z)


@formula(r"\frac{N_i}{\sum_j N_j},\quad N_i = \frac{1}{n}\sum_q \lVert z_{i,q} W_{O,i} \rVert_2")
def output_share(z: Array, W_O: Array, others: Any) -> float:
    return output_norm(z, W_O, None) / sum(output_norm(*one, None) for one in others)


@formula(
    r"\frac{1}{n}\sum_q \Big\lVert h_q - \frac{1}{n}\sum_{q'} h_{q'} \Big\rVert_2^2,"
    r"\quad h_q = z_q W_O"
)
def variance(z: Array, W_O: Array, others: Any) -> float:
    return spread(z @ W_O)


def spread(h: Array) -> float:
    return sum(norm(row - sum(h) / len(h)) ** 2 for row in h) / len(h)


# -- between two heads: patterns a, b or z a, b ------------------------------------------------


@formula(r"\sqrt{1 - \frac{1}{n}\sum_q \sum_k \sqrt{A^i_{qk} A^j_{qk}}}")
def hellinger(a: Array, b: Array) -> float:
    return float(np.sqrt(max(0.0, 1 - np.sqrt(a * b).sum() / len(a))))


@formula(
    r"\frac{1}{n}\sum_q \Big[ H\Big(\frac{A^i_q + A^j_q}{2}\Big)"
    r" - \frac{H(A^i_q) + H(A^j_q)}{2} \Big]"
)
def jensen_shannon(a: Array, b: Array) -> float:
    rows = zip(a, b, strict=True)
    return sum(H((p + q) / 2) - (H(p) + H(q)) / 2 for p, q in rows) / len(a)


@formula(r"\frac{\mathrm{Cov}(z_i, z_j)}{\sigma_i \sigma_j}")
def correlation(a: Array, b: Array) -> float:
    covariance = ((a - a.mean()) * (b - b.mean())).mean()
    return float(covariance / (a.std() * b.std()))


@formula(
    r"\frac{R_{ij}}{\sqrt{R_{ii} R_{jj}}},\quad R_{ij} ="
    r" \frac{\lVert z_i z_j^\top \rVert_F}{\lVert z_i \rVert_F \lVert z_j \rVert_F}"
)
def redundancy(a: Array, b: Array) -> float:
    R = redundancy_textbook
    return R(a, b) / np.sqrt(R(a, a) * R(b, b))


@formula(r"\frac{\lVert z_i z_j^\top \rVert_F}{\lVert z_i \rVert_F \lVert z_j \rVert_F}")
def redundancy_textbook(a: Array, b: Array) -> float:
    return norm(a @ b.T) / (norm(a) * norm(b))


@formula(
    r"\frac{\langle U_i, U_j \rangle}{\lVert U_i \rVert_F \lVert U_j \rVert_F},\quad"
    r" U_{q \ne r} = K_{qr} - \frac{s_q + s_r}{n-2} + \frac{\sum_t s_t}{(n-1)(n-2)},"
    r"\ U_{qq} = 0,\quad s_q = \sum_{r \ne q} K_{qr},\ K = z z^\top"
)
def cka(a: Array, b: Array) -> float:
    def U(z: Array) -> Array:
        n, K = len(z), z @ z.T
        s = [sum(K[q, r] for r in range(n) if r != q) for q in range(n)]
        out = np.zeros((n, n))
        for q in range(n):
            for r in set(range(n)) - {q}:
                out[q, r] = K[q, r] - (s[q] + s[r]) / (n - 2) + sum(s) / ((n - 1) * (n - 2))
        return out

    return cosine(U(a), U(b))


@formula(
    r"\frac{\langle K_i, K_j \rangle}{\lVert K_i \rVert_F \lVert K_j \rVert_F},"
    r"\quad K = \bar z \bar z^\top"
)
def cka_biased(a: Array, b: Array) -> float:
    a, b = a - a.mean(0), b - b.mean(0)
    return cosine(a @ a.T, b @ b.T)


# -- between two heads: W, or (A, B) for products; A B^T is the product ------------------------


@formula(r"\frac{\langle W_i, W_j \rangle}{\lVert W_i \rVert\,\lVert W_j \rVert}")
def cosine(a: Array, b: Array) -> float:
    return float((a * b).sum() / (norm(a) * norm(b)))


@formula(
    r"\frac{\langle A_i B_i^\top, A_j B_j^\top \rangle}"
    r"{\lVert A_i B_i^\top \rVert\,\lVert A_j B_j^\top \rVert}"
)
def product_cosine(a: tuple[Array, Array], b: tuple[Array, Array]) -> float:
    return cosine(a[0] @ a[1].T, b[0] @ b[1].T)


@formula(
    r"\frac{1}{\min(r_i, r_j)} \lVert U_i^\top U_j \rVert_F^2,"
    r"\quad U_i \in \mathbb{R}^{d_\mathrm{model} \times r_i}"
)
def subspace_overlap(a: Array, b: Array) -> float:
    U, V = orth(a), orth(b)
    return norm(U.T @ V) ** 2 / min(U.shape[1], V.shape[1])


@formula(
    r"\frac{1}{\min(r_i, r_j)^2}"
    r" \lVert U_i^\top U_j \rVert_F^2 \, \lVert V_i^\top V_j \rVert_F^2"
)
def product_overlap(a: tuple[Array, Array], b: tuple[Array, Array]) -> float:
    one, two = a[0] @ a[1].T, b[0] @ b[1].T
    r = min(np.linalg.matrix_rank(one), np.linalg.matrix_rank(two))
    columns, rows = orth(one).T @ orth(two), orth(one.T).T @ orth(two.T)
    return norm(columns) ** 2 * norm(rows) ** 2 / r**2
