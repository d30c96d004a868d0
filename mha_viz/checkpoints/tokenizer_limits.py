"""Limits of a tokenizer: its tokens, its patterns, and how much its rules may lengthen a text."""

import base64
import json
from collections.abc import Iterator
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from mha_viz.checkpoints.files import json_object
from mha_viz.checkpoints.tokenizer_files import check_counts, count_nodes
from mha_viz.checkpoints.tokenizer_patterns import PatternError, check_pattern
from mha_viz.errors import UnsafeCheckpointError

# CANINE has every character of Unicode, 1,114,112; XLM-V 901,629 words and pieces. Gemma 3 has the
# most added tokens, 6,415.
MAX_TOKENS = 1_200_000
MAX_ADDED_TOKENS = 20_000
MAX_TOKEN = 10_000  # characters
MAX_AROUND = 256  # special tokens around a text
MAX_RULES = 256
MAX_GROWTH = 100  # XLM-R: 18 by Unicode's own long forms, twice for runs of spaces
MAX_NODES = 6 * 10**6  # of the tree of a Unigram model's tokens, in bytes
MAX_ADDED_CHARACTERS = 10**6
MAX_WORD = 1_000  # characters of a word that is looked up; WordPiece has 100
MAX_PADDING = 10**6  # tokens
MAX_REPEATS = 2  # of a text in a template
MAX_TABLE = 4 * 2**20  # bytes; Unicode's own has 0.3 MB
# Read once. A pattern that takes for ever does so on long runs of one kind.
_TEXTS = (
    "A short text, with 12 numbers & signs: naïve, 日本語, עברית, 👩‍👩‍👧!\tTwo\n\nlines…",
    "a" * 200 + "!",
    " " * 100 + "x1" * 50 + "." * 100 + "A" * 60 + "b 0" * 30,
)
_MAX_TOKENS_A_CHARACTER = 64
_WRITTEN_OUT = ("extra_ids", "offset", "num_madeup_words", "num_extra_ids")  # as added tokens
_CHAINS = (("normalizer", "pre_tokenizer"), ("decoder",))  # each works on what the one before left


