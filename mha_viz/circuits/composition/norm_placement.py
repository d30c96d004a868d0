"""Norms between what one layer's heads write and what another layer's heads read.

Families call and place their norms differently. Here one short text is run, and the norms are found
by what came in and went out of them; a layer whose sums do not come out so is refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from mha_viz.circuits.composition.factored_matrix import Fold
from mha_viz.engine.layer_activations import ModuleProxy, replace_modules
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.run import run
from mha_viz.errors import MhaVizError, NotKeptError
from mha_viz.text.cleaning import visible
from mha_viz.text.encoding import encode_texts

LINEAR = (nn.Linear, Conv1D)
_SAMPLE = "A short text."


@dataclass(frozen=True, eq=False)
class NormPlacement:
    """The norms of a stack of layers, as their linear parts."""

    # before queries, keys and values of each layer; None where it reads the stream itself
    reading: tuple[Fold | None, ...]
    writing: tuple[Fold | None, ...]  # behind W_O of each layer, before the sum; None for most
    # in the stream between a layer's heads and the next layer; empty where norms stand beside it
    passing: tuple[tuple[Fold, ...], ...]
    # between the last sum and the output, (None,) for none; empty where that is not known
    final: tuple[Fold | None, ...]
    # between embeddings and stream, as modules; None where more than norms stands there
    entering: tuple[nn.Module, ...] | None
    normed_heads: bool  # whether queries and keys are normed once more, head by head
    rotary: bool  # whether queries and keys are turned by their positions

    @property
    def centred(self) -> bool:
        """True if nothing behind the first layer sees the mean of what was written."""
        behind = self.reading[1:]
        return not any(self.passing) and all(fold is not None and fold.centred for fold in behind)


class _Call(NamedTuple):
    """A call of a module: its input and its output."""

    module: nn.Module
    given: Tensor
    made: Tensor

    @property
    def is_norm(self) -> bool:
        return "norm" in type(self.module).__name__.lower()


# One layer's norms, still as modules: reading, writing and passing.
_Step = tuple[nn.Module | None, nn.Module | None, tuple[nn.Module, ...]]


class _Found(NamedTuple):
    """All that one run shows; gains are read anew each time, as weights may be changed."""

    steps: tuple[_Step, ...]
    final: tuple[nn.Module | None, ...]
    entering: tuple[nn.Module, ...] | None
    normed_heads: bool


_FOUND: WeakKeyDictionary[AttentionModel, _Found] = WeakKeyDictionary()


def norm_placement(model: AttentionModel, dtype: torch.dtype) -> NormPlacement:
    """Find the norms between the layers of a model's first part; NotKeptError where unknown."""
    if model not in _FOUND:
        _FOUND[model] = _find(model)
    found = _FOUND[model]

    @cache  # layers may share a norm
    def fold(norm: nn.Module | None) -> Fold | None:
        return None if norm is None else Fold.of(norm, dtype)

    reading, writing, passing = zip(*found.steps, strict=True)
    return NormPlacement(
        reading=tuple(map(fold, reading)),
        writing=tuple(map(fold, writing)),
        passing=tuple(tuple(Fold.of(norm, dtype) for norm in norms) for norms in passing),
        final=tuple(map(fold, found.final)),
        entering=found.entering,
        normed_heads=found.normed_heads,
        rotary=model.is_rotary,
    )


def _find(model: AttentionModel) -> _Found:
    calls, hidden = _calls(model)
    reads, writes = _places(model, calls)
    ends = [*reads[1:], len(calls)]
    steps = [
        _step(model, calls, *places, layer)
        for layer, places in enumerate(zip(reads, writes, ends, strict=True))
    ]
    within = [call for r, w in zip(reads, writes, strict=True) for call in calls[r:w]]
    before = [call for call in calls[: reads[0]] if call.is_norm or isinstance(call.module, LINEAR)]
    entering = [call for call in before if call.module is not steps[0][0]]
    final: tuple[nn.Module | None, ...] = ()
    if hidden is not None and not any(passing for _, _, passing in steps):
        _, stream = _norm_before(calls[: reads[-1]], calls[reads[-1]].given)
        norm, after = _norm_before(calls, hidden)
        final = (norm,) * len(_writing(stream, calls[writes[-1]].made, after, calls[writes[-1] :]))
    return _Found(
        tuple(steps),
        final=final,
        entering=tuple(call.module for call in entering)
        if all(call.is_norm for call in entering)
        else None,
        normed_heads=any(call.is_norm for call in within),
    )


