"""AttentionModel: a network with its tokenizer, and the ways to run a text through it."""

from collections.abc import Sequence

from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.engine.head_changes import Gates, head_edits
from mha_viz.engine.intervention import Intervention
from mha_viz.engine.loaded_network import LoadedNetwork
from mha_viz.engine.recording import record_of, run_texts, trace_encoded
from mha_viz.engine.run import OnLayer, check_keep
from mha_viz.errors import ArgumentError
from mha_viz.text.encoding import encode_texts
from mha_viz.text.from_ids import ChatMessages, TokenIds, encode_input


class AttentionModel(LoadedNetwork):
    """A loaded model that gives its attention weights. Safe to share between threads.

    Args:
        network: a transformers model, of a checkpoint or in memory, built with any attention. It
            is put into evaluation mode, and takes its attention from our function from then on
            where its family allows: its outputs stay the same but for rounding, and its weights
            come from `trace`, no longer from `output_attentions`.
        tokenizer: its tokenizer.
        name: what `load` was given.
        notes: what a user should know about this checkpoint.

    Attributes:
        parts: ("self",), or ("encoder", "decoder", "cross") for an encoder-decoder.
        backend: "mha_viz" where our attention function computes it, "eager" where the family has
            no interface and its own weights are read instead (then nothing else can be kept).
        n_layers, n_heads, n_kv_heads, d_head, d_model, n_ctx, causal: sizes of the first part.

    Raises:
        AttentionUnavailableError: neither way gives attention weights.

    >>> import transformers
    >>> import mha_viz as mv
    >>> sizes = transformers.BertConfig(hidden_size=20, num_hidden_layers=2, num_attention_heads=5)
    >>> network = transformers.BertModel(sizes)
    >>> tokenizer = mv.load("tiny-bert").tokenizer
    >>> mv.AttentionModel(network, tokenizer, name="new").trace("The cat sat").pattern.shape
    torch.Size([2, 5, 5, 5])
    """

    def __repr__(self) -> str:
        return (
            f"AttentionModel({self.name!r}, family={self.family!r}, layers={self.n_layers}, "
            f"heads={self.n_heads}, d_model={self.d_model}, n_ctx={self.n_ctx}, "
            f"device={str(self.device)!r})"
        )

    # -- running a text --------------------------------------------------------------------------

    def trace(
        self,
        text: str | TokenIds | ChatMessages,
        text_pair: str | None = None,
        *,
        part: str | None = None,
        keep: Sequence[str] = ("pattern", "z"),
        on_layer: OnLayer | None = None,
        gates: Gates | None = None,
        intervention: Intervention | None = None,
    ) -> AttentionRecord:
        """Run one text and keep every head's attention.

        Args:
            text: any text; what does not fit n_ctx is cut off, and the record's notes say so. Also
                its ids (a list, tensor or array), which are run as they are, or the messages of a
                chat ({"role": ..., "content": ...}), by the tokenizer's own template.
            text_pair: second segment (BERT-style) or the decoder's text (T5, BART).
            part: which stack of an encoder-decoder; the first one if not given.
            keep: "pattern" and any of "z", "query", "key", "value"; or "all", which is these five.
                Of a long text, whose weights are not stored, "tiles" (128 on a side) and "metrics"
                are made in the same pass; else they are made when they are first asked for.
            on_layer: called after each layer with the number done; raise in it to abandon. Not
                called where `backend` is "eager".
            gates: factors (layer, head) on the z of that part's heads, as in `predict`.
            intervention: what happens to some heads, of its own `part`; the record shows it.

        Returns:
            AttentionRecord with float32 pattern (layer, head, query, key).

        Raises:
            TextError: empty text, a pair for a model that takes one text, or ids or a chat that it
                does not know.
            ArgumentError: an unknown part, an unknown thing to keep, or such heads.

        >>> import mha_viz as mv
        >>> mv.load("tiny-bert").trace("The cat sat").pattern.shape
        torch.Size([4, 8, 5, 5])
        """
        part = self.parts[0] if part is None else part
        self.check_part(part)
        texts = encode_input(self.reader, text, text_pair)
        edits = head_edits(self, gates, intervention, part=part, texts=texts)
        records = self.trace_encoded(*texts, keep=keep, on_layer=on_layer, only=part, edits=edits)
        return records[part]

    def trace_parts(
        self,
        text: str,
        text_pair: str | None = None,
        *,
        keep: Sequence[str] = ("pattern", "z"),
        on_layer: OnLayer | None = None,
    ) -> dict[str, AttentionRecord]:
        """Run as `trace` does and return all parts: encoder, decoder and cross attention.

        In cross attention the queries are the decoder's tokens and the keys the encoder's.

        Args:
            text: the encoder's text.
            text_pair: the decoder's text.
            keep: as for `trace`.
            on_layer: as for `trace`; it counts through both stacks.

        Returns:
            A record for each of `parts`.

        Raises:
            TextError, ArgumentError: as `trace`.

        >>> import mha_viz as mv
        >>> list(mv.load("tiny-bert").trace_parts("The cat sat"))
        ['self']
        """
        return self.trace_encoded(
            *encode_texts(self.reader, text, text_pair), keep=keep, on_layer=on_layer
        )

    trace_encoded = trace_encoded

    def trace_batch(
        self, texts: Sequence[str], *, keep: Sequence[str] = ("pattern", "z")
    ) -> list[AttentionRecord]:
        """Run several texts in one forward pass, padded to the longest; a record for each.

        Args:
            texts: at least one.
            keep: as for `trace`.

        Raises:
            TextError: a text that cannot be used.
            ArgumentError: no text; or an encoder-decoder, whose texts come in pairs.

        >>> import mha_viz as mv
        >>> records = mv.load("tiny-gpt2").trace_batch(["The cat sat", "The cat"])
        >>> [len(record.tokens) for record in records]
        [3, 2]
        """
        keep = check_keep(keep)
        if len(self.parts) > 1:
            raise ArgumentError(f"{self.name} is an encoder-decoder: trace its texts one by one.")
        if not texts:
            raise ArgumentError("trace_batch needs at least one text.")
        encoded = [encode_texts(self.reader, text)[0] for text in texts]
        lengths = {len(item.input_ids) for item in encoded}
        if self.runs_by_rows(max(lengths)) or (len(lengths) > 1 and max(lengths) > self.pad_limit):
            return [self.trace_encoded(item, keep=keep)["self"] for item in encoded]
        run = run_texts(self, encoded, None, keep)["self"]
        return [record_of(self, "self", run, i, (item, None)) for i, item in enumerate(encoded)]
