"""The attention function against torch's own, against the definition, and at its edges."""

import math
from collections.abc import Callable
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from mha_viz.core.attention.dot_product import (
    attention,
    fused_z,
    reference_attention,
    weights,
    write_weights,
)
from mha_viz.core.attention.dot_product import z as mix
from mha_viz.core.attention.scoring import Sight
from mha_viz.errors import ArgumentError, DTypeError, MhaVizError, ShapeError
from tests.core.attention_by_definition import (
    D_HEAD,
    D_VALUE,
    HEADS,
    KEY,
    LOWEST,
    NEVER,
    QUERY,
    by_definition,
    qkv,
)
from tests.making.comparing import ROUNDING, close

CASES = {
    "plain": {},
    "causal": {"causal": True},
    "scale": {"scale": 0.29},
    "softcap": {"softcap": 1.9, "scale": 1.0},
    "key padding": {"mask": (torch.arange(KEY) < 5)},
    "bool": {"mask": torch.arange(QUERY * KEY).reshape(QUERY, KEY) % 3 > 0},
    "bool and causal": {
        "mask": torch.arange(QUERY * KEY).reshape(QUERY, KEY) % 3 < 2,
        "causal": True,
    },
    "additive per head": {"mask": torch.linspace(-2, 2, HEADS * KEY).reshape(HEADS, 1, KEY)},
    "a row of nothing": {"mask": torch.arange(QUERY)[:, None] != 2},
    "softcap under a mask": {"mask": torch.arange(KEY) > 1, "softcap": 0.7},
}


