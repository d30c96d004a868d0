"""LoadedNetwork: a network with its tokenizer, its sizes, its limits and its weights."""

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from mha_viz.core.attention.multi_head import AttentionWeights
from mha_viz.core.layer_numbers import without_attention
from mha_viz.core.metrics.output_weights import OutputWeights
from mha_viz.core.names import MATRICES
from mha_viz.core.record.patterns import MOST_BYTES, STORED_BYTES
from mha_viz.core.threads import threads
from mha_viz.engine.backend import choose_backend, pad_limit
from mha_viz.engine.numbering import own_layer_numbers
from mha_viz.engine.projections import LayerProjections
from mha_viz.engine.run import PARTS, Backend, Run
from mha_viz.errors import ArgumentError, AttentionUnavailableError, TextError
from mha_viz.text.encoding import Reader, decoder_text, takes_pair, target_tokenizer
from mha_viz.text.tokens import encode, tokenizer_errors

TILES = 128  # cells of the pooled pictures that a long record may hold, on a side
WITHOUT_POSITIONS = 1 << 17  # tokens of a text where a config names no limit
_POSITIONS = (
    "max_position_embeddings",
    "max_sequence_length",
    "max_seq_len",
    "n_ctx",
    "n_positions",
    "seq_length",
)
_SMALL = 10**7  # parameters; a pass over the short text then takes one thread 16 ms at most
_SAMPLE = "A short text, to see whether both ways agree."


