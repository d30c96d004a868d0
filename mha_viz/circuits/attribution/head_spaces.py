"""The four spaces of a head: queries, keys, values and outputs of tokens, on few directions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mha_viz.core.arguments import check_index
from mha_viz.core.attention.scoring import row_blocks
from mha_viz.core.cancellation import check_cancelled
from mha_viz.core.compare.token_spaces import HeadSpaces, principal_components
from mha_viz.core.layer_numbers import checked_position
from mha_viz.core.record.attention_record import AttentionRecord, Token
from mha_viz.core.record.visible import visible_keys
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError, NotKeptError
from mha_viz.prediction.replay import OnProgress, Progress
from mha_viz.text.encoding import encode_texts

N_COMPONENTS = 8
MAX_TOKENS = 2_000
_KEEP = ("pattern", "query", "key", "value", "z")
_READ_FOR_EACH = 4  # tokens of texts that are run, for each that is drawn
_BATCH_BYTES = 128 * 2**20  # of what one batch leaves behind
_VECTOR_BYTES = 512 * 2**20  # of the vectors of all tokens; of more heads the texts run again
_ROTARY = "Queries and keys are turned by their positions (rotary), as the scores saw them."


def head_spaces(
    model: AttentionModel,
    texts: str | Sequence[str],
    layer: int,
    head: int,
    *,
    n_components: int = N_COMPONENTS,
    max_tokens: int = MAX_TOKENS,
    seed: int = 0,
) -> HeadSpaces:
    """Project one head's queries, keys, values and outputs of many tokens on few directions.

    Each space is projected by itself, on the directions in which its vectors vary most (principal
    components). Keys and values of grouped-query attention are those of the head's group.

    Args:
        model: any that our attention runs in; of an encoder-decoder, the encoder.
        texts: one or more, such as those of `Study.sample_texts`.
        layer: the model's own number.
        head: from 0.
        n_components: at most; a space has no more than dimensions.
        max_tokens: drawn at random from the texts, where they have more; texts themselves are drawn
            until they have four times as many.
        seed: of both draws.

    Returns:
        HeadSpaces: coordinates (4, token, component), and the share of variance of each component.

    Raises:
        TextError: no text, or one that cannot be used.
        ArgumentError: no such head, a number below 1.
        NotKeptError: a family whose queries, keys or output weights are not known.

    >>> import mha_viz as mv
    >>> spaces = mv.head_spaces(mv.load("tiny-bert"), "The cat sat on the mat.", 1, 3)
    >>> spaces.coordinates.shape, bool((spaces.explained.sum(-1) <= 1).all())
    (torch.Size([4, 9, 8]), True)
    """
    heads = [(layer, head)]
    (space,) = spaces_of_heads(
        model, texts, heads, n_components=n_components, max_tokens=max_tokens, seed=seed
    )
    return space


def spaces_of_heads(
    model: AttentionModel,
    texts: str | Sequence[str],
    heads: Sequence[tuple[int, int]] | None = None,
    *,
    n_components: int = N_COMPONENTS,
    max_tokens: int = MAX_TOKENS,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> list[HeadSpaces]:
    """Make `head_spaces` of many heads, None for all, over the same tokens.

    The texts run once for as many heads as 512 MB of vectors hold. `on_progress` is called with how
    many texts have run, and of how many; an exception stops the work. All other arguments are those
    of `head_spaces`. Returns a `HeadSpaces` for each of `heads`, in their order. Raises as
    `head_spaces`.

    >>> import mha_viz as mv
    >>> len(mv.spaces_of_heads(mv.load("tiny-bert"), "The cat sat.", [(0, 1), (2, 3)]))
    2
    """
    for name, number in (("n_components", n_components), ("max_tokens", max_tokens)):
        if number < 1:
            raise ArgumentError(f"{name} must be 1 or more, got {number}.")
    if heads is None:
        numbers = model.numbers_of(model.parts[0])
        heads = [(layer, head) for layer in numbers for head in range(model.n_heads)]
    if not model.output_weights(model.parts[0]):
        raise NotKeptError(f"The output weights of {model.name} are not known.")
    positions = [(checked_position(model.layer_numbers, layer), head) for layer, head in heads]
    for layer, head in positions:
        check_index("layer", layer, model.n_layers)
        check_index("head", head, model.n_heads)
    sample = _TokenSample.draw(
        model, [texts] if isinstance(texts, str) else texts, max_tokens, seed
    )
    of_head = 4 * 4 * model.d_head * sample.n_tokens
    size = max(1, _VECTOR_BYTES // of_head)
    groups = [slice(first, first + size) for first in range(0, len(heads), size)]
    progress = Progress(on_progress, len(groups) * len(sample.texts))
    return [
        space
        for group in groups
        for space in _spaces(model, sample, heads[group], positions[group], n_components, progress)
    ]


def _spaces(
    model: AttentionModel,
    sample: _TokenSample,
    heads: Sequence[tuple[int, int]],
    positions: Sequence[tuple[int, int]],
    n_components: int,
    progress: Progress,
) -> Iterator[HeadSpaces]:
    """Yield the spaces of heads, by number and by position of their layers, after one run."""
    read = _Vectors.read(model, sample, positions, progress)
    weights = model.output_weights(model.parts[0])
    group = model.n_heads // model.n_kv_heads
    for number, ((layer, head), (position, _)) in enumerate(zip(heads, positions, strict=True)):
        queries, keys, values, z = (read.vectors[name][number] for name in _KEEP[1:])
        # z W_O = (z R') Q' with orthonormal columns of Q: the same distances in fewer dimensions
        outputs = z @ torch.linalg.qr(weights[position][head].float().cpu().mT).R.mT
        n = min(n_components, queries.shape[-1], values.shape[-1])
        projected = [principal_components(space, n) for space in (queries, keys, values, outputs)]
        coordinates, explained = (torch.stack(part) for part in zip(*projected, strict=True))
        first = head - head % group
        shared = f"Heads {first} to {first + group - 1} of the layer share their keys and values."
        yield HeadSpaces(
            coordinates=coordinates,
            explained=explained,
            received=read.received[number],
            tokens=sample.tokens,
            text=sample.text,
            position=torch.cat(sample.drawn),
            texts=sample.texts,
            layer=layer,
            head=head,
            model=model.name,
            notes=(*sample.notes, *[_ROTARY] * model.is_rotary, *[shared] * (group > 1)),
        )


@dataclass(frozen=True, eq=False)
class _TokenSample:
    """Texts, and the tokens that are drawn from each."""

    texts: tuple[str, ...]
    drawn: tuple[Int[Tensor, " _"], ...]  # positions in each text, in order
    lengths: tuple[int, ...]  # of the texts, in tokens
    tokens: tuple[Token, ...]  # all that are drawn
    notes: tuple[str, ...]

    @classmethod
    def draw(
        cls, model: AttentionModel, texts: Sequence[str], max_tokens: int, seed: int
    ) -> _TokenSample:
        """Draw tokens of texts, and only texts that have one."""
        if not texts:
            raise ArgumentError("Spaces of a head need at least one text.")
        generator = torch.Generator().manual_seed(seed)
        order = torch.randperm(len(texts), generator=generator).tolist()
        read, tokens, total = [], list[tuple[Token, ...]](), 0
        for i in order:
            if total >= _READ_FOR_EACH * max_tokens:
                break
            read.append(texts[i])
            tokens.append(encode_texts(model.reader, texts[i])[0].tokens)
            total += len(tokens[-1])
        chosen = torch.randperm(total, generator=generator)[:max_tokens]
        is_chosen = torch.zeros(total, dtype=torch.bool)
        is_chosen[chosen] = True
        parts = [
            part.nonzero()[:, 0] for part in is_chosen.split([len(of_text) for of_text in tokens])
        ]
        with_tokens = [i for i, part in enumerate(parts) if len(part)]
        notes = []
        if len(chosen) < total or len(read) < len(texts):
            notes.append(f"{len(chosen):,} tokens of {len(with_tokens):,} texts, drawn at random.")
        return cls(
            tuple(read[i] for i in with_tokens),
            tuple(parts[i] for i in with_tokens),
            tuple(len(tokens[i]) for i in with_tokens),
            tuple(tokens[i][at] for i in with_tokens for at in parts[i].tolist()),
            tuple(notes),
        )

    @property
    def n_tokens(self) -> int:
        """The number of tokens that were drawn."""
        return len(self.tokens)

    @property
    def text(self) -> Int[Tensor, " token"]:
        """The number of each token's text."""
        sizes = torch.tensor([len(part) for part in self.drawn])
        return torch.arange(len(sizes)).repeat_interleave(sizes)

    def batches(self, model: AttentionModel) -> Iterator[list[int]]:
        """Yield the numbers of texts that run together, of like length."""
        batch: list[int] = []
        for i in sorted(range(len(self.texts)), key=lambda i: (-self.lengths[i], i)):
            longest = self.lengths[batch[0] if batch else i]
            of_text = 4 * model.n_layers * model.n_heads * longest * (longest + 4 * model.d_head)
            if batch and (len(batch) + 1) * of_text > _BATCH_BYTES:
                yield batch
                batch = []
            batch.append(i)
        yield batch


