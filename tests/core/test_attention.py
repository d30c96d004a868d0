"""The attention function against torch's own, against the definition, and at its edges."""

import math
import warnings
from collections.abc import Callable
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from mha_viz.core.attention.attention import attention, reference_attention, scores
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
@pytest.mark.parametrize("need_pattern", [True, False], ids=["explicit", "fused"])
@pytest.mark.parametrize("kv_heads", [HEADS, 1])
def test_it_is_what_the_definition_says(how: dict, need_pattern: bool, kv_heads: int) -> None:
    query, key, value = qkv(2, kv_heads=kv_heads)
    got_z, got_pattern = attention(query, key, value, **how, need_pattern=need_pattern)
    want_z, want_pattern = by_definition(query, key, value, **how)
    close(got_z, want_z)
    if need_pattern:
        close(got_pattern, want_pattern)
    else:
        assert got_pattern is None


@pytest.mark.parametrize("name", [name for name in CASES if "softcap" not in name])
@pytest.mark.parametrize("kv_heads", [1, 5])
@pytest.mark.parametrize("need_pattern", [True, False])
def test_reference_attention_agrees_with_attention(
    name: str, kv_heads: int, need_pattern: bool
) -> None:
    how = dict(CASES[name])
    if name == "additive per head":
        how["mask"] = torch.linspace(-2, 2, 5 * KEY).reshape(5, 1, KEY)
    query, key, value = qkv(2, heads=5, kv_heads=kv_heads, value_width=D_VALUE)
    got, pattern = attention(query, key, value, **how, need_pattern=need_pattern)
    rescaled = query * how.pop("scale", D_HEAD**-0.5) * D_HEAD**0.5
    want, want_pattern = reference_attention(rescaled, key, value, **how)
    close(got, want)
    if need_pattern:
        close(pattern, want_pattern)


@pytest.mark.parametrize("how", CASES.values(), ids=CASES.keys())
def test_gradients(how: dict) -> None:
    parts = [part.double().requires_grad_() for part in qkv(heads=2, kv_heads=1, width=2)]
    mask = how.get("mask")
    if mask is not None and mask.dtype != torch.bool:
        mask = mask[:2].double().requires_grad_()  # a learned position bias
    gates = torch.tensor([0.3, 1.7], dtype=torch.float64, requires_grad=True)

    def run(query: Tensor, key: Tensor, value: Tensor, gates: Tensor) -> tuple[Tensor, Tensor]:
        return attention(query, key, value, **{**how, "mask": mask}, gates=gates)

    assert torch.autograd.gradcheck(run, (*parts, gates))
    if mask is not None and mask.requires_grad:
        run(*parts, gates)[0].square().sum().backward()
        assert mask.grad.abs().min() > 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("need_pattern", [True, False])
def test_half_types_come_back_as_they_went_in(dtype: torch.dtype, need_pattern: bool) -> None:
    query, key, value = qkv(2, dtype=dtype, key=211)
    mask = torch.arange(211) != 17
    got, pattern = attention(query, key, value, mask, need_pattern=need_pattern)
    want, want_pattern = by_definition(query[:1], key[:1], value[:1], mask=mask)
    coarse = torch.finfo(dtype).eps
    assert got.dtype == dtype
    assert (got[:1].double() - want).abs().max() < 4 * coarse
    if need_pattern:
        assert pattern.dtype == dtype
        assert (pattern[:1].double() - want_pattern).abs().max() < 4 * coarse
        # adding up 2048 ones in half itself would stop at 2048 (or 256): here many small weights
        close(pattern.float().sum(-1), torch.ones(2, HEADS, QUERY), atol=2 * coarse)


