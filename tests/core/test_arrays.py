"""Numpy's arrays, and lists of them, give what tensors give."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from mha_viz.core.metrics import METRICS
from mha_viz.errors import DTypeError, ShapeError
from tests.core.patterns import HEADS, LAYERS, N, random_pattern
from tests.core.records import make
from tests.making.comparing import close

PATTERN = random_pattern()
Z = torch.randn(LAYERS, HEADS, N, 5)
W_O = list(torch.randn(LAYERS, HEADS, 5, 11))
WEIGHTS = list(torch.randn(LAYERS, HEADS, 13, 5))
EXTRA = {
    "special": {"is_special": torch.arange(N) < 2},
    "repeats": {"ids": torch.arange(N) % 3},
    "sink": {"sink": torch.rand(LAYERS, HEADS, N)},
}
PERIOD = {"period": 3}


def arrays(given: Any) -> Any:
    """The same in the same memory, with numpy's arrays in place of tensors."""
    if isinstance(given, torch.Tensor):
        return given.numpy()
    if isinstance(given, list | tuple):
        return type(given)(map(arrays, given))
    return {name: arrays(value) for name, value in given.items()} if type(given) is dict else given


def call(key: str, turned: Callable[[Any], Any]) -> torch.Tensor:
    metric = METRICS[key]
    subject: tuple[Any, ...] = (PATTERN,)
    if key == "diversity":
        subject = (WEIGHTS[1],)
    elif metric.of == "parameters":
        subject = (WEIGHTS, WEIGHTS[::-1]) if key.startswith("product") else (WEIGHTS,)
    elif metric.of == "flow":
        subject = {"attention_flow": (PATTERN, 2), "value_weighted": (PATTERN, Z, W_O)}.get(
            key, subject
        )
    elif "outputs" in metric.needs:
        subject = (Z,) if metric.of == "pair" else (Z, W_O)
    extra = {k: v for need in metric.needs for k, v in EXTRA.get(need, {}).items()}
    extra |= PERIOD if "period" in metric.needs else {}
    return metric.function(*turned(subject), **turned(extra))


@pytest.mark.parametrize("key", METRICS)
def test_every_metric_takes_arrays(key: str) -> None:
    got, want = call(key, arrays), call(key, lambda given: given)
    assert isinstance(got, torch.Tensor)
    close(got, want, 0, 0)  # to the bit: the same memory


def test_arrays_of_any_layout_and_byte_order_are_read_or_refused_in_words() -> None:
    entropy = METRICS["entropy"].function
    locked = PATTERN.numpy().copy()
    locked.flags.writeable = False
    backwards = np.ascontiguousarray(PATTERN.numpy()[..., ::-1])[..., ::-1]
    for given in (locked, backwards, np.asfortranarray(locked)):
        close(entropy(given), entropy(PATTERN))
    with pytest.raises(DTypeError, match="pattern must be a tensor or an array of numbers, got"):
        entropy(PATTERN.numpy().astype(object))
    with pytest.raises(DTypeError, match="got >f4"):
        entropy(PATTERN.numpy().astype(">f4"))
    with pytest.raises(DTypeError, match="got list"):
        entropy([PATTERN[0].numpy(), PATTERN[0, :2].numpy()])
    with pytest.raises(DTypeError, match="got NoneType"):
        entropy(None)
    with pytest.raises(DTypeError, match="floating point, got"):
        entropy(make().pattern.long().numpy())
    with pytest.raises(ShapeError, match=r"\(3, 7, 7\)"):
        entropy(PATTERN[0].numpy())


@pytest.mark.parametrize("key", METRICS)
def test_what_is_not_known_comes_out_as_not_known(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One head of NaN: it has no number, nor has what it is part of; other heads keep theirs."""
    metric, want = METRICS[key], call(key, lambda given: given)
    pattern, z, weights = PATTERN.clone(), Z.clone(), [layer.clone() for layer in WEIGHTS]
    pattern[1, 2] = z[1, 2] = weights[1][2] = torch.nan
    sink = EXTRA["sink"]["sink"].clone()
    sink[1, 2] = torch.nan
    monkeypatch.setitem(EXTRA, "sink", {"sink": sink})
    for name, value in (("PATTERN", pattern), ("Z", z), ("WEIGHTS", weights)):
        monkeypatch.setitem(globals(), name, value)
    got = call(key, lambda given: given)
    if metric.of == "head":
        assert got[1, 2].isnan()
        close(got[0], want[0])
    elif metric.of == "layer" and got.ndim:
        assert got[1].isnan().all() and got[0].isfinite().all()
    elif metric.of in ("pair", "parameters"):
        assert got[-1].isnan().all() and got[:, -1].isnan().all()
    else:
        assert got.isnan().any() and not (got == 0).all()