@dataclass(eq=False)
class _Vectors:
    """Vectors of some heads at the tokens of a sample, filled text by text."""

    vectors: dict[str, Float[Tensor, "head token d"]]  # by name in a record
    received: Float[Tensor, "head token"]

    @classmethod
    @torch.no_grad()
    def read(
        cls,
        model: AttentionModel,
        sample: _TokenSample,
        positions: Sequence[tuple[int, int]],
        progress: Progress,
    ) -> _Vectors:
        """Run the texts of a sample and keep what these heads, by position, made of its tokens."""
        read = cls({}, torch.zeros(len(positions), sample.n_tokens))
        of_layer: dict[int, list[int]] = defaultdict(list)
        for number, (layer, _) in enumerate(positions):
            of_layer[layer].append(number)
        ends = torch.tensor([len(part) for part in sample.drawn]).cumsum(0).tolist()
        for batch in sample.batches(model):
            check_cancelled()
            texts = [sample.texts[i] for i in batch]
            if len(model.parts) > 1:
                records = [model.trace(text, keep=_KEEP) for text in texts]
            else:
                records = model.trace_batch(texts, keep=_KEEP)
            for i, record in zip(batch, records, strict=True):
                at = slice(ends[i] - len(sample.drawn[i]), ends[i])
                for layer, numbers in of_layer.items():
                    heads = [positions[number][1] for number in numbers]
                    read._take(record, layer, heads, (numbers, at, sample.drawn[i]))
                progress.add(1)
        return read

    def _take(
        self,
        record: AttentionRecord,
        layer: int,
        heads: list[int],
        selection: tuple[list[int], slice, Int[Tensor, " token"]],
    ) -> None:
        """Copy what heads of one layer made of some tokens of a text."""
        numbers, at, tokens = selection
        for name in _KEEP[1:]:
            of_layer = record.for_query_heads(name, layer)[heads][:, tokens]
            if name not in self.vectors:
                shape = (*self.received.shape, of_layer.shape[-1])
                self.vectors[name] = torch.zeros(shape)
            self.vectors[name][numbers, at] = of_layer.float().cpu()
        self.received[numbers, at] = _received(record, layer, heads)[:, tokens]


def _received(record: AttentionRecord, layer: int, heads: list[int]) -> Float[Tensor, "head key"]:
    """Return the mean weight of each key over the queries that see it."""
    n_queries, n_keys = record.shape[2:]
    weight, n_queries_of_key = torch.zeros(len(heads), n_keys), torch.zeros(n_keys)
    for rows in row_blocks(n_queries, 4 * len(heads) * n_keys):
        part = record.patterns.rows(layer, rows, heads).sum(1).cpu()
        weight[:, : part.shape[-1]] += part
        n_queries_of_key += visible_keys(record, layer, rows).sum(0).cpu()
    return weight / n_queries_of_key.clamp(min=1)
