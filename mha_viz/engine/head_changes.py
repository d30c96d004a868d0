"""Checks of an intervention or gates against a model and a text, and the numbers they need."""

from collections.abc import Sequence

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from mha_viz.core.layer_numbers import head_name, layers_in_words
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.engine.intervention import Change, Intervention, ReferenceMeans
from mha_viz.engine.loaded_network import LoadedNetwork
from mha_viz.engine.probe import HeadEdits
from mha_viz.engine.recording import trace_encoded
from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.text.cleaning import in_a_row, visible
from mha_viz.text.encoding import attending, encode_texts
from mha_viz.text.tokens import Encoded

Gates = Tensor | ArrayLike  # shape and numbers are checked by hand, with messages of our own
Texts = tuple[Encoded | None, Encoded | None]  # that run: the text, and a decoder's


def head_edits(
    model: LoadedNetwork,
    gates: Gates | None = None,
    intervention: Intervention | None = None,
    *,
    part: str | None = None,
    texts: Texts = (None, None),
) -> HeadEdits | None:
    """Check gates and an intervention for a run; None where there is nothing to change.

    Gates are finite factors (layer, head) on the heads' z, in a tensor, an array or nested lists; 1
    leaves a head as it is, 0 switches it off. They are for `part`, the first one if not given, an
    intervention for its own. `texts` are the text, and the decoder's of an encoder-decoder, that
    will run; None where it grows, as in generation: then neither a mean over it nor a patch is
    possible. Raises ShapeError: gates that are not (layer, head) of that part. ArgumentError: gates
    that are not finite numbers, or of another part than the intervention; no such head or part; a
    source record of other sizes or another token count. AttentionUnavailableError: the family
    computes its attention by itself. NotKeptError: a source record without z.
    """
    if gates is None and intervention is None:
        return None
    part = model.parts[0] if part is None else part
    edited = part if intervention is None else intervention.part or model.parts[0]
    if gates is not None and edited != part:
        raise ArgumentError(
            f"gates are for {part} and the intervention for {edited}: use one of them alone."
        )
    factors = None if gates is None else _checked_gates(model, gates, edited)
    change = None if intervention is None else _prepared(model, intervention, edited, texts)
    return HeadEdits(factors, change, edited, _note(factors, intervention, edited))


def reference_means(
    model: LoadedNetwork, texts: Sequence[str], part: str | None = None
) -> ReferenceMeans:
    """Average each head's z over all positions of all texts: the replacement of "mean".

    Compute it once and hand it to every `Intervention` that uses the same texts. Raises
    ArgumentError: no text. TextError: a text that cannot be used. AttentionUnavailableError: the
    family computes its attention by itself.

    >>> import mha_viz as mv
    >>> means = reference_means(mv.load("tiny-gpt2"), ["The cat sat", "A dog ran home"])
    >>> tuple(means.means.shape), means.n_texts
    ((4, 8, 32), 2)
    """
    part = model.parts[0] if part is None else part
    part_size(model, part)
    if isinstance(texts, str) or not texts:
        raise ArgumentError("reference must be a list of at least one text.")
    total, n = torch.zeros(()), 0
    for text in texts:
        z = _trace(model, text, part).require("z")
        total, n = total + z.double().sum(2), n + z.shape[2]
    return ReferenceMeans((total / n).float(), len(texts), n, part)


def averaged_over(intervention: Intervention, n_positions: int) -> str:
    """Say what "mean" averaged over, for a text of so many tokens; "" for any other way."""
    if intervention.how != "mean":
        return ""
    reference = intervention.reference
    if reference is None:
        return f"the {n_positions} positions of this text"
    if not isinstance(reference, ReferenceMeans):
        return f"{len(reference)} reference text{'s' * (len(reference) > 1)}"
    n = reference.n_texts
    return f"the {reference.n_positions} positions of {n} reference text{'s' * (n > 1)}"


def part_size(model: LoadedNetwork, part: str) -> tuple[int, int]:
    """Return the part's number of layers, and of heads in a layer, where heads can be changed."""
    layers = model.layers(part)
    return len(layers), layers[0].n_heads


def head_place(
    model: LoadedNetwork, layer: int, head: int, part: str | None = None
) -> tuple[int, int]:
    """Return where arrays (layer, head) of a part, the first one if not given, have a head.

    `layer` is the model's own number, one of its `layer_numbers`. Raises ArgumentError: there is no
    such head; the message names the layers and heads that there are.
    """
    _, n_heads = part_size(model, model.parts[0] if part is None else part)
    numbers = model.numbers_of(part)
    if layer in numbers and 0 <= head < n_heads:
        return numbers.index(layer), head
    raise ArgumentError(
        f"{model.name} has no L{layer} H{head}: {layers_in_words(numbers)} and heads "
        f"0..{n_heads - 1}."
    )


def _trace(model: LoadedNetwork, text: str, part: str) -> AttentionRecord:
    return trace_encoded(model, *encode_texts(model.reader, text), only=part)[part]