@pytest.mark.parametrize("how", CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("kv_heads", [HEADS, 1])
def test_it_is_what_the_definition_says(how: dict, kv_heads: int) -> None:
    query, key, value = qkv(2, kv_heads=kv_heads, value_width=D_VALUE)
    got_z, got_pattern = attention(query, key, value, **how)
    want_z, want_pattern = by_definition(query, key, value, **how)
    close(got_z, want_z)
    close(got_pattern, want_pattern)
    assert torch.equal(weights(query, key, **how), got_pattern)
    if "softcap" not in how:
        close(fused_z(query, key, value, **how), want_z)
        unscaled = {name: setting for name, setting in how.items() if name != "scale"}
        rescaled = query * how.get("scale", D_HEAD**-0.5) * D_HEAD**0.5
        reference_z, reference_pattern = reference_attention(rescaled, key, value, **unscaled)
        close(reference_z, want_z)
        close(reference_pattern, want_pattern)


@pytest.mark.parametrize("how", CASES.values(), ids=CASES.keys())
def test_gradients(how: dict) -> None:
    parts = [part.double().requires_grad_() for part in qkv(heads=2, kv_heads=1, width=2)]
    mask = how.get("mask")
    if mask is not None and mask.dtype != torch.bool:
        mask = mask[:2].double().requires_grad_()  # a learned position bias

    def run(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        return attention(query, key, value, **{**how, "mask": mask})

    assert torch.autograd.gradcheck(run, parts)
    if mask is not None and mask.requires_grad:
        run(*parts)[0].square().sum().backward()
        assert mask.grad.abs().min() > 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types_come_back_as_they_went_in(dtype: torch.dtype) -> None:
    query, key, value = qkv(2, dtype=dtype, key=211)
    mask = torch.arange(211) != 17
    got, pattern = attention(query, key, value, mask)
    want, want_pattern = by_definition(query[:1], key[:1], value[:1], mask=mask)
    coarse = torch.finfo(dtype).eps
    for z in (got, fused_z(query, key, value, mask)):
        assert z.dtype == dtype
        assert (z[:1].double() - want).abs().max() < 4 * coarse
    assert pattern.dtype == dtype
    assert (pattern[:1].double() - want_pattern).abs().max() < 4 * coarse
    # adding up 2048 ones in half itself would stop at 2048 (or 256): here many small weights
    close(pattern.float().sum(-1), torch.ones(2, HEADS, QUERY), atol=2 * coarse)


def test_former_arguments_of_attention_warn_and_do_what_they_did() -> None:
    query, key, value = qkv(2)
    mask = torch.arange(QUERY)[:, None] != 2  # a row of nothing, too
    want, want_pattern = attention(query, key, value, mask)

    def formerly(**former: object) -> tuple[Tensor, Tensor | None]:
        with pytest.warns(DeprecationWarning, match=next(iter(former))):
            return attention(query, key, value, mask, **former)

    mixed, pattern = formerly(dropout=0.3)
    assert torch.equal(pattern, want_pattern) and not torch.allclose(mixed, want)
    assert (formerly(dropout=1.0)[0] == 0).all()
    assert formerly(need_pattern=False)[1] is None
    close(formerly(need_pattern=False)[0], want)
    gates = torch.tensor([[0.0, 1.0, 2.5], [1.0, 0.5, 0.0]])
    close(formerly(gates=gates)[0], want * gates[..., None, None])
    out = torch.full((2, HEADS, QUERY, KEY), torch.nan)
    assert formerly(out=out)[1].data_ptr() == out.data_ptr() and torch.equal(out, want_pattern)
    sinks = torch.zeros(HEADS)
    assert torch.equal(formerly(sinks=sinks)[1], weights(query, key, mask, sinks=sinks))
    with pytest.raises(ShapeError, match=r"gates.*\(2, 3\)"):
        formerly(gates=torch.ones(2))
    with pytest.raises(ArgumentError, match=r"dropout.*\[0, 1\].*1.5"):
        formerly(dropout=1.5)
    with pytest.raises(TypeError, match="unexpected keyword argument 'weight'"):
        attention(query, key, value, weight=1)


@pytest.mark.parametrize("softcap", [None, 1.9])
@pytest.mark.parametrize("kv_heads", [HEADS, 1])
def test_write_weights_fills_the_memory_that_it_is_given(
    softcap: float | None, kv_heads: int
) -> None:
    query, key, _ = qkv(2, kv_heads=kv_heads)
    mask = torch.arange(QUERY)[:, None] != 2  # a row of nothing, too
    sinks = torch.tensor([-30.0, 0.5, 30.0])
    pattern = torch.full((2, HEADS, QUERY, KEY), torch.nan)
    write_weights(pattern, query, key, mask, 0.7, softcap, sinks)
    close(pattern, weights(query, key, mask, False, 0.7, softcap, sinks))


Q, K, V = qkv(2)
WRONG: dict[str, tuple[type[MhaVizError], str, dict]] = {
    "integer query": (DTypeError, "query.*floating point.*int64", {"query": Q.long()}),
    "mixed dtypes": (DTypeError, "key.*float32.*float64", {"key": K.double()}),
    "no head axis": (ShapeError, r"query.*head, token, width.*\(5, 11\)", {"query": Q[0, 0]}),
    "no keys": (ShapeError, "key.*token.*0", {"key": K[:, :, :0], "value": V[:, :, :0]}),
    "batch": (ShapeError, r"same batch.*\(1, 3, 7, 11\)", {"key": K[:1], "value": V[:1]}),
    "key width": (ShapeError, r"same width d_head.*\(2, 3, 7, 10\)", {"key": K[..., 1:]}),
    "value length": (ShapeError, r"same heads and tokens.*\(2, 3, 6", {"value": V[:, :, 1:]}),
    "value heads": (ShapeError, "same heads and tokens", {"value": V[:, 1:]}),
    "kv heads": (ShapeError, "divide.*2 and 3", {"key": K[:, 1:], "value": V[:, 1:]}),
    "mask shape": (ShapeError, r"mask.*\(2, 3, 5, 7\).*\(5, 6\)", {"mask": torch.ones(5, 6) > 0}),
    "integer mask": (DTypeError, "mask.*bool.*int64", {"mask": torch.ones(5, 7).long()}),
    "mask device": (ArgumentError, "mask.*cpu.*meta", {"mask": torch.ones(7, device="meta")}),
    "key device": (ArgumentError, "key.*cpu.*meta", {"key": K.to("meta")}),
    "scale": (ArgumentError, "scale.*finite.*nan", {"scale": math.nan}),
    "softcap": (ArgumentError, "softcap.*positive.*0", {"softcap": 0.0}),
}


@pytest.mark.parametrize(("error", "words", "change"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_said(error: type[MhaVizError], words: str, change: dict) -> None:
    with pytest.raises(error, match=words):
        attention(**{"query": Q, "key": K, "value": V, **change})


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sinks_take_their_share_of_every_row(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(5)
    query, key, value = (torch.randn(2, 3, 7, 5, generator=generator).to(dtype) for _ in range(3))
    sinks = torch.tensor([-30.0, 0.5, 30.0], dtype=dtype)
    raw = query.float() @ key.float().mT * 5**-0.5
    raw = raw.masked_fill(torch.ones(7, 7, dtype=torch.bool).triu(1), -torch.inf)
    column = sinks.float()[:, None, None].expand(2, 3, 7, 1)
    want = torch.cat([raw, column], -1).softmax(-1)[..., :-1]
    pattern = weights(query, key, causal=True, sinks=sinks)
    atol = ROUNDING if dtype == torch.float32 else 2e-2
    close(pattern.float(), want, atol)
    close(mix(pattern, value).float(), want @ value.float(), 5 * atol)
    with pytest.raises(ShapeError, match=r"sinks must be \(3,\)"):
        weights(query, key, sinks=sinks[:2])


@pytest.mark.parametrize("mask_dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_a_mask_may_have_another_float_dtype(mask_dtype: torch.dtype, dtype: torch.dtype) -> None:
    query, key, value = qkv(dtype=dtype)
    mask = torch.zeros(QUERY, KEY, dtype=mask_dtype)
    mask[1, 3] = mask[2] = torch.finfo(mask_dtype).min
    _, pattern = attention(query, key, value, mask)
    assert pattern.dtype == dtype
    assert torch.equal(pattern[:, 2], torch.zeros(HEADS, KEY, dtype=dtype))
    assert (pattern[:, 1, 3] == 0).all() and (pattern[:, 1, 4] > 0).all()


@pytest.mark.parametrize("need_pattern", [True, False])
@pytest.mark.parametrize("never", [None, NEVER, LOWEST])
def test_a_row_of_nothing_gives_zeros_and_finite_gradients(
    need_pattern: bool, never: float | None
) -> None:
    parts = [part.requires_grad_() for part in qkv(2)]
    allowed = torch.ones(2, 1, QUERY, KEY, dtype=torch.bool)
    allowed[1, :, 3] = False
    mask = allowed if never is None else torch.zeros(allowed.shape).masked_fill(~allowed, never)
    got, pattern = attention(*parts, mask) if need_pattern else (fused_z(*parts, mask), None)
    assert torch.equal(got[1, :, 3], torch.zeros(HEADS, D_HEAD))
    assert (got[0, :, 3] != 0).all()
    if need_pattern:
        sums = pattern.sum(-1)
        assert torch.equal(sums[1, :, 3], torch.zeros(HEADS))
        close(sums[0], torch.ones(HEADS, QUERY))
    got.sum().backward()
    assert all(part.grad.isfinite().all() for part in parts)
    assert torch.equal(parts[0].grad[1, :, 3], torch.zeros(HEADS, D_HEAD))


def textbook_kernel(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor, *_: object, **how: object
) -> Tensor:
    """Torch's fused kernel as its documentation defines it: NaN for a row of only -inf."""
    factor = query.shape[-1] ** -0.5 if how["scale"] is None else how["scale"]
    return torch.softmax(query @ key.mT * factor + bias, -1) @ value


@pytest.mark.parametrize("never", [None, NEVER, LOWEST])
@pytest.mark.parametrize("kernel", [F.scaled_dot_product_attention, textbook_kernel])
def test_gradients_of_the_fused_path_do_not_hang_on_what_a_kernel_makes_of_a_row_of_nothing(
    kernel: Callable[..., Tensor], never: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(F, "scaled_dot_product_attention", kernel)
    mask = torch.arange(QUERY)[:, None] != 2
    if never is not None:
        mask = torch.zeros(QUERY, KEY).masked_fill(~mask, never)
    gradients = []
    for need_pattern in (True, False):
        parts = [part.requires_grad_() for part in qkv(2)]
        got = attention(*parts, mask)[0] if need_pattern else fused_z(*parts, mask)
        got.square().sum().backward()
        gradients.append([part.grad for part in parts])
    for explicit, fused in zip(*gradients, strict=True):
        assert fused.isfinite().all()
        close(fused, explicit)


def test_the_queries_that_see_any_key_are_those_of_a_row_with_any():
    dice = torch.Generator().manual_seed(7)
    sights = [Sight(*band) for band in product((None, -2, 0, 3), (None, -2, 0, 3))]
    mask = torch.rand(7, 5, generator=dice) > 0.7
    for sight, shape in [*product(sights, ((7, 5), (5, 7), (1, 1))), (Sight(mask=mask), (7, 5))]:
        expected = sight.visible_keys(slice(None), *shape).any(-1)
        assert torch.equal(sight.sees_any(*shape), expected), (sight, shape)
    assert not mask.any(-1).all() and mask.any()
