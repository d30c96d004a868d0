"""Vocabulary numbers, and the text that people read or type for them."""

import re
from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase
from transformers.convert_slow_tokenizer import bytes_to_unicode

from mha_viz.errors import ArgumentError
from mha_viz.text.cleaning import clean_text, in_a_row, visible
from mha_viz.text.tokens import spelled, tokenizer_errors

_BYTES = {char: byte for byte, char in bytes_to_unicode().items()}
_MARKS = ("Ġ", "▁")  # before a token that begins a word


@tokenizer_errors("its own tokens")
def label_of(tokenizer: PreTrainedTokenizerBase, number: int) -> str:
    """Label a token of the vocabulary as in a record: its piece, without any mark.

    A part of a character is named by its bytes. A number beyond the vocabulary is "⟨number⟩".
    """
    name = tokenizer.convert_ids_to_tokens(number) if number < len(tokenizer) else None
    if not name:
        return f"⟨{number}⟩"
    if number in tokenizer.all_special_ids:
        return visible(name)
    decoded = str(tokenizer.convert_tokens_to_string([name]))
    if "\ufffd" in decoded and all(char in _BYTES for char in name):
        return "".join(f"⟨{_BYTES[char]:02X}⟩" for char in name)
    label = spelled(tokenizer, name)
    return visible(label.lstrip("▁Ġ") or label)


@tokenizer_errors("its own tokens")
def continuing(tokenizer: PreTrainedTokenizerBase, numbers: Sequence[int]) -> tuple[bool, ...]:
    """Return which of these tokens continue the word before them: "ing" after "walk".

    The tokenizer's own marks show it; for one without marks (whole words, characters) none does.
    """
    sample = tokenizer.tokenize("a b c")
    mark = next((m for m in _MARKS if any(name.startswith(m) for name in sample)), None)
    names = [tokenizer.convert_ids_to_tokens(n) if n < len(tokenizer) else None for n in numbers]
    special = set(tokenizer.all_special_ids)

    def continues(number: int, name: str | None) -> bool:
        if not name or number in special:
            return False
        if mark is None:
            return re.match("##.", name) is not None
        return not name.startswith(mark) and label_of(tokenizer, number)[0].isalnum()

    return tuple(continues(n, name) for n, name in zip(numbers, names, strict=True))


@tokenizer_errors("the target")
def id_of(tokenizer: PreTrainedTokenizerBase, target: str | int, spaced: bool = True) -> int:
    """Return the one token that a typed target is.

    A word is read as it would stand in the text, with a space before it where `spaced`; a sign is
    read as it is typed, and so is what begins with a space, or with "##" for the end of a word.
    Raises ArgumentError: no such token, or several; names the pieces.
    """
    if not isinstance(target, str):
        if isinstance(target, bool) or not 0 <= target < len(tokenizer):
            raise ArgumentError(
                f"A target is a word or a number in 0..{len(tokenizer) - 1}, got {target!r}."
            )
        return int(target)
    text = clean_text(target, "target")
    spellings = [" " + text, text] if spaced and text[0].isalnum() else [text]
    readings = [tokenizer(one, add_special_tokens=False)["input_ids"] for one in spellings]
    for i, ids in enumerate(readings):
        known = len(ids) == 1 and ids[0] != tokenizer.unk_token_id
        if known and (i == 0 or not continuing(tokenizer, ids)[0]):  # "▁cat" is, GPT-2's "cat" not
            return int(ids[0])
    named = tokenizer.convert_tokens_to_ids(text)
    if text.startswith("##") and isinstance(named, int) and named != tokenizer.unk_token_id:
        return named
    pieces = [label_of(tokenizer, n) for n in min(readings, key=len)]
    if len(pieces) < 2:
        raise ArgumentError(
            f"“{visible(target)}” is not in this model's vocabulary: choose another word."
        )
    raise ArgumentError(
        f"“{visible(target)}” is {len(pieces)} tokens for this model: {in_a_row(pieces)}. "
        f"Choose a word that is one token, or the first piece, “{pieces[0]}”."
    )