class LoadedNetwork:
    """A network whose sizes, parts, limits and weights are known; see `AttentionModel`."""

    def __init__(
        self,
        network: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        name: str,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.network = network.eval()  # dropout would make every run another one
        self.tokenizer, self.name = tokenizer, name
        self.config = network.config.get_text_config()
        self.family: str = network.config.model_type
        self.parts: tuple[str, ...] = PARTS if network.config.is_encoder_decoder else ("self",)
        self.d_vocab = int(getattr(self.config, "vocab_size", len(tokenizer)))
        self.n_ctx = longest_text(network, tokenizer)
        self._cut: float = math.inf  # tokens whose weights are stored, where texts are cut
        self._target_tokenizer: PreTrainedTokenizerBase | None = None
        self._decoder_start: int | None = None
        self.pad_limit = math.inf
        if len(self.parts) > 1:
            self._target_tokenizer = target_tokenizer(tokenizer)
            self._decoder_start = decoder_start(network, self._target_tokenizer)
        self.backend: Backend
        with threads_for(network):
            self.notes = notes + self._choose_backend()

    # -- what it is ------------------------------------------------------------------------------

    @property
    def device(self) -> torch.device:
        """The device of the network's weights."""
        return self.network.device

    @property
    def dtype(self) -> torch.dtype:
        """The precision that it runs in."""
        return self.network.dtype

    @property
    def is_rotary(self) -> bool:
        """The turning of queries and keys by their positions before they are scored."""
        return any("rotary" in type(part).__name__.lower() for part in self.network.modules())

    @property
    def accepts_pair(self) -> bool:
        """The ability to take a second text: a second segment, or the decoder's text."""
        return takes_pair(self.reader)

    @property
    def n_stored(self) -> int:
        """Tokens of the longest text all of whose weights may be held."""
        return self._longest(self.n_layers, MOST_BYTES)

    @property
    def reader(self) -> Reader:
        """The tokenizer, positions and vocabulary that a text must fit.

        A text may be as long as the model takes. `layer_reader` limits texts with all weights of a
        layer in memory, `n_stored` those with all weights of all layers.
        """
        return self._reader(self.n_ctx if self.backend == "mha_viz" else self.n_stored)

    @property
    def layer_reader(self) -> Reader:
        """The same for runs that hold the weights of one layer at a time."""
        if self.backend != "mha_viz":
            return self.stored_reader
        # a quarter, for such a run also copies what it finds in them
        return self._reader(self._longest(1, MOST_BYTES // 4))

    @property
    def stored_reader(self) -> Reader:
        """The same for runs that hold all weights."""
        return self._reader(self.n_stored)

    def _longest(self, n_layers: int, n_bytes: int) -> int:
        """Count the tokens of the longest text, so many of whose layers' weights fit."""
        return min(self.n_ctx, int((n_bytes // (4 * n_layers * self.n_heads)) ** 0.5))

    def _reader(self, n_ctx: int) -> Reader:
        two_texts = len(self.parts) > 1
        about = (self.tokenizer, self.name, n_ctx, self.d_vocab, two_texts)
        return Reader(*about, self._decoder_start, self._target_tokenizer, self.pad_limit)

    @property
    def layer_numbers(self) -> tuple[int, ...]:
        """The model's own number, from 0, of each layer of attention of the first part."""
        return self.numbers_of(None)

    def numbers_of(self, part: str | None) -> tuple[int, ...]:
        """Return the model's own numbers of the layers of a part; the first one if None.

        Raises ArgumentError: no such part.

        >>> import mha_viz as mv
        >>> mv.load("tiny-gpt2").numbers_of(None)
        (0, 1, 2, 3)
        """
        part = self.parts[0] if part is None else part
        self.check_part(part)
        return self._numbers[part]

    def check_part(self, part: str) -> None:
        """Raise ArgumentError unless it is one of `parts`."""
        if part not in self.parts:
            parts = ", ".join(self.parts)
            raise ArgumentError(f"{self.name} has the part(s) {parts}, got {part!r}.")

    def cut_texts(self, n_bytes: int, n_tokens: int | None = None) -> None:
        """Limit texts from now on, so that a full record of one takes at most so many bytes.

        A longer text is cut, like one that does not fit the model, and the record's notes say so.
        `n_bytes` are those of z, query, key, value and the weights, or tiles of them, together;
        where longer texts fit with tiles, weights are stored up to half of it. `n_tokens` is the
        most that a text may have; None is as many as the model takes.

        Example:
            model = mv.load("tiny-gpt2")
            model.cut_texts(n_bytes=2**24)
            model.trace(long_text).notes  # names how many tokens were cut off
        """
        # An encoder-decoder runs all its parts, whichever of them is returned.
        cells = n_bytes / (4 * self.n_layers * self.n_heads * len(self.parts))
        longest = cells**0.5
        if self.backend == "mha_viz":
            # each head has n rows of z and query, and its share of those of key and value
            row = self.d_head * (2 + 2 * self.n_kv_heads / self.n_heads)
            stored, half = ((row**2 / 4 + most) ** 0.5 - row / 2 for most in (cells, cells / 2))
            longest = max(stored, (cells - TILES**2) / row)
            self._cut = int(half if longest > stored else stored)
        self.n_ctx = max(1, min(self.n_ctx, int(longest), n_tokens or self.n_ctx))

    def runs_by_rows(self, n_tokens: int) -> bool:
        """Return whether the weights of a text of so many tokens are computed when asked for."""
        most = min(self._cut, self._longest(self.n_layers, STORED_BYTES))
        return self.backend == "mha_viz" and n_tokens > most

    # -- its weights -----------------------------------------------------------------------------

    def attention_weights(self, layer: int, part: str | None = None) -> AttentionWeights:
        """Return one layer's W_Q, W_K, W_V, W_O and biases, split by heads (views).

        Args:
            layer: its position among the part's layers with attention, from 0.
            part: which stack of an encoder-decoder; the first one if not given.

        Raises:
            ArgumentError: no such layer or part.
            AttentionUnavailableError: the family computes its attention by itself.
            NotKeptError: the family's layout is not known.
        """
        layers = self.layers(part)
        if not 0 <= layer < len(layers):
            raise ArgumentError(f"layer must lie in 0..{len(layers) - 1}, got {layer}.")
        return layers[layer].all()

    def head_weights(
        self, name: str, part: str | None = None
    ) -> tuple[Float[Tensor, "head rows columns"], ...]:
        """Return one kind of weights of all layers, a matrix for each query head.

        Args:
            name: "W_Q", "W_K", "W_V": (head, d_model, d_head), or "W_O": (head, d_head, d_model).
            part: which stack of an encoder-decoder; the first one if not given.

        Returns:
            A tensor for each layer, float32 on the CPU (the model's own where they are that
            already: do not write to them); key and value heads repeated for their query heads.

        Raises:
            ArgumentError: an unknown name or part.
            AttentionUnavailableError, NotKeptError: as `attention_weights`.

        >>> import mha_viz as mv
        >>> weights = mv.load("tiny-gpt2").head_weights("W_O")
        >>> len(weights), weights[0].shape
        (4, torch.Size([8, 32, 256]))
        """
        if name not in MATRICES:
            raise ArgumentError(f"name must be one of {', '.join(MATRICES)}, got {name!r}.")
        return tuple(layer.for_query_heads(name) for layer in self.layers(part))

    def layers(self, part: str | None = None) -> list[LayerProjections]:
        """Return the attention module and projections of each layer of a part, in call order.

        Raises:
            ArgumentError: no such part.
            AttentionUnavailableError: the family computes its attention by itself.
        """
        part = self.parts[0] if part is None else part
        self.check_part(part)
        if self.backend != "mha_viz":
            raise AttentionUnavailableError(
                f"The {self.family} family computes its attention by itself and hands out weights "
                "alone: its heads can be taken apart or changed once transformers passes their "
                "queries, keys and values to a registered attention function (AttentionInterface). "
                "Choose a BERT, GPT-2, Llama or one of their relatives."
            )
        return self._projections[part]

    def output_weights(self, part: str) -> OutputWeights:
        """Return each layer's W_O (head, d_head, d_model); none where it is not known."""
        matrices = [layer.output() for layer in self._projections[part]]
        weights = [w for w in matrices if w is not None]
        cached = self._W_O.get(part)
        if cached is None or not cached.are(weights):
            weights = weights if len(weights) == len(matrices) else []
            cached = self._W_O[part] = OutputWeights(weights)
        return cached

    def _number_layers(self, runs: Mapping[str, Run]) -> tuple[str, ...]:
        """Note the model's own numbers of its layers; return a note on those without attention."""
        self._numbers: dict[str, tuple[int, ...]] = {}
        self.attends_in_all_layers = True  # in no part a layer without attention
        notes = []
        for part, run in runs.items():
            numbers, n_all = own_layer_numbers(self.network, run.modules, len(run.pattern))
            self._numbers[part] = numbers
            self.attends_in_all_layers &= len(numbers) == n_all
            notes.append(without_attention(numbers, n_all))
        return tuple(dict.fromkeys(filter(None, notes)))

    def _choose_backend(self) -> tuple[str, ...]:
        """Choose the backend by a short text, and measure the model by what it left behind."""
        source = encode(self.tokenizer, _SAMPLE, max_length=min(self.n_ctx, 16))
        target = decoder_text(self._reader(self.n_ctx), _SAMPLE) if len(self.parts) > 1 else None
        self.backend, runs, reason = choose_backend(self.network, source, target, self.d_vocab)
        if target is None:
            sizes = dict(d_vocab=self.d_vocab, n_ctx=self.n_ctx)
            sizes |= dict(pad=self.tokenizer.pad_token_id or 0)
            self.pad_limit = pad_limit(self.network, self.backend, source, runs["self"], **sizes)
        first = runs[self.parts[0]]
        self.n_layers, self.n_heads = len(first.pattern), int(first.pattern[0].shape[1])
        self.d_model = int(getattr(self.config, "hidden_size", None) or self.config.d_model)
        key = first.tensors.get("key")
        self.n_kv_heads = int(key[0].shape[1]) if key else self.n_heads
        self.d_head = int(key[0].shape[-1]) if key else self.d_model // self.n_heads
        # Exact zeros above the diagonal in every head of every layer are a mask, not a habit.
        self.causal = all(bool(torch.triu(p, 1).count_nonzero() == 0) for p in first.pattern)
        if self.backend == "eager":
            self.n_ctx = self.n_stored
        notes: tuple[str, ...] = ()
        if self.pad_limit < math.inf:
            longer = f" of more than {self.pad_limit:,.0f} tokens" if self.pad_limit else ""
            notes = (
                f"The {self.family} family gives a text{longer} other weights in a padded batch "
                "than alone: such texts are run one by one.",
            )
        self._projections = {part: LayerProjections.of(self.network, runs[part]) for part in runs}
        notes += self._number_layers(runs)
        self._W_O: dict[str, OutputWeights] = {}
        if self.backend == "mha_viz":
            return notes
        return (
            *notes,
            f"The {self.family} family computes attention in a way of its own"
            + (f" ({reason})" if reason else "")
            + ": its own weights are shown, and what needs the heads' outputs is not available.",
        )


def threads_for(network: PreTrainedModel) -> AbstractContextManager[None]:
    """Run a small network by one thread: for few tokens, several mostly wait for each other."""
    n_parameters = sum(weight.numel() for weight in network.parameters())
    return threads(1) if n_parameters < _SMALL else nullcontext()


def decoder_start(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int | None:
    """Return the token that the model's own training puts before a decoder's text; None: padding.

    Most have it in their config; mBART moves a text's language code to its beginning.
    """
    shift = getattr(network, "prepare_decoder_input_ids_from_labels", None)
    if shift is not None:
        with suppress(TextError), tokenizer_errors("its own tokens"):
            labels = tokenizer(_SAMPLE)["input_ids"]
            return int(shift(torch.tensor([labels], device=network.device))[0, 0])
    start = getattr(network.config, "decoder_start_token_id", None)
    return start if isinstance(start, int) else None


def longest_text(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """Return the longest text in tokens that config and tokenizer allow.

    Families that count no positions (BLOOM's ALiBi, Mamba's layers) have no limit but memory's.
    """
    config = network.config.get_text_config()
    limits = [
        value
        for name in _POSITIONS
        if isinstance(value := getattr(config, name, None), int) and value > 0
    ]
    limit = min(limits, default=WITHOUT_POSITIONS)
    for module in network.modules():
        # RoBERTa and its relatives count positions from padding_idx + 1.
        positions = getattr(module, "position_embeddings", None)
        if isinstance(positions, nn.Embedding):
            if positions.padding_idx is not None:
                limit = min(limit, positions.num_embeddings - positions.padding_idx - 1)
            break
    of_tokenizer = tokenizer.model_max_length
    return min(limit, of_tokenizer) if 0 < of_tokenizer < 10**9 else limit