def test_dropout_keeps_the_mean_and_spares_the_pattern() -> None:
    query, key, value = qkv(2)
    want, want_pattern = attention(query, key, value)
    torch.manual_seed(5)
    runs = [attention(query, key, value, dropout=0.3) for _ in range(3001)]
    assert torch.equal(runs[0][1], want_pattern)
    assert not torch.allclose(runs[0][0], want)
    mean = torch.stack([run[0] for run in runs]).mean(0)
    spread = torch.stack([run[0] for run in runs]).std(0) / math.sqrt(3001)
    assert ((mean - want).abs() < 5 * spread + 1e-6).all()
    assert (attention(query, key, value, dropout=1.0)[0] == 0).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_the_pattern_is_written_where_out_says(dtype: torch.dtype) -> None:
    parts = qkv(2, dtype=dtype)
    mask = torch.arange(QUERY)[:, None] != 2  # a row of nothing, too
    want, want_pattern = attention(*parts, mask)
    out = torch.full((2, HEADS, QUERY, KEY), torch.nan, dtype=dtype)
    got, pattern = attention(*parts, mask, out=out)
    assert pattern.data_ptr() == out.data_ptr()
    with warnings.catch_warnings():  # torch warns of an `out` of another shape
        warnings.simplefilter("error")
        scores(*(part[:1] for part in parts[:2]), out=out[:1].clone())
    last_place = max(ROUNDING, 4 * torch.finfo(dtype).eps)
    close(out, want_pattern, last_place)
    close(got, want, last_place)


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
    "gates shape": (ShapeError, r"gates.*\(2, 3\)", {"gates": torch.ones(2)}),
    "bool gates": (DTypeError, "gates.*floating.*bool", {"gates": torch.ones(3) > 0}),
    "scale": (ArgumentError, "scale.*finite.*nan", {"scale": math.nan}),
    "softcap": (ArgumentError, "softcap.*positive.*0", {"softcap": 0.0}),
    "dropout": (ArgumentError, r"dropout.*\[0, 1\].*1.5", {"dropout": 1.5}),
}


@pytest.mark.parametrize(("error", "words", "change"), WRONG.values(), ids=WRONG.keys())
@pytest.mark.parametrize("need_pattern", [True, False])
def test_what_is_wrong_is_said(
    error: type[MhaVizError], words: str, change: dict, need_pattern: bool
) -> None:
    with pytest.raises(error, match=words):
        attention(**{"query": Q, "key": K, "value": V, **change}, need_pattern=need_pattern)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sinks_take_their_share_of_every_row(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(5)
    query, key, value = (torch.randn(2, 3, 7, 5, generator=generator).to(dtype) for _ in range(3))
    sinks = torch.tensor([-30.0, 0.5, 30.0], dtype=dtype)
    raw = query.float() @ key.float().mT * 5**-0.5
    raw = raw.masked_fill(torch.ones(7, 7, dtype=torch.bool).triu(1), -torch.inf)
    column = sinks.float()[:, None, None].expand(2, 3, 7, 1)
    want = torch.cat([raw, column], -1).softmax(-1)[..., :-1]
    z, pattern = attention(query, key, value, causal=True, sinks=sinks)
    atol = ROUNDING if dtype == torch.float32 else 2e-2
    close(pattern.float(), want, atol)
    close(z.float(), want @ value.float(), 5 * atol)
    alone, none = attention(query, key, value, causal=True, sinks=sinks, need_pattern=False)
    assert torch.equal(alone, z) and none is None
    with pytest.raises(ShapeError, match=r"sinks must be \(3,\)"):
        attention(query, key, value, sinks=sinks[:2])


@pytest.mark.parametrize("need_pattern", [True, False])
def test_gates_scale_each_head(need_pattern: bool) -> None:
    query, key, value = qkv(2)
    want, want_pattern = attention(query, key, value)
    gates = torch.tensor([[0.0, 1.0, 2.5], [1.0, 0.5, 0.0]])
    got, pattern = attention(query, key, value, gates=gates, need_pattern=need_pattern)
    close(got, want * gates[..., None, None])
    if need_pattern:
        close(pattern, want_pattern)
    shared, _ = attention(query, key, value, gates=gates[0])
    close(shared, want * gates[0][:, None, None])


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
    got, pattern = attention(*parts, mask, need_pattern=need_pattern)
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
        got, _ = attention(*parts, mask, need_pattern=need_pattern)
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
