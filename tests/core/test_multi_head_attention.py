"""The module against torch's own, its heads against its output, and its ways in."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from mha_viz.core.attention.multi_head import AttentionWeights, MultiHeadAttention
from mha_viz.errors import ArgumentError, DTypeError, MhaVizError, ShapeError
from tests.making.comparing import close

BATCH, QUERY, KEY = 2, 5, 7
HEADS, D_HEAD = 3, 11
D_MODEL = HEADS * D_HEAD


def tokens(length: int = QUERY, width: int = D_MODEL, seed: int = 19) -> Tensor:
    return torch.randn(BATCH, length, width, generator=torch.Generator().manual_seed(seed))


def torch_module(**how: object) -> nn.MultiheadAttention:
    torch.manual_seed(29)
    module = nn.MultiheadAttention(D_MODEL, HEADS, batch_first=True, **how)
    for name, parameter in module.named_parameters():
        if "bias" in name:
            nn.init.normal_(parameter)  # torch starts them at 0, where a lost bias would not show
    return module.eval()


MODULES = {"plain": {}, "no bias": {"bias": False}, "other widths": {"kdim": 13, "vdim": 17}}


@pytest.mark.parametrize("how", MODULES.values(), ids=MODULES.keys())
@pytest.mark.parametrize("need_pattern", [True, False])
def test_it_agrees_with_torch_across_two_texts(how: dict, need_pattern: bool) -> None:
    theirs = torch_module(**how)
    ours = MultiHeadAttention.from_torch(theirs)
    query = tokens()
    key, value = tokens(KEY, how.get("kdim", D_MODEL), 1), tokens(KEY, how.get("vdim", D_MODEL), 2)
    padding = torch.tensor([[False] * 7, [False] * 4 + [True] * 3])
    want, want_pattern = theirs(query, key, value, padding, average_attn_weights=False)
    got = ours(query, key, value, mask=~padding[:, None, None], need_pattern=need_pattern)
    close(got.output, want)
    if need_pattern:
        close(got.pattern, want_pattern)
    else:
        assert got.pattern is None and got.scores is None


def test_it_agrees_with_torch_within_one_text() -> None:
    theirs = torch_module()
    x = tokens()
    future = torch.ones(QUERY, QUERY, dtype=torch.bool).triu(1)
    want, _ = theirs(x, x, x, attn_mask=future)
    close(MultiHeadAttention.from_torch(theirs)(x, causal=True).output, want)


def test_from_torch_copies_and_keeps_the_mode() -> None:
    theirs = torch_module(dropout=0.3).train()
    ours = MultiHeadAttention.from_torch(theirs)
    assert ours.training and ours.dropout == 0.3
    assert not MultiHeadAttention.from_torch(torch_module()).training
    with torch.no_grad():
        ours.W_Q.zero_()
    assert theirs.in_proj_weight[:D_MODEL].abs().min() > 0
    for extra in ({"add_bias_kv": True}, {"add_zero_attn": True}):
        with pytest.raises(ArgumentError, match="add_bias_kv"):
            MultiHeadAttention.from_torch(torch_module(**extra))


def fresh(**how: object) -> MultiHeadAttention:
    torch.manual_seed(31)
    mha = MultiHeadAttention(D_MODEL, **{"n_heads": HEADS, **how})
    for name, parameter in mha.named_parameters():
        if name.startswith("b_"):
            nn.init.normal_(parameter)
    return mha


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("how", [{}, {"n_heads": 6, "n_kv_heads": 2, "d_head": 7, "d_value": 13}])
def test_the_heads_sum_to_the_output(how: dict, bias: bool) -> None:
    mha = fresh(bias=bias, **how)
    out = mha(tokens())
    heads = mha.head_output(out.z)
    assert heads.shape == (BATCH, mha.n_heads, QUERY, D_MODEL)
    close(heads.sum(1) + (mha.b_O if bias else 0.0), out.output)
    close(mha(tokens()[0]).output, out.output[0])  # a text without a batch axis


def test_one_head_by_hand() -> None:
    mha, x = fresh(n_heads=6, n_kv_heads=2, d_head=7, d_value=13, scale=0.3, softcap=1.1), tokens()
    out = mha(x, causal=True)
    head, group = 4, 4 // 3
    q = x @ mha.W_Q[head] + mha.b_Q[head]
    k = x @ mha.W_K[group] + mha.b_K[group]
    v = x @ mha.W_V[group] + mha.b_V[group]
    raw = 1.1 * torch.tanh(0.3 * q @ k.mT / 1.1)
    raw = raw.masked_fill(torch.ones(QUERY, QUERY, dtype=torch.bool).triu(1), -torch.inf)
    close(out.scores[:, head], raw)
    close(out.pattern[:, head], raw.softmax(-1))
    close(out.z[:, head], raw.softmax(-1) @ v)
    close(mha.head_output(out.z)[:, head], raw.softmax(-1) @ v @ mha.W_O[head])


def test_it_starts_as_xavier_would() -> None:
    torch.manual_seed(37)
    mha = MultiHeadAttention(211, 3, d_head=103)
    for weight in (mha.W_Q, mha.W_O):
        bound = (6 / (211 + 309)) ** 0.5
        assert 0.99 * bound < weight.abs().max() <= bound
        assert float(weight.detach().std()) == pytest.approx(bound / 3**0.5, rel=0.02)
    assert (mha.b_V == 0).all()


@pytest.mark.parametrize("need_pattern", [True, False])
def test_dropout_is_for_training_only(need_pattern: bool) -> None:
    mha, x = fresh(dropout=0.4), tokens()
    calm = mha.eval()(x, need_pattern=need_pattern)
    assert torch.equal(calm.output, mha(x, need_pattern=need_pattern).output)
    torch.manual_seed(41)
    shaken = mha.train()(x, need_pattern=need_pattern)
    assert not torch.allclose(shaken.output, calm.output)
    if need_pattern:
        assert torch.equal(shaken.pattern, calm.pattern)


def parts() -> dict[str, Tensor]:
    torch.manual_seed(43)
    return {
        "W_Q": torch.randn(6, D_MODEL, 7),
        "W_K": torch.randn(2, D_MODEL, 7),
        "W_V": torch.randn(2, D_MODEL, 13),
        "W_O": torch.randn(6, 13, D_MODEL),
        "b_Q": torch.randn(6, 7),
        "b_V": torch.randn(2, 13),
        "b_O": torch.randn(D_MODEL),
    }


def weights_with(**change: Tensor) -> Callable[[], object]:
    return lambda: AttentionWeights(**{**parts(), **change})


def sizes_with(**change: float) -> Callable[[], object]:
    return lambda: MultiHeadAttention(D_MODEL, **{"n_heads": HEADS, **change})


def tokens_with(need_pattern: bool, **change: Tensor) -> Callable[[], object]:
    return lambda: fresh()(**{"query": tokens(), **change}, need_pattern=need_pattern)


WRONG: list[tuple[type[MhaVizError], str, Callable[[], object]]] = [
    (ShapeError, r"W_K.*\(head, in, out\).*\(33, 7\)", weights_with(W_K=torch.ones(D_MODEL, 7))),
    (ShapeError, "divide.*4 and 6", weights_with(W_K=torch.ones(4, D_MODEL, 7))),
    (ShapeError, r"W_K.*\(2, 33, 7\).*\(2, 33, 5\)", weights_with(W_K=torch.ones(2, 33, 5))),
    (ShapeError, r"W_V.*\(2, 33, 13\)", weights_with(W_V=torch.ones(3, 33, 13))),
    (ShapeError, r"W_O.*\(6, 13, 33\).*\(6, 11, 33\)", weights_with(W_O=torch.ones(6, 11, 33))),
    (ShapeError, r"b_Q.*\(6, 7\).*\(42,\)", weights_with(b_Q=torch.ones(42))),
    (DTypeError, "W_V.*floating", weights_with(W_V=torch.ones(2, 33, 13).long())),
    (DTypeError, "b_O.*float32.*float64", weights_with(b_O=torch.ones(33).double())),
    (ShapeError, "n_heads must divide d_model.*5 and 33", sizes_with(n_heads=5)),
    (ShapeError, "n_kv_heads must divide.*2 and 3", sizes_with(n_kv_heads=2)),
    (ShapeError, "0 and 0", sizes_with(n_heads=0)),
    (ArgumentError, "at least 1.*0.*W_Q", sizes_with(d_head=0)),
    (ArgumentError, "dropout.*-0.1", sizes_with(dropout=-0.1)),
]
for need_pattern in (True, False):
    WRONG += [
        (ShapeError, r"33\).*\(2, 5, 31\)", tokens_with(need_pattern, query=torch.ones(2, 5, 31))),
        (DTypeError, "query.*int64", tokens_with(need_pattern, query=torch.ones(2, 5, 33).long())),
        (
            DTypeError,
            "float64.*32|32.*float64",
            tokens_with(need_pattern, key=tokens(KEY).double()),
        ),
    ]


@pytest.mark.parametrize(("error", "words", "call"), WRONG)
def test_what_does_not_fit_is_refused(
    error: type[MhaVizError], words: str, call: Callable[[], object]
) -> None:
    with pytest.raises(error, match=words):
        call()
