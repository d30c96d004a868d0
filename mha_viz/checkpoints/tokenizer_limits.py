"""Limits of a tokenizer: its number of tokens, and how much its rules may lengthen a text."""

import base64
import json
from collections.abc import Iterator
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from mha_viz.checkpoints.files import json_object
from mha_viz.errors import UnsafeCheckpointError

# CANINE has every character of Unicode, 1,114,112; XLM-V 901,629 words and pieces. Gemma 3 has the
# most added tokens, 6,415.
MAX_TOKENS = 1_200_000
MAX_ADDED_TOKENS = 20_000
MAX_TOKEN = 10_000  # characters
MAX_AROUND = 256  # special tokens around a text
MAX_RULES = 256
MAX_GROWTH = 100  # XLM-R: 18 by Unicode's own long forms, twice for runs of spaces
_CHAINS = (("normalizer", "pre_tokenizer"), ("decoder",))  # each works on what the one before left


def check_written(folder: Path) -> None:
    """Refuse limits that tokenizer files exceed in plain sight, before anything is built of them.

    A file that is not JSON, or has another layout, is left to the library, whose error says so.
    """
    fast = json_object(folder / "tokenizer.json")
    settings = json_object(folder / "tokenizer_config.json")
    model = fast.get("model")
    model = model if isinstance(model, dict) else {}
    for what, listed, most in (
        ("tokens", model.get("vocab"), MAX_TOKENS),
        ("tokens", json_object(folder / "vocab.json"), MAX_TOKENS),
        ("merges", model.get("merges"), MAX_TOKENS),
        ("added tokens", fast.get("added_tokens"), MAX_ADDED_TOKENS),
        ("added tokens", settings.get("added_tokens_decoder"), MAX_ADDED_TOKENS),
        ("added tokens", settings.get("extra_special_tokens"), MAX_ADDED_TOKENS),
        ("added tokens", settings.get("additional_special_tokens"), MAX_ADDED_TOKENS),
        ("added tokens", json_object(folder / "added_tokens.json"), MAX_ADDED_TOKENS),
    ):
        if isinstance(listed, (list, dict)):
            _check(folder.name, what, len(listed), most)
    for chain in _CHAINS:
        with suppress(KeyError, TypeError, ValueError, AttributeError):
            _check_growth(folder.name, [fast.get(part) for part in chain])


def check_built(name: str, tokenizer: PreTrainedTokenizerBase) -> None:
    """Refuse a tokenizer that is too large, or that would make a short text very long.

    Files come in many forms; this looks at what was made of them.
    """
    _check(name, "tokens", len(tokenizer), MAX_TOKENS)
    _check(name, "added tokens", len(tokenizer.added_tokens_decoder), MAX_ADDED_TOKENS)
    _check(name, "characters in a token", max(map(len, tokenizer.get_vocab())), MAX_TOKEN)
    around = max(tokenizer.num_special_tokens_to_add(pair=pair) for pair in (False, True))
    _check(name, "special tokens around a text", around, MAX_AROUND)
    if tokenizer.is_fast:
        for chain in _CHAINS:
            parts = [getattr(tokenizer.backend_tokenizer, part) for part in chain]
            _check_growth(name, [_described(part) for part in parts if part is not None])


def growth(rule: dict[str, Any]) -> int:
    """Bound how many times longer one rule of a fast tokenizer makes a text, in characters.

    An upper bound. What Unicode's own forms add (NFKC makes 18 characters of one) is not counted.

    >>> growth({"type": "Replace", "pattern": {"String": "ab"}, "content": "xyz"})
    2
    >>> growth({"type": "Lowercase"})
    1
    """
    kind = rule.get("type")
    if kind == "Replace":
        longer = len(rule["content"])
        if replaced := rule["pattern"].get("String"):
            return max(1, -(-longer // len(replaced)))
        return 1 + longer  # a pattern may match nothing, between any two characters
    if kind == "Prepend":  # before a text of one character
        return 1 + len(rule["prepend"])
    if kind == "Precompiled":  # SentencePiece's table: its length, a trie, and what is put in
        table = base64.b64decode(rule["precompiled_charsmap"] or "")
        put_in = table[4 + int.from_bytes(table[:4], "little") :].split(b"\0")
        return max(1, *(len(text.decode(errors="replace")) for text in put_in))
    return 2 if kind == "ByteLevel" else 1  # its letters for bytes have two bytes each


def _check_growth(name: str, parts: list[Any]) -> None:
    rules = list(_rules(parts))
    _check(name, "rules for a text", len(rules), MAX_RULES)
    if prod(map(growth, rules)) > MAX_GROWTH:
        raise UnsafeCheckpointError(
            f"The tokenizer of {name} has rules that can make a text more than {MAX_GROWTH} times "
            "longer; those of real models hardly lengthen it."
        )


def _described(part: Any) -> Any:
    """Describe a part of a fast tokenizer as tokenizer.json does."""
    try:
        return json.loads(part.__getstate__())
    except Exception:  # made of transformers' own Python code, which no file describes
        return None


def _rules(parts: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield every rule, those inside of a sequence, too."""
    rest = list(parts)
    while rest:
        value = rest.pop()
        if isinstance(value, dict):
            if isinstance(value.get("type"), str):
                yield value
            rest += value.values()
        elif isinstance(value, list):
            rest += value


def _check(name: str, what: str, count: int, most: int) -> None:
    if count > most:
        raise UnsafeCheckpointError(
            f"The tokenizer of {name} has {count:,} {what}; a real one has at most {most:,}."
        )
