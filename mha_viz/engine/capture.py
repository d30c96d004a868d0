"""The attention weights of any network that calls PyTorch's attention."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import accumulate, count
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from mha_viz.core.attention.dot_product import attention, weights
from mha_viz.errors import ArgumentError, RecordError
from mha_viz.text.from_weights import record

if TYPE_CHECKING:
    from mha_viz.core.record.attention_record import AttentionRecord
    from mha_viz.core.record.fields import Token

TOLERANCE = 1e-4  # of float32: between our weights and the mean over heads that a module returns


@dataclass(frozen=True, eq=False)
class Call:
    """One call of attention and its weights."""

    module: str  # the innermost one that made it, by its name in `network.named_modules()`
    pattern: Float[Tensor, "batch n_heads query key"]
    run: int = 0  # how often the network had been called; 0 where a part was called by itself


@dataclass(eq=False)
class Captured:
    """The calls of attention of one run, in their order.

    >>> encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, batch_first=True), 3)
    >>> with capture(encoder.eval()) as taken:
    ...     _ = encoder(torch.randn(1, 5, 16))
    >>> taken.record("a b c d e".split()).shape  # (layer, head, query, key)
    (3, 2, 5, 5)
    """

    calls: list[Call] = field(default_factory=list)
    hint: str = ""  # what to do where there are none

    @property
    def modules(self) -> list[str]:
        """The names of the modules that called, without repeats, in the order of their calls."""
        return list(dict.fromkeys(call.module for call in self.calls))

    def record(
        self,
        tokens: Iterable[str | Token],
        key_tokens: Iterable[str | Token] = (),
        *,
        modules: str | Sequence[str] = "",
        item: int = 0,
        **about: Any,
    ) -> AttentionRecord:
        """Return the weights as a record, a layer for each call.

        The runs of one `generate` are put together, as its steps. After it `tokens` may hold the
        last one, which the network has not read.

        Args:
            tokens: names of the queries, as for `mv.record`; patches of an image are tokens, too.
            key_tokens: names of the keys, where those are others (cross attention).
            modules: names of the modules to take, or the beginning that theirs have in common; all
                if not given. Needed where calls differ in shape, as in an encoder-decoder.
            item: place in the batch.
            **about: as for `mv.record`: special, model, text, part, causal ...

        Raises:
            RecordError: no such call, calls that differ in shape, tokens that do not fit, or
                several runs that are not the steps of one generation.
        """
        chosen = [
            call
            for call in self.calls
            if (
                call.module.startswith(modules)
                if isinstance(modules, str)
                else call.module in modules
            )
        ]
        if not chosen:
            raise RecordError(
                f"No attention was captured of {modules or 'the network'!r}: expected a call of "
                "nn.MultiheadAttention or F.scaled_dot_product_attention inside of the block. "
                f"There are: {', '.join(self.modules) or 'none'}.{self.hint}"
            )
        if not 0 <= item < (n_items := min(len(call.pattern) for call in chosen)):
            raise RecordError(f"item must be in 0..{n_items - 1}, got {item}.")
        runs: dict[int, list[Call]] = {}
        for call in chosen:
            runs.setdefault(call.run, []).append(call)
        first, *later = runs.values()
        steps = [first, *([_unfolded(call, first[0]) for call in calls] for calls in later)]
        shapes = {call.pattern.shape[1:]: call.module for call in steps[0]}
        if len(steps) == 1 and len(shapes) > 1:
            names = ", ".join(f"{module} {tuple(shape)}" for shape, module in shapes.items())
            raise RecordError(f"Choose modules whose weights have one shape; there are: {names}.")
        patterns = [tuple(call.pattern[item] for call in calls) for calls in steps]
        if len(steps) == 1:
            return record(patterns[0], tokens, key_tokens, **about)
        _check_steps(steps, is_cross=bool(key_tokens))
        return record(patterns, tokens, key_tokens, **about)


def _unfolded(call: Call, first: Call) -> Call:
    """Return the call of one query by heads, where those that share keys stood as its queries."""
    (_, n_groups, n_queries, _), n_heads = call.pattern.shape, first.pattern.shape[1]
    if n_groups == n_heads or n_groups * n_queries != n_heads:
        return call
    return replace(call, pattern=call.pattern.flatten(1, 2).unsqueeze(2))


def _check_steps(steps: Sequence[Sequence[Call]], is_cross: bool) -> None:
    """Check that several runs are the steps of one generation."""
    modules = {tuple(call.module for call in calls) for calls in steps}
    shapes = [calls[0].pattern.shape for calls in steps]
    ends = accumulate(n_queries for *_, n_queries, _ in shapes)
    same_keys = len({n_keys for *_, n_keys in shapes}) == 1
    goes_on = all(n_keys <= end for (*_, n_keys), end in zip(shapes, ends, strict=True))
    singly = all(n_queries == 1 for *_, n_queries, _ in shapes[1:])
    if len(modules) > 1 or not singly or not (same_keys if is_cross else goes_on):
        raise RecordError(
            f"The network was called {len(steps)} times in the block, by "
            f"{', '.join(sorted({name for names in modules for name in names}))}: choose modules "
            "of one kind, and capture one call, or one `generate` of one text, at a time."
        )


@contextmanager
def capture(network: nn.Module) -> Iterator[Captured]:
    """Capture the weights of all attention that a network computes in the block.

    Takes every call of `F.scaled_dot_product_attention`, and so `nn.MultiheadAttention`,
    `nn.TransformerEncoder` and `nn.TransformerDecoder`, whose fast paths are off meanwhile. The
    weights are computed by our own function; where a module is asked for its own (`need_weights`),
    ours are compared with them. The outputs of the network stay what they are but for rounding.

    Args:
        network: any module, in evaluation mode: dropout would hide weights.

    Yields:
        Captured, which fills as the network runs.

    Raises:
        ArgumentError: attention with dropout, or weights that differ from the module's own.

    >>> layer = nn.TransformerEncoderLayer(16, 2, batch_first=True).eval()
    >>> with capture(layer) as taken:
    ...     _ = layer(torch.randn(1, 3, 16))
    >>> taken.record(["a", "b", "c"]).pattern.shape
    torch.Size([1, 2, 3, 3])
    """
    built = getattr(getattr(network, "config", None), "_attn_implementation", "sdpa")
    hint = " Call network.set_attn_implementation('sdpa') first." if built != "sdpa" else ""
    captured = Captured(hint=hint)
    stack: list[str] = []
    counter = count(1)
    runs = [0]
    with ExitStack() as hooks:
        begin = network.register_forward_pre_hook(lambda *_: runs.append(next(counter)))
        hooks.callback(begin.remove)
        end = network.register_forward_hook(lambda *_: _leave(runs), always_call=True)
        hooks.callback(end.remove)
        for name, module in network.named_modules():
            for handle in (
                module.register_forward_pre_hook(lambda *_, name=name: stack.append(name)),
                module.register_forward_hook(lambda *_: _leave(stack), always_call=True),
            ):
                hooks.callback(handle.remove)
        hooks.enter_context(_Capturing(captured.calls, stack, runs))
        yield captured


def _leave(stack: list[Any]) -> None:
    """Leave a module or run; a hook that returned it would replace the module's output by it."""
    stack.pop()


