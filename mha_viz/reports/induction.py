"""Induction scores: random texts of the model's own tokens, repeated once, in one forward pass."""

from dataclasses import replace

import torch

from mha_viz.core.metrics import induction
from mha_viz.core.metrics.baselines import offset_pattern, uniform_pattern
from mha_viz.core.record.patterns import MOST_BYTES
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.recording import recorded_mask, run_texts
from mha_viz.engine.run import Run
from mha_viz.errors import ArgumentError
from mha_viz.interventions.importance import t_interval
from mha_viz.reports.induction_scores import InductionScores as InductionScores
from mha_viz.text.encoding import decoder_text, label_of
from mha_viz.text.tokens import Encoded, encode

LONGEST_PERIOD = 25
_TEXT = "A short text, for what stands around it."


def induction_scores(
    model: AttentionModel, n_seeds: int = 5, period: int | None = None, part: str | None = None
) -> InductionScores:
    """Score each head by the induction probe: random texts, repeated once.

    A text is `period` different tokens in random order, without special ones, repeated once, inside
    the special tokens that the model's tokenizer puts around any text. A head's score on it is
    `core.metrics.induction`: the mean weight from a token of the second copy to the token after
    its first occurrence. As the tokens are random, no other habit of a language explains it.

    Args:
        model: any model of self-attention.
        n_seeds: texts, 2 at least; text number s is drawn with seed s.
        period: tokens in one copy, 2 at least; as many as fit, and 25 at most, if not given.
        part: "encoder" or "decoder" of an encoder-decoder (the encoder if not given). For the
            decoder the encoder reads nothing but its special tokens.

    Returns:
        InductionScores, (layer, head) each, float32 in [0, 1]; the same at every call.

    Raises:
        ArgumentError: an unknown part or "cross", too few texts or too many for memory, or a
            period that does not fit into the model's positions or its vocabulary.

    Source: Olsson et al. 2022, the prefix-matching score on repeated random tokens; there a token
    may occur twice in one copy, here none does, so that what followed it is one place.

    >>> import mha_viz as mv
    >>> scores = induction_scores(mv.load("tiny-gpt2"))
    >>> scores.mean.shape, bool(scores.mean.max() > 0.8)
    (torch.Size([4, 8]), True)
    """
    part = model.parts[0] if part is None else part
    model.check_part(part)
    if part == "cross":
        raise ArgumentError(
            'Induction looks back in one text: ask for part "encoder" or "decoder", not "cross".'
        )
    sample, vocabulary = sample_text(model, part), plain_tokens(model)
    sample_slice = own_tokens(sample)
    n_around = len(sample.tokens) - (sample_slice.stop - sample_slice.start)
    period = _period(model, period, n_around, len(vocabulary))
    length = n_around + 2 * period
    most = MOST_BYTES // (4 * model.n_layers * model.n_heads * length**2)
    if not 2 <= n_seeds <= most:
        raise ArgumentError(
            f"n_seeds must lie in 2..{most:,}: an interval takes two texts, and they are all run "
            f"at once; got {n_seeds}."
        )
    drawn = (_repeated_text(vocabulary, period, seed) for seed in range(n_seeds))
    texts = [with_tokens(sample, ids, model) for ids in drawn]
    record = _run(model, part, texts)
    # The metric takes any two axes before query and key: here texts take the place of layers.
    scores = [
        induction(layer.float().cpu(), period=period, start=sample_slice.start)
        for layer in record.pattern
    ]
    causal = part == "decoder" or model.causal
    allowed = recorded_mask(record, 0, [layer[0] for layer in record.pattern], causal)
    baseline_scores = (
        float(induction(weights, period=period, start=sample_slice.start).mean())
        for weights in (
            uniform_pattern(length, length, causal=causal, allowed=allowed),
            offset_pattern(length, length, -1),
        )
    )
    interval = t_interval(torch.stack(scores, dim=1).double())
    mean, low, high = (bound.clamp(0.0, 1.0).float() for bound in interval)
    numbers = model.numbers_of(part)
    uniform, offset = baseline_scores
    sizes = n_seeds, period
    return InductionScores(mean, low, high, *sizes, uniform, offset, layer_numbers=numbers)


