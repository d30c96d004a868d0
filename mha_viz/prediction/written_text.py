"""A causal model's prompt, and the prompt with what the model has written behind it."""

from dataclasses import replace

from mha_viz.core.record.record import Token
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError, MhaVizError
from mha_viz.prediction.logits import check_predicts
from mha_viz.text.encoding import continuing, encode_texts, label_of
from mha_viz.text.tokens import Encoded, encode, tokenizer_errors


def encode_prompt(model: AttentionModel, text: str) -> Encoded:
    """Encode a text that a causal model can continue."""
    if check_predicts(model.network) != "causal":
        raise ArgumentError(
            f"{model.name} is a masked model, which fills gaps and writes no text: use predict, or "
            "load a causal model such as tiny-gpt2."
        )
    prompt, _ = encode_texts(model.stored_reader, text)
    if len(prompt.input_ids) >= model.n_stored or prompt.n_truncated:
        raise ArgumentError(
            f"The text fills all {model.n_stored} positions of {model.name}: shorten it, so that "
            "there is room to go on."
        )
    return prompt


def check_whole_number(name: str, number: int, low: int, high: int) -> None:
    """Raise ArgumentError unless an argument is a whole number in low..high."""
    if isinstance(number, bool) or not isinstance(number, int) or not low <= number <= high:
        raise ArgumentError(f"{name} must be a whole number in {low}..{high}, got {number!r}.")


def end_token_ids(model: AttentionModel) -> tuple[int, ...]:
    """Return the numbers of the tokens that end a text for transformers' generate."""
    ends = model.network.generation_config.eos_token_id
    ends = model.tokenizer.eos_token_id if ends is None else ends
    return () if ends is None else tuple(ends) if isinstance(ends, list) else (ends,)


def extend_prompt(model: AttentionModel, prompt: Encoded, new: list[int]) -> Encoded:
    """Label the prompt with the new tokens.

    Where the whole text reads back as the same tokens, it is labelled like any other text;
    otherwise each new token is labelled by itself, without offsets.
    """
    ids = [*prompt.input_ids, *new]
    typed = [token.id for token in prompt.tokens if not token.is_special]
    with tokenizer_errors("what it wrote"):
        decoded, before = (
            str(model.tokenizer.decode(part, clean_up_tokenization_spaces=False))
            for part in ([*typed, *new], typed)
        )
    text = prompt.text + decoded[len(before) :] if decoded.startswith(before) else decoded
    try:
        again = encode(model.tokenizer, text, max_length=model.n_ctx)
        if again.input_ids == ids:
            return again
    except MhaVizError:  # a text that cannot be typed, half a character
        pass
    return replace(
        prompt, input_ids=ids, tokens=(*prompt.tokens, *_labelled(model, prompt, new)), text=text
    )


def _labelled(model: AttentionModel, prompt: Encoded, new: list[int]) -> list[Token]:
    special = set(model.tokenizer.all_special_ids)
    word = max((token.word for token in prompt.tokens if token.word is not None), default=-1)
    tokens = []
    for number, continues in zip(new, continuing(model.tokenizer, new), strict=True):
        word += not continues
        own = None if number in special else word
        label = label_of(model.tokenizer, number)
        tokens.append(Token(label, number, word=own, is_special=number in special))
    return tokens