class _Capturing(TorchFunctionMode):
    """Lets PyTorch's attention run as it is, and computes its weights by our function beside it."""

    def __init__(self, calls: list[Call], stack: list[str], runs: list[int]) -> None:
        super().__init__()
        self.calls, self.stack, self.runs = calls, stack, runs

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        if func in (F.scaled_dot_product_attention, F.multi_head_attention_forward):
            call = _SIGNATURES[func].bind(*args, **named)
            call.apply_defaults()
            if func is F.multi_head_attention_forward:
                return self._module(func, call.arguments)
            return self._fused(func(*args, **named), call.arguments)
        return func(*args, **named)

    def _fused(self, output: Tensor, call: Mapping[str, Any]) -> Tensor:
        """Keep the weights of one fused call, called as torch names its arguments.

        Its output is (*batch, n_heads, query, d).
        """
        _check_dropout(call["dropout_p"])
        query, key, value = (call[name] for name in ("query", "key", "value"))
        if query.ndim == 3:  # no axis of heads
            query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        mixed, pattern = attention(
            query, key, value, call["attn_mask"], call["is_causal"], call["scale"]
        )
        assert pattern is not None  # it was asked for
        self._keep(pattern, mixed, output.reshape(mixed.shape))
        return output

    def _module(
        self, func: Callable[..., tuple[Tensor, Tensor]], call: dict[str, Any]
    ) -> tuple[Tensor, Tensor | None]:
        """Keep the weights of one `nn.MultiheadAttention`, called as torch names its arguments."""
        _check_dropout(call["dropout_p"] if call["training"] else 0.0)
        output, weights = func(**{**call, "need_weights": True, "average_attn_weights": False})
        each = weights if weights.ndim == 4 else weights[None]  # (batch, n_heads, query, key)
        pattern = _weights(call)
        self._keep(each if pattern is None else pattern, each if pattern is None else pattern, each)
        if not call["need_weights"]:
            return output, None
        return output, weights.mean(-3) if call["average_attn_weights"] else weights

    def _keep(self, pattern: Tensor, ours: Tensor, theirs: Tensor) -> None:
        """Keep weights (*batch, n_heads, query, key), if ours and PyTorch's own are alike."""
        name = self.stack[-1] if self.stack else ""
        # A query that may attend to nothing gets NaN or uniform weights there, and zeros here.
        attends = (pattern.sum(-1, keepdim=True) > 0).expand_as(theirs)
        difference = (
            float((ours - theirs).detach()[attends].abs().max()) if bool(attends.any()) else 0.0
        )
        if not difference <= TOLERANCE:
            raise ArgumentError(
                f"Our attention of {name or 'the network'} differs from its own by "
                f"{difference:.2g}: expected at most {TOLERANCE:g}. It computes attention in a way "
                "that is not known here."
            )
        self.calls.append(Call(name, pattern.detach().flatten(0, -4), self.runs[-1]))