def _step(
    model: AttentionModel, calls: Sequence[_Call], read: int, write: int, end: int, layer: int
) -> _Step:
    """Find one layer's norms by what came before and after its attention.

    `read` and `write` number the calls that make its queries and apply its W_O; `end` is the call
    that makes the next layer's queries, or lies behind the last call.
    """
    seen, output, behind = calls[read].given, calls[write].made, calls[write:end]
    following = calls[end].given if end < len(calls) else None
    passing = _in_the_stream(behind, seen, output, following)
    if passing:
        return None, None, passing
    reading, stream = _norm_before(calls[:read], seen)
    _, after = (None, None) if following is None else _norm_before(calls[:end], following)
    if after is None:  # the last layer: no further sum to compare with
        normed = next((c.module for c in behind if c.is_norm and _same(c.given, output)), None)
        return reading, normed, ()
    for writing in _writing(stream, output, after, behind):
        return reading, writing, ()
    raise NotKeptError(
        f"Layer {layer} of {model.name} ({model.family}) adds up its attention and its MLP in a "
        "way that is not known here, expected were norms before or behind both: choose a BERT, "
        "GPT-2, Llama or a close relative."
    )


def _writing(
    stream: Tensor, output: Tensor, after: Tensor, behind: Sequence[_Call]
) -> tuple[nn.Module | None, ...]:
    """Find the norm between W_O and the stream, or (None,); empty if the sum is unknown."""
    normed = [call for call in behind if call.is_norm and _same(call.given, output)]
    for norm, written in ((None, output), *((call.module, call.made) for call in normed)):
        so_far = stream + written
        if any(_same(after, so_far + call.made) for call in behind if _fits(call.made, after)):
            return (norm,)
    return ()


def _in_the_stream(
    behind: Sequence[_Call], seen: Tensor, output: Tensor, following: Tensor | None
) -> tuple[nn.Module, ...]:
    """Find the norms of a layer that norms its sums: what it reads plus what it adds.

    The first is of input + attention; each of the others of the norm before + what was made since.
    Empty where the layer is of another kind.
    """
    passed: list[nn.Module] = []
    stream, added = seen, [output]
    for call in behind:
        fits = call.is_norm and _fits(call.given, stream)
        if fits and any(_same(call.given, stream + one) for one in added):
            passed.append(call.module)
            stream, added = call.made, []
        if _fits(call.made, stream):
            added.append(call.made)
    whole = following is None or _same(stream, following)
    return tuple(passed) if whole else ()


def _norm_before(calls: Sequence[_Call], read: Tensor) -> tuple[nn.Module | None, Tensor]:
    """Find the norm that made what is read, and its input; without one that is the stream."""
    for call in reversed(calls):
        if call.is_norm and _same(call.made, read):
            return call.module, call.given
    return None, read


def _places(model: AttentionModel, calls: Sequence[_Call]) -> tuple[list[int], list[int]]:
    """Find for each layer the call that makes its queries, and the call of W_O."""
    used: set[int] = set()

    def next_of(module: nn.Module) -> int:
        place = next(i for i, c in enumerate(calls) if c.module is module and i not in used)
        used.add(place)  # a family may run one module again and again
        return place

    pairs = [layer.modules() for layer in model.layers()]
    return [next_of(q) for q, _, _ in pairs], [next_of(o) for _, _, o in pairs]


def _calls(model: AttentionModel) -> tuple[list[_Call], Tensor | None]:
    """List every call of an innermost module, embeddings aside, in one pass over a short text.

    The second value is what a single stack made of it in the end.
    """
    calls: list[_Call] = []
    replacements = {
        path: _Recording(module, calls=calls)
        for path, module in model.network.named_modules(remove_duplicate=False)
        if not any(module.children()) and not isinstance(module, nn.Embedding)
    }
    source, target = encode_texts(model.reader, _SAMPLE)
    try:
        left = run(
            replace_modules(model.network, replacements),
            model.backend,
            [source],
            None if target is None else [target],
            pad=model.tokenizer.pad_token_id or 0,
        )
    except MhaVizError:
        raise
    except Exception as error:  # of the family's own code, which has other modules in it here
        raise NotKeptError(
            f"The norms of {model.name} ({model.family}) cannot be found: a pass that records each "
            f"part ends in {visible(f'{type(error).__name__}: {error}')[:200]!r}. Choose a BERT, "
            "GPT-2, Llama or a close relative."
        ) from error
    hidden = left["self"].hidden if "self" in left else None
    return calls, None if hidden is None else _rows(hidden)


class _Recording(ModuleProxy):
    """A stand-in that records input and output where both are vectors."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the original, and record."""
        given = args[0].clone() if args and isinstance(args[0], Tensor) else None
        output = self.original(*args, **kwargs)
        if given is not None and isinstance(output, Tensor):
            # copies: a family may add to them in place
            self.calls.append(_Call(self.original, _rows(given), _rows(output.clone())))
        return output


def _rows(tensor: Tensor) -> Tensor:
    """Flatten to (token, width); OPT's MLP sees all tokens in one axis."""
    return tensor.flatten(0, -2) if tensor.ndim > 2 else tensor


def _fits(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.is_floating_point()


def _same(one: Tensor, other: Tensor) -> bool:
    """Compare two tensors but for the rounding of a sum or two."""
    if not _fits(one, other):
        return False
    tolerance = max(1e-5, 2 * float(torch.finfo(one.dtype).eps))
    return bool((one - other).norm() <= tolerance * other.norm())
