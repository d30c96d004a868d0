"""Tokenizers that would explode: what is changed in tokenizer.json, or tokenizer_config.json."""

from typing import Any


def replace(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def split(pattern: str) -> dict[str, Any]:
    return {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
    }


def added(number: int, content: str) -> dict[str, Any]:
    flags = ("single_word", "lstrip", "rstrip", "normalized", "special")
    return {"id": number, "content": content, **dict.fromkeys(flags, False)}


def around(n_tokens: int) -> dict[str, Any]:
    """A text among very many special tokens."""
    single = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}] * n_tokens
    text = [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}]
    return {
        "type": "TemplateProcessing",
        "single": [*single, text[0]],
        "pair": [*single, *text],
        "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]}},
    }


def words(**numbers: int) -> dict[str, Any]:
    vocab = {"[UNK]": 1, "[PAD]": 0, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, **numbers}
    return {"type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]"}


def padding(strategy: Any, multiple: int | None = None) -> dict[str, Any]:
    return {
        "strategy": strategy,
        "direction": "Right",
        "pad_to_multiple_of": multiple,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "[PAD]",
    }


def truncation(longest: int, stride: int) -> dict[str, Any]:
    return {
        "direction": "Right",
        "max_length": longest,
        "strategy": "LongestFirst",
        "stride": stride,
    }


LONG = "a" * 10_000
REFUSED: dict[str, dict[str, Any]] = {
    "a letter becomes ten thousand": {"normalizer": replace({"String": "a"}, LONG)},
    "letters between all letters": {"normalizer": replace({"Regex": ""}, LONG)},
    "very many rules": {
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Whitespace"}] * 10_000}
    },
    "a long beginning": {"normalizer": {"type": "Prepend", "prepend": LONG}},
    "a hundred thousand tokens around a text": {"post_processor": around(100_000)},
    "a hundred thousand added tokens": {
        "added_tokens": [added(i, f"[X{i}]") for i in range(100_000)]
    },
    "a token of a megabyte": {"added_tokens": [added(17, "x" * 10**6)]},
    "a negative number": {"model": words(the=-1)},
    "a number beyond the vocabulary": {"model": words(the=10**6, cat=2**32 - 1, a=99)},
    "an added token beyond the vocabulary": {"added_tokens": [added(10**6, "sat on")]},
    "no tokens": {"model": {"type": "WordLevel", "vocab": {}, "unk_token": "[UNK]"}},
    "a model without a name": {"model": {"vocab": {"a": 0}}},
    "rules of no kind": {"normalizer": {"type": "../../x"}},
    "padding to a billion": {"padding": padding({"Fixed": 10**9})},
}
RUN: dict[str, dict[str, Any]] = {
    "nothing is left of a text": {"truncation": truncation(0, 0)},
}
EITHER: dict[str, dict[str, Any]] = {
    "a stride longer than a text": {"truncation": truncation(2, 10**9)},
    "a pattern that goes astray on the text": {"pre_tokenizer": split(r"(([a-z ]+)+)+!")},
    "a pattern of a million brackets": {"pre_tokenizer": split("(" * 10**6 + ")" * 10**6)},
    "a pattern that counts": {"pre_tokenizer": split("(((a{1,1000}){1,1000}){1,1000})")},
    "pieces between all letters": {"pre_tokenizer": split("")},
    "words of any length": {
        "model": {
            "type": "WordPiece",
            "vocab": {"[UNK]": 0, "a": 1, "##a": 2},
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "#" * 10**6,
            "max_input_chars_per_word": 2**63,
        }
    },
    "scores that are no numbers": {
        "model": {"type": "Unigram", "unk_id": 0, "vocab": [["[UNK]", 1e308], ["a", -1e308]] * 2}
    },
}
SETTINGS: dict[str, dict[str, Any]] = {
    "a length of any size": {"model_max_length": 10**30},
    "a length that is a text": {"model_max_length": "long"},
    "a class elsewhere": {"tokenizer_class": "../../os.system"},
    "code of its own": {"auto_map": {"AutoTokenizer": ["evil.Tokenizer", None]}},
    "a template that runs on": {"chat_template": "{% for i in range(10**9) %}x{% endfor %}"},
    "a padding side that is none": {"padding_side": "up"},
    "a token that is an object": {"cls_token": {"a": [1]}},
}
