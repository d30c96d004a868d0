"""What a model reads: a text or a pair, or an encoder's text and its decoder's; and what was cut.

Knows tokenizers and a model's stacks. Must not know its layers, files, records or screens.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mha_viz.core.record import Token
from mha_viz.errors import MhaVizError, TextError
from mha_viz.text.reading import reading
from mha_viz.text.tokens import Encoded, encode

if TYPE_CHECKING:
    from mha_viz.engine.model import AttentionModel

Texts = tuple[Encoded, Encoded | None]  # and the decoder's, of an encoder-decoder


def encode_texts(model: AttentionModel, text: str, text_pair: str | None = None) -> Texts:
    """A text and its second segment as one; of an encoder-decoder they are one for each stack.

    Raises:
        TextError, ArgumentError: as `encode`; a token that the model does not have.
    """
    if len(model.parts) == 1:
        encoded = encode(model.tokenizer, text, text_pair, max_length=model.n_ctx)
        target = None
    else:
        encoded = encode(model.tokenizer, text, max_length=model.n_ctx)
        target = decoder_text(model, text_pair)
    for item in (encoded, target):
        if item is not None and max(item.input_ids) >= model.d_vocab:
            raise TextError(
                f"This text has tokens that {model.name} does not know (number "
                f"{max(item.input_ids):,} of {model.d_vocab:,}): tokenizer and model do not "
                "belong together."
            )
    return encoded, target


def takes_pair(model: AttentionModel) -> bool:
    """A second text has a meaning: a second segment, or the decoder's text."""
    if len(model.parts) > 1:
        return True
    try:
        encode(model.tokenizer, "a", "b", max_length=model.n_ctx)
    except MhaVizError:
        return False
    return True


def decoder_text(model: AttentionModel, text: str | None) -> Encoded:
    """The decoder's text behind its start token; without a text the start token alone."""
    start = getattr(model.network.config, "decoder_start_token_id", None)
    with reading("its own tokens"):
        start = start if isinstance(start, int) else model.tokenizer.pad_token_id or 0
        label = str(model.tokenizer.convert_ids_to_tokens(start))
    first = Token(label, start, is_special=True, segment=1)
    if text is None:
        return Encoded(input_ids=[start], token_type_ids=None, tokens=(first,))
    rest = encode(model.tokenizer, text, max_length=model.n_ctx - 1, add_special_tokens=False)
    # It is the second text of the run, which is where its tokens' offsets count.
    return replace(
        rest,
        input_ids=[start, *rest.input_ids],
        token_type_ids=None,
        tokens=(first, *(replace(token, segment=1) for token in rest.tokens)),
        text_pair=rest.text,
    )


def cut_notes(model: AttentionModel, *texts: Encoded | None) -> tuple[str, ...]:
    """A note for each text of which something was left out."""
    return tuple(
        f"The text was cut to {len(text.tokens)} tokens, the longest that {model.name} takes "
        f"here: {'about ' * text.truncated_is_estimate}{text.n_truncated:,} tokens were left "
        "out."
        for text in texts
        if text is not None and text.n_truncated
    )