def check_written(folder: Path) -> None:
    """Refuse limits that tokenizer files exceed in plain sight, before anything is built of them.

    A file that is not JSON, or has another layout, is left to the library, whose error says so.
    """
    name = folder.name
    check_counts(folder, MAX_TOKENS, MAX_NODES)
    fast = json_object(folder / "tokenizer.json")
    settings = json_object(folder / "tokenizer_config.json")
    model = _dict(fast.get("model"))
    for noun, listed, most in (
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
            _check(name, noun, len(listed), most)
    if isinstance(listed := model.get("vocab"), list):
        tokens = [_text(token).encode(errors="replace") for token in listed]
        _check(name, "beginnings of tokens", count_nodes(tokens, MAX_NODES), MAX_NODES)
    n_characters = sum(len(_text(token)) for token in fast.get("added_tokens") or ())
    _check(name, "characters in its added tokens", n_characters, MAX_ADDED_CHARACTERS)
    for key in _WRITTEN_OUT:
        if isinstance(settings.get(key), int):
            _check(name, f"added tokens by {key}", settings[key], MAX_ADDED_TOKENS)
    if isinstance(longest := model.get("max_input_chars_per_word"), int):
        _check(name, "characters in a word", longest, MAX_WORD)
    padding = _dict(fast.get("padding"))
    for length in (_dict(padding.get("strategy")).get("Fixed"), padding.get("pad_to_multiple_of")):
        _check(name, "tokens of padding", length if isinstance(length, int) else 0, MAX_PADDING)
    if settings.get("sp_model_kwargs") or settings.get("init_inputs"):
        raise UnsafeCheckpointError(
            f"tokenizer_config.json of {name} has options for the library that reads it "
            "(sp_model_kwargs or init_inputs), which no real model needs: take them out."
        )
    _check_templates(name, fast.get("post_processor"))
    for chain in _CHAINS:
        _check_rules(name, [fast.get(part) for part in chain])


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
            _check_rules(name, [_described(part) for part in parts if part is not None])


def check_reading(name: str, tokenizer: PreTrainedTokenizerBase) -> None:
    """Refuse a tokenizer that makes very many tokens of a short text."""
    for text in _TEXTS:
        n_tokens = 0
        with suppress(Exception):  # a text it cannot read is reported when somebody types it
            n_tokens = len(tokenizer(text)["input_ids"])
        if n_tokens > _MAX_TOKENS_A_CHARACTER * len(text):
            raise UnsafeCheckpointError(
                f"The tokenizer of {name} makes {n_tokens:,} tokens of {len(text)} characters; a "
                "real one makes a few of each."
            )


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


def _check_rules(name: str, parts: list[Any]) -> None:
    """Refuse rules that could lengthen a text, or match it, without end."""
    with suppress(KeyError, TypeError, ValueError, AttributeError):  # the library says what is odd
        rules = list(_rules(parts))
        _check(name, "rules for a text", len(rules), MAX_RULES)
        for rule in rules:
            _check_rule(name, rule)
        if prod(map(growth, rules)) > MAX_GROWTH:
            raise UnsafeCheckpointError(
                f"The tokenizer of {name} has rules that can make a text more than {MAX_GROWTH} "
                "times longer; those of real models hardly lengthen it."
            )


def _check_rule(name: str, rule: dict[str, Any]) -> None:
    """Refuse a rule whose pattern could take for ever, or whose table is far too large."""
    table = rule.get("precompiled_charsmap")
    _check(name, "bytes in its table of characters", len(table or "") * 3 // 4, MAX_TABLE)
    pattern = _dict(rule.get("pattern")).get("Regex")
    if not isinstance(pattern, str):
        return
    try:
        check_pattern(pattern)
    except PatternError as error:
        raise UnsafeCheckpointError(
            f"The tokenizer of {name} has the pattern {pattern!r:.60}, which could take for ever "
            f"({error}); those of real models cannot."
        ) from error


def _check_templates(name: str, processor: Any) -> None:
    """Refuse templates that say a text again and again, or put very many tokens around it."""
    repeats, around = 1, 0
    for rule in _rules([processor]):
        tokens = _dict(rule.get("special_tokens"))
        most = 0
        for template in (rule.get("single"), rule.get("pair")):
            pieces = [_dict(piece) for piece in template] if isinstance(template, list) else []
            texts = [_dict(piece["Sequence"]).get("id") for piece in pieces if "Sequence" in piece]
            most = max(most, *map(texts.count, texts), 0)
            special = [_dict(piece["SpecialToken"]) for piece in pieces if "SpecialToken" in piece]
            ids = [_dict(tokens.get(str(piece.get("id")))).get("ids") for piece in special]
            around = max(around, sum(len(each) for each in ids if isinstance(each, list)))
        repeats *= max(most, 1)
    _check(name, "repeats of a text in its template", repeats, MAX_REPEATS)
    _check(name, "special tokens around a text", around, MAX_AROUND)


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(token: Any) -> str:
    """Return the text of a token: its name, or that in a list or object; "" where there is none."""
    if isinstance(token, dict):
        token = token.get("content")
    elif isinstance(token, list) and token:
        token = token[0]
    return token if isinstance(token, str) else ""


def _described(part: Any) -> Any:
    """Describe a part of a fast tokenizer as tokenizer.json does."""
    try:
        return json.loads(part.__getstate__())
    except Exception:  # made of transformers' own Python code, which no file describes
        return None


def _rules(parts: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield every rule, those inside of a sequence, too."""
    pending = list(parts)
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            if isinstance(value.get("type"), str):
                yield value
            pending += value.values()
        elif isinstance(value, list):
            pending += value


def _check(name: str, noun: str, count: int, most: int) -> None:
    if count > most:
        raise UnsafeCheckpointError(
            f"The tokenizer of {name} has {count:,} {noun}; a real one has at most {most:,}."
        )