def _checked_gates(model: LoadedNetwork, gates: Gates, part: str) -> Tensor:
    """Return gates as float32 (layer, head) on the model's device."""
    n_layers, n_heads = part_size(model, part)
    try:
        factors = torch.as_tensor(gates).to(model.device, torch.float32)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ArgumentError(f"gates must be numbers (layer, head), got {gates!r}.") from error
    if tuple(factors.shape) != (n_layers, n_heads):
        raise ShapeError(
            f"gates must have the shape (layer, head) = ({n_layers}, {n_heads}) for {model.name}"
            f"{'' if part == 'self' else ' ' + part}, got {tuple(factors.shape)}."
        )
    if not torch.isfinite(factors).all():
        layer, head = (~torch.isfinite(factors)).nonzero()[0].tolist()
        raise ArgumentError(
            f"gates must be finite numbers, got {float(factors[layer, head])} at "
            f"{head_name(layer, head, numbers=model.numbers_of(part))}."
        )
    return factors


def _prepared(model: LoadedNetwork, intervention: Intervention, part: str, texts: Texts) -> Change:
    """Check the intervention against a model and a text, and add the numbers it needs."""
    heads_at = [head_place(model, layer, head, part) for layer, head in intervention.heads]
    heads = {
        layer: torch.tensor(sorted(h for at, h in heads_at if at == layer))
        for layer in sorted({at for at, _ in heads_at})
    }
    values = patterns = None
    if intervention.how == "mean":
        values = _mean(model, intervention.reference, part, texts)
    if intervention.how.startswith("patch"):
        record = _source_record(model, intervention, part, texts)
        if intervention.how == "patch_pattern":
            patterns = record.patterns
        else:
            values = _source_z(model, record, part)
    return Change(intervention.how, heads, float(intervention.factor), values, patterns)


def _note(gates: Tensor | None, intervention: Intervention | None, part: str) -> str:
    """Say in a record's note which heads were changed; "" where gates of ones change nothing."""
    changes = []
    if gates is not None and bool((gates != 1).any()):
        changes.append(
            f"{int((gates != 1).sum())} of {gates.numel()} heads under a gate other than 1"
        )
    if intervention is not None:
        names = [head_name(*head) for head in intervention.heads]
        names = names if len(names) <= 8 else [*names[:8], f"and {len(names) - 8} more"]
        by = f" by {intervention.factor:g}" if intervention.how == "scale" else ""
        changes.append(f"{intervention.how}{by} of {', '.join(names)}")
    if not changes:
        return ""
    return (
        f"This run had heads changed{'' if part == 'self' else f' ({part})'}: {'; '.join(changes)}."
    )


def _mean(
    model: LoadedNetwork, reference: Sequence[str] | ReferenceMeans | None, part: str, texts: Texts
) -> Tensor | None:
    """Return the means to put in; None where our function takes them of the text as it goes."""
    if reference is None:
        if texts[0] is None:
            raise ArgumentError(
                "A text that is still being written has no mean of its own: give reference= texts."
            )
        return None
    if not isinstance(reference, ReferenceMeans):
        reference = reference_means(model, reference, part)
    expected = part_size(model, part)
    if reference.part != part or tuple(reference.means.shape[:2]) != expected:
        raise ArgumentError(
            f"reference has means of {reference.part}, (layer, head) = "
            f"{tuple(reference.means.shape[:2])}; {model.name} needs those of {part}, {expected}."
        )
    return reference.means


def _source_record(
    model: LoadedNetwork, intervention: Intervention, part: str, texts: Texts
) -> AttentionRecord:
    """Return the record of the second text, of as many tokens as the first."""
    source, target = texts
    if source is None:
        raise ArgumentError(
            "Patching needs two texts of as many tokens; a text that is still being written "
            "grows. Patch a prediction instead."
        )
    record = intervention.source
    if not isinstance(record, AttentionRecord):
        assert record is not None  # the intervention itself was checked
        record = _trace(model, record, part)
    if record.merged or record.removed is not None:
        raise ArgumentError(
            "The source record was merged to words or lost tokens: patch from the record as it "
            "was traced."
        )
    queries, keys = (len(text.tokens) for text in attending(part, source, target))
    if (len(record.tokens), len(record.key_tokens)) != (queries, keys):
        raise ArgumentError(
            f"Patching needs texts of as many tokens: this one has {queries}"
            f"{'' if queries == keys else f' and {keys} keys'}, the source "
            f"“{visible(record.text, 100)}” has {len(record.tokens)}"
            f"{'' if queries == keys else f' and {len(record.key_tokens)}'} "
            f"({in_a_row(record.labels)}). Change a word in one of them."
        )
    expected = (part, *part_size(model, part))
    _, n_layers, n_heads = expected
    theirs = (record.part, record.n_layers, record.n_heads)
    foreign = part == "self" and model.causal and not record.causal  # it would see the future
    if theirs != expected or foreign:
        raise ArgumentError(
            f"The source record ({record.model}: {theirs[0]}, {theirs[1]} layers of {theirs[2]} "
            f"heads) does not fit {model.name} ({part}, {n_layers} layers of {n_heads} heads)."
        )
    return record


def _source_z(model: LoadedNetwork, record: AttentionRecord, part: str) -> Tensor:
    """Return z of the second text, as wide as the model's own."""
    z, W_O = record.require("z"), model.layers(part)[0].output()
    if W_O is not None and W_O.shape[1] != z.shape[-1]:
        raise ArgumentError(
            f"The source record's heads are {z.shape[-1]} wide, those of {model.name} "
            f"{W_O.shape[1]}: patch z from a run of the same model."
        )
    return z