def sample_text(model: AttentionModel, part: str) -> Encoded:
    """Encode any text as this part reads it, for the special tokens around it."""
    if part == "decoder":
        sample = decoder_text(model.reader, _TEXT)
    else:
        sample = encode(model.tokenizer, _TEXT, max_length=model.n_ctx)
    if any(token.id >= model.d_vocab for token in sample.tokens if token.is_special):
        raise ArgumentError(
            f"{model.name} does not know the special tokens of its tokenizer: they do not belong "
            "together."
        )
    return sample


def own_tokens(sample: Encoded) -> slice:
    """Return the slice of the text's own tokens, between special ones."""
    positions = [i for i, token in enumerate(sample.tokens) if not token.is_special]
    return slice(positions[0], positions[-1] + 1)


def with_tokens(sample: Encoded, ids: list[int], model: AttentionModel) -> Encoded:
    """Replace the sample's own tokens, as a text of these would be encoded."""
    sample_slice, types = own_tokens(sample), sample.token_type_ids
    tokens, labels = list(sample.tokens), [label_of(model.tokenizer, i) for i in ids]
    tokens[sample_slice] = [
        replace(tokens[sample_slice.start], text=label, id=i, start=None, end=None, word=n)
        for n, (i, label) in enumerate(zip(ids, labels, strict=True))
    ]
    if types is not None:
        types = [
            *types[: sample_slice.start],
            *[types[sample_slice.start]] * len(ids),
            *types[sample_slice.stop :],
        ]
    return Encoded([token.id for token in tokens], types, tuple(tokens))


def plain_tokens(model: AttentionModel) -> list[int]:
    """Return the tokens that a text may be made of: known to both, and not special."""
    added = model.tokenizer.added_tokens_decoder  # Llama reserves hundreds that have no use yet
    special = {*model.tokenizer.all_special_ids, *(i for i, t in added.items() if t.special)}
    vocabulary = set(model.tokenizer.get_vocab().values()) - special
    return sorted(number for number in vocabulary if 0 <= number < model.d_vocab)


def _period(model: AttentionModel, requested: int | None, n_around: int, n_tokens: int) -> int:
    most = min((model.n_ctx - n_around) // 2, n_tokens)
    period = min(most, LONGEST_PERIOD) if requested is None else requested
    if most < 2:
        raise ArgumentError(
            f"{model.name} takes {model.n_ctx} tokens and has {n_tokens:,} that are not special: "
            f"two different ones, repeated once, and {n_around} special ones do not fit."
        )
    if not 2 <= period <= most:
        raise ArgumentError(
            f"period must lie in 2..{most}: {model.name} takes {model.n_ctx} tokens and has "
            f"{n_tokens:,} that are not special; got {period}."
        )
    return period


def _repeated_text(vocabulary: list[int], period: int, seed: int) -> list[int]:
    """Draw different tokens in random order, and repeat them."""
    order = torch.randperm(len(vocabulary), generator=torch.Generator().manual_seed(seed))
    return [vocabulary[i] for i in order[:period].tolist()] * 2


def _run(model: AttentionModel, part: str, texts: list[Encoded]) -> Run:
    """Run all texts, of one length, in one pass: (text, head, query, key) of each layer."""
    sources, targets = texts, None
    if part == "encoder":
        targets = [decoder_text(model.reader, None)] * len(texts)
    elif part == "decoder":  # whose encoder reads special tokens, or padding if it has none
        sample = sample_text(model, "encoder")
        special = any(token.is_special for token in sample.tokens)
        nothing = with_tokens(sample, [] if special else [model.tokenizer.pad_token_id or 0], model)
        sources, targets = [nothing] * len(texts), texts
    return run_texts(model, sources, targets, ("pattern",))[part]
