"""Which norms stand between what one layer's heads write and what another layer's heads read.

Families call and place their norms differently. Here one short text is run, and the norms are found
by what came in and went out of them; a layer whose sums do not come out so is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from mha_viz.circuits.fold import Fold
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.run import run
from mha_viz.engine.stand_ins import StandIn, with_stand_ins
from mha_viz.errors import NotKeptError
from mha_viz.text.encoding import encode_texts

_SAMPLE = "A short text."


@dataclass(frozen=True, eq=False)
class Wiring:
    """The norms of a stack of layers, as their linear parts.

    Args:
        reading: for each layer what stands before its queries, keys and values: of families that
            put their norms first; None where the layer reads the residual stream itself.
        writing: for each layer what stands behind W_O, before the sum; None for most.
        passing: for each layer what its heads' output, once in the stream, passes on its way to
            the next layer; empty where the norms stand beside the stream and not in it.
        normed_heads: whether queries and keys are normed once more, head by head.
        rotary: whether queries and keys are turned by their positions.
    """

    reading: tuple[Fold | None, ...]
    writing: tuple[Fold | None, ...]
    passing: tuple[tuple[Fold, ...], ...]
    normed_heads: bool
    rotary: bool

    @property
    def centred(self) -> bool:
        """Whether nobody behind the first layer can see the mean of what was written."""
        behind = self.reading[1:]
        return not any(self.passing) and all(fold is not None and fold.centred for fold in behind)


class _Call(NamedTuple):
    """A module was called: what it was given, and what it made of it."""

    module: nn.Module
    given: Tensor
    made: Tensor

    @property
    def is_norm(self) -> bool:
        return "norm" in type(self.module).__name__.lower()


class _Step(NamedTuple):
    """One layer's norms, still as modules."""

    reading: nn.Module | None
    writing: nn.Module | None
    passing: tuple[nn.Module, ...]


class _Found(NamedTuple):
    """All that a run tells; gains are read anew each time, as weights may be changed."""

    steps: tuple[_Step, ...]
    normed_heads: bool


_FOUND: WeakKeyDictionary[AttentionModel, _Found] = WeakKeyDictionary()


def wiring_of(model: AttentionModel, dtype: torch.dtype) -> Wiring:
    """The norms between the layers of a model's first part.

    Args:
        model: any whose projections are known.
        dtype: to give gains in.

    Raises:
        NotKeptError: its layers pass their sums on in a way that is not known here.
        AttentionUnavailableError: the family computes its attention by itself.
    """
    if model not in _FOUND:
        _FOUND[model] = _find(model)
    found = _FOUND[model]
    known: dict[nn.Module | None, Fold | None] = {None: None}

    def fold(norm: nn.Module | None) -> Fold | None:
        if norm not in known:
            assert norm is not None
            known[norm] = Fold.of(norm, dtype)
        return known[norm]

    return Wiring(
        reading=tuple(fold(step.reading) for step in found.steps),
        writing=tuple(fold(step.writing) for step in found.steps),
        passing=tuple(
            tuple(one for norm in step.passing if (one := fold(norm)) is not None)
            for step in found.steps
        ),
        normed_heads=found.normed_heads,
        rotary=any("rotary" in type(m).__name__.lower() for m in model.network.modules()),
    )


def _find(model: AttentionModel) -> _Found:
    calls = _calls(model)
    reads, writes = _places(model, calls)
    ends = [*reads[1:], len(calls)]
    steps = [
        _step(model, calls, *places, layer)
        for layer, places in enumerate(zip(reads, writes, ends, strict=True))
    ]
    within = [call for r, w in zip(reads, writes, strict=True) for call in calls[r:w]]
    return _Found(tuple(steps), any(call.is_norm for call in within))


