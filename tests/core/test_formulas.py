"""The formulas of docs/metrics.md, each against its function, and the baselines."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mha_viz.core.metrics import METRICS, TokenFacts, head_table
from tests.core import formulas_of_layers  # noqa: F401 - fills the tables, too
from tests.core.formulas import FORMULAS, LATEX, Text

LAYERS, HEADS, PERIOD, D_HEAD, D_MODEL = 2, 3, 7, 5, 17
N = 2 * PERIOD
IDS = torch.tensor([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7])
SPECIAL = torch.arange(N) % (N - 1) == 0
DICE = torch.Generator().manual_seed(11)


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=DICE, dtype=torch.float64)


def pattern(causal: bool) -> Tensor:
    scores = 2 * random(LAYERS, HEADS, N, N)
    return scores.masked_fill(~sees(N, causal), -torch.inf).softmax(-1)


def sees(n: int, causal: bool) -> Tensor:
    allowed = torch.ones(n, n, dtype=torch.bool)
    return allowed.tril() if causal else allowed


A, Z, W_O = pattern(False), random(LAYERS, HEADS, N, D_HEAD), random(LAYERS, HEADS, D_HEAD, D_MODEL)
LEFT, RIGHT = random(2, LAYERS, HEADS, D_MODEL, D_HEAD)
LEFT[1, 2, :, 3:] = LEFT[1, 2, :, :2]  # a head that spans less than the others
WRITTEN = list(zip(Z.numpy(), W_O.numpy(), strict=True))


def of(kind: str) -> list[str]:
    return [key for key, metric in METRICS.items() if metric.of == kind]


def close(got: Tensor, want: Any) -> None:
    np.testing.assert_allclose(got.numpy(), np.asarray(want), atol=1e-8, rtol=1e-6)


def paired(key: str, *heads: Tensor) -> list[list[float]]:
    """The formula between any two heads."""
    each = [head.flatten(0, 1).numpy() for head in heads]
    every = each[0] if len(each) == 1 else list(zip(*each, strict=True))
    return [[FORMULAS[key](a, b) for b in every] for a in every]


def test_every_formula_of_the_page_is_evaluated_here() -> None:
    assert {key: metric.formula for key, metric in METRICS.items()} == LATEX, (
        "change the function in tests/core/formulas.py with its LaTeX"
    )


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("key", of("head"))
def test_of_a_head(key: str, causal: bool) -> None:
    weights = A if not causal else pattern(True)
    text = Text(IDS.numpy(), SPECIAL.numpy(), sees(N, causal).numpy(), PERIOD)
    facts, about = TokenFacts(IDS, SPECIAL, causal, period=PERIOD), dict(z=Z, W_O=list(W_O))
    if key == "sink":
        weights = weights * random(LAYERS, HEADS, N, 1).sigmoid()
        about["sink"] = 1 - weights.sum(-1)
    table = head_table(weights, facts, **about)
    want = np.zeros((LAYERS, HEADS))
    for i, j in np.ndindex(*want.shape):
        if "outputs" in METRICS[key].needs:
            others = list(zip(*WRITTEN[i], strict=True))
            want[i, j] = FORMULAS[key](*others[j], others)
        else:
            want[i, j] = FORMULAS[key](weights[i, j].numpy(), text)
    close(table[key], want)


@pytest.mark.parametrize("key", of("pair"))
def test_of_a_pair(key: str) -> None:
    given = Z if "outputs" in METRICS[key].needs else A
    got = METRICS[key].function(given)
    want = paired(key, given)
    close(got**2 if key == "hellinger" else got, np.square(want) if key == "hellinger" else want)


@pytest.mark.parametrize("key", of("parameters"))
def test_of_parameters(key: str) -> None:
    given = (LEFT, RIGHT) if key.startswith("product") else (LEFT,)
    close(METRICS[key].function(*map(list, given)), paired(key, *given))


@pytest.mark.parametrize("key", of("layer"))
def test_of_a_layer(key: str) -> None:
    metric = METRICS[key]
    if key == "diversity":
        close(
            torch.stack([metric.function(W) for W in LEFT]), list(map(FORMULAS[key], LEFT.numpy()))
        )
    elif "outputs" in metric.needs:
        heads = [list(zip(*layer, strict=True)) for layer in WRITTEN]
        close(metric.function(Z, list(W_O)), list(map(FORMULAS[key], heads)))
    else:
        close(metric.function(A), list(map(FORMULAS[key], A.numpy())))


def test_through_all_layers() -> None:
    small = A[:, :, :5, :5] / A[:, :, :5, :5].sum(-1, keepdim=True)
    assert of("flow") == ["attention_rollout", "attention_flow", "value_weighted"]
    rollout, flow, weighted = (METRICS[key].function for key in of("flow"))
    close(rollout(A), FORMULAS["attention_rollout"](A.numpy()))
    close(flow(small, 3), FORMULAS["attention_flow"](small.numpy(), 3))
    got = weighted(A, Z, list(W_O))
    for i, j in np.ndindex(LAYERS, HEADS):
        arrays = (given[i, j].numpy() for given in (A, Z, W_O))
        close(got[i, j], FORMULAS["value_weighted"](*arrays))