def _weights(call: Mapping[str, Any]) -> Tensor | None:
    """Compute the weights of a module by our function; None where it adds keys of its own."""
    if call["bias_k"] is not None or call["add_zero_attn"] or call["static_k"] is not None:
        return None
    query, key, heads = call["query"], call["key"], call["num_heads"]
    if query.ndim == 2:  # no batch
        query, key = query.unsqueeze(1), key.unsqueeze(1)
    if call["use_separate_proj_weight"]:
        matrices = call["q_proj_weight"], call["k_proj_weight"]
    else:
        matrices = call["in_proj_weight"].chunk(3)[:2]
    biases = (None, None) if call["in_proj_bias"] is None else call["in_proj_bias"].chunk(3)[:2]
    q, k = (  # (batch, n_heads, token, d_head)
        F.linear(x, matrix, bias).unflatten(-1, (heads, -1)).permute(1, 2, 0, 3)
        for x, matrix, bias in zip((query, key), matrices, biases, strict=True)
    )
    return weights(q, k, _mask(call, q, k))


def _mask(call: Mapping[str, Any], q: Tensor, k: Tensor) -> Tensor | None:
    """Add up a module's two masks, in which True forbids, as floats."""

    def floats(mask: Tensor) -> Tensor:
        forbids = mask.dtype == torch.bool
        return (
            torch.zeros_like(mask, dtype=q.dtype).masked_fill(mask, -math.inf) if forbids else mask
        )

    pairs, keys = call["attn_mask"], call["key_padding_mask"]
    total = None
    if pairs is not None:  # (query, key), or (batch * n_heads, query, key)
        total = floats(pairs)
        total = total.unflatten(0, q.shape[:2]) if total.ndim == 3 else total
    if keys is not None:  # (key) or (batch, key)
        padding = floats(keys).reshape(-1, 1, 1, k.shape[2])
        total = padding if total is None else total + padding
    return total


def _check_dropout(probability: float) -> None:
    if probability > 0:
        raise ArgumentError(
            f"Attention with dropout ({probability:g}) cannot be captured, for dropout hides "
            "weights at random: call network.eval() first, and give no dropout_p."
        )


# torch's built-in function has no signature that can be read.
_EITHER = inspect.Parameter.POSITIONAL_OR_KEYWORD
_DEFAULTS: dict[str, Any] = dict(attn_mask=None, dropout_p=0.0, is_causal=False, scale=None)
_DEFAULTS["enable_gqa"] = False
_FUSED_SIGNATURE = inspect.Signature(
    [inspect.Parameter(name, _EITHER) for name in ("query", "key", "value")]
    + [inspect.Parameter(name, _EITHER, default=value) for name, value in _DEFAULTS.items()]
)
_SIGNATURES = {
    F.scaled_dot_product_attention: _FUSED_SIGNATURE,
    F.multi_head_attention_forward: inspect.signature(F.multi_head_attention_forward),
}