def _step(
    model: AttentionModel, calls: Sequence[_Call], read: int, write: int, end: int, layer: int
) -> _Step:
    """Find one layer's norms by what came before and after its attention.

    Args:
        model: for messages.
        calls: of all modules, in order.
        read: the call that makes its queries.
        write: the call of its W_O.
        end: the call that makes the next layer's queries; behind the last where there is none.
        layer: for messages.
    """
    seen, output, behind = calls[read].given, calls[write].made, calls[write:end]
    following = calls[end].given if end < len(calls) else None
    passing = _in_the_stream(behind, seen, output, following)
    if passing:
        return _Step(None, None, passing)
    reading, stream = _norm_before(calls[:read], seen)
    _, after = (None, None) if following is None else _norm_before(calls[:end], following)
    normed = next((c for c in behind if c.is_norm and _same(c.given, output)), None)
    if after is None:  # the last layer: no further sum to compare with
        return _Step(reading, normed.module if normed else None, ())
    for norm, written in ((None, output), *([(normed.module, normed.made)] if normed else [])):
        so_far = stream + written
        if any(_same(after, so_far + call.made) for call in behind if _fits(call.made, after)):
            return _Step(reading, norm, ())
    raise NotKeptError(
        f"Layer {layer} of {model.name} ({model.family}) adds up its attention and its MLP in a "
        "way that is not known here, expected were norms before or behind both: choose a BERT, "
        "GPT-2, Llama or a close relative."
    )


def _in_the_stream(
    behind: Sequence[_Call], seen: Tensor, output: Tensor, following: Tensor | None
) -> tuple[nn.Module, ...]:
    """The norms of a layer that norms its sums: what it reads plus what it adds, again and again.

    The first is of input + attention; each of the others of the norm before + what was made since.
    None where the layer is of another kind.
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
    """The norm that made what is read, and what it was given; with none the stream is read."""
    for call in reversed(calls):
        if call.is_norm and _same(call.made, read):
            return call.module, call.given
    return None, read


def _places(model: AttentionModel, calls: Sequence[_Call]) -> tuple[list[int], list[int]]:
    """For each layer which call makes its queries, and which is that of W_O."""
    used: set[int] = set()

    def next_of(module: nn.Module) -> int:
        place = next(i for i, c in enumerate(calls) if c.module is module and i not in used)
        used.add(place)  # a family may run one module again and again
        return place

    pairs = [layer.modules() for layer in model.layers()]
    return [next_of(q) for q, _, _ in pairs], [next_of(o) for _, _, o in pairs]


def _calls(model: AttentionModel) -> list[_Call]:
    """Every call of an innermost module, embeddings aside, in one pass over a short text."""
    calls: list[_Call] = []
    stand_ins = {
        path: _Noting(module, calls)
        for path, module in model.network.named_modules(remove_duplicate=False)
        if not any(module.children()) and not isinstance(module, nn.Embedding)
    }
    source, target = encode_texts(model.reader, _SAMPLE)
    run(
        with_stand_ins(model.network, stand_ins),
        model.backend,
        [source],
        None if target is None else [target],
        pad=model.tokenizer.pad_token_id or 0,
    )
    return calls


class _Noting(StandIn):
    """Calls the original, and notes what went in and out where both are vectors."""

    def __init__(self, original: nn.Module, calls: list[_Call]) -> None:
        super().__init__(original)
        self.__dict__["calls"] = calls

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """As the original."""
        given = args[0].clone() if args and isinstance(args[0], Tensor) else None
        output = self.original(*args, **kwargs)
        if given is not None and isinstance(output, Tensor):
            # copies: a family may add to them in place
            self.calls.append(_Call(self.original, _rows(given), _rows(output.clone())))
        return output


def _rows(tensor: Tensor) -> Tensor:
    """(token, width), whatever stands before; OPT's MLP sees all tokens in one axis."""
    return tensor.flatten(0, -2) if tensor.ndim > 2 else tensor


def _fits(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.is_floating_point()


def _same(one: Tensor, other: Tensor) -> bool:
    """Equal but for the rounding of a sum or two."""
    if not _fits(one, other):
        return False
    tolerance = max(1e-5, 2 * float(torch.finfo(one.dtype).eps))
    return bool((one - other).norm() <= tolerance * other.norm())
