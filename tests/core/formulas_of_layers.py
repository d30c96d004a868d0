"""The rest of `formulas`: of the heads of a layer together, and through all layers."""

from typing import Any

import numpy as np
from scipy.optimize import linprog

from tests.core.formulas import Array, H, cosine, formula, norm, spread

# -- of a layer: all W, all patterns, or all (z, W_O) of its heads -----------------------------


@formula(r"\frac{1}{n_h(n_h-1)} \sum_{i \ne j} \big(1 - |\cos \theta_{ij}|\big)")
def diversity(W: Array) -> float:
    n = len(W)
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    return sum(1 - abs(cosine(W[i], W[j])) for i, j in pairs) / (n * (n - 1))


@formula(
    r"\frac{1}{n_h}\sum_i \mathrm{erank}(z_i W_{O,i}),\quad \mathrm{erank}(M) ="
    r" \exp\Big(-\sum_r p_r \ln p_r\Big),\ p_r = \frac{\sigma_r(M)}{\sum_s \sigma_s(M)}"
)
def head_rank(heads: Any) -> float:
    return sum(erank(z @ W_O) for z, W_O in heads) / len(heads)


def erank(M: Array) -> float:
    sigma = np.linalg.svd(M, compute_uv=False)
    sigma = sigma[sigma > 1e-9 * sigma.max()]
    return float(np.exp(H(sigma / sigma.sum())))


@formula(
    r"\frac{\mathrm{erank}([z_1 W_{O,1}; \dots; z_{n_h} W_{O,n_h}])}"
    r"{\sum_i \mathrm{erank}(z_i W_{O,i})}"
)
def coverage_ratio(heads: Any) -> float:
    outputs = [z @ W_O for z, W_O in heads]
    return erank(np.concatenate(outputs)) / sum(map(erank, outputs))


@formula(r"\sum_i C_i,\quad C_i = H\Big(\frac{1}{n}\sum_q A^i_q\Big) - \frac{1}{n}\sum_q H(A^i_q)")
def capacity_total(A: Array) -> float:
    return sum(map(C, A))


def C(A: Array) -> float:
    return H(A.sum(0) / len(A)) - sum(map(H, A)) / len(A)


@formula(r"\max_i C_i")
def capacity_best(A: Array) -> float:
    return max(map(C, A))


@formula(r"C\Big(\frac{1}{n_h}\sum_i A^i\Big)")
def capacity_pooled(A: Array) -> float:
    return C(sum(A) / len(A))


@formula(r"\min\Big(\sum_i C_i,\ \ln n\Big)")
def capacity_bound(A: Array) -> float:
    return min(sum(map(C, A)), float(np.log(A.shape[1])))


@formula(r"\frac{\mathrm{Var}\big(\sum_i h_i\big)}{\sum_i \mathrm{Var}(h_i)}")
def variance_ratio(heads: Any) -> float:
    outputs = [z @ W_O for z, W_O in heads]
    return spread(sum(outputs)) / sum(map(spread, outputs))


@formula(
    r"\frac{1}{d_{\mathrm{model}}}\,\frac{1}{n}\sum_q"
    r" \Big\lVert \sum_i h_i(q) \Big\rVert_2^2"
)
def norm_ratio(heads: Any) -> float:
    total = sum(z @ W_O for z, W_O in heads)
    return sum(norm(row) ** 2 for row in total) / total.size


# -- through all layers: all patterns (layer, head, query, key) --------------------------------


def M(A: Array) -> Array:
    return np.eye(A.shape[-1]) / 2 + A.mean(1) / 2


@formula(r"R_\ell = M_\ell R_{\ell-1},\quad M_\ell = \tfrac12 I + \tfrac12 \bar A_\ell")
def attention_rollout(A: Array) -> Array:
    R = [np.eye(A.shape[-1])]
    for mixing in M(A):
        R.append(mixing @ R[-1])
    return np.stack(R[1:])


@formula(r"\max\text{-flow}\big((L, q) \to (0, k)\big)\ \text{with capacities } M_\ell")
def attention_flow(A: Array, q: int) -> Array:
    """Solve as a linear program: what leaves (L, q), if nothing is lost but at (0, k)."""
    layers, n = A.shape[0], A.shape[-1]
    capacity = M(A).ravel()  # of the pipe from (l + 1, a) to (l, b)
    balance = np.zeros((layers + 1, n, capacity.size))
    for pipe in range(capacity.size):
        layer, a, b = np.unravel_index(pipe, (layers, n, n))
        balance[layer + 1, a, pipe] -= 1
        balance[layer, b, pipe] += 1
    flows = []
    for k in range(n):
        kept = np.ones((layers + 1, n), dtype=bool)
        kept[layers, q] = kept[0, k] = False
        rows = balance[kept]
        found = linprog(
            balance[layers, q],
            A_eq=rows,
            b_eq=np.zeros(len(rows)),
            bounds=[*zip(0 * capacity, capacity, strict=True)],
        )
        flows.append(-found.fun)
    return np.array(flows)


@formula(r"A_{qk}\,\lVert v_k W_O \rVert")
def value_weighted(A: Array, v: Array, W_O: Array) -> Array:
    return A * np.array([norm(row) for row in v @ W_O])
