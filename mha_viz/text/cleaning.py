"""Typed text as Unicode: cleaned, made visible, and split into words."""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from itertools import groupby

from mha_viz.errors import TextError

MAX_CHARACTERS = 1_200_000  # 100,000 long words
MAX_LABEL = 40  # characters of a label
SURROGATE = re.compile("[\ud800-\udfff]")  # half a character, or a byte read as one

_SIGNS = {" ": "␠", "\n": "⏎", "\t": "⇥", "\x7f": "␡"} | {
    chr(i): chr(0x2400 + i) for i in range(32) if i not in (9, 10)
}
_FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")  # invisible, yet no Cf
_HIDDEN = frozenset(["Cc", "Cf", "Co", "Cs", "Zl", "Zp", "Zs"])
_JOINER = re.compile("[\u200c\u200d]")
_SELECTOR = re.compile("[\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_KINDS = {
    "j": _JOINER,
    "v": re.compile(_SELECTOR.pattern + "|[\U0001f3fb-\U0001f3ff]"),  # and skin tones
    "f": re.compile("[\U0001f1e6-\U0001f1ff]"),  # two of them make a flag
    "i": re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"),
    "'": re.compile("['’]"),
}
# Possessive (*+, ++): nothing is tried twice, and a word of a million letters takes no stack.
_WORD = re.compile(  # over kinds (`kind_of`): a letter, 0 digit, m mark, i ideograph, and the above
    r"""[ ]* (?: [a0m] (?: [a0m]++ | (?<=[am])'(?=a) | [vj] | (?<=j)\S )*+
               | f (?: [fmvj] | (?<=j)\S )*+
               | i (?: [mvj]++ | (?<=j)\S )*+
               | ([^\sa0mfi]) \1*+ (?: [mvj]++ | (?<=j)\S )*+ )
      | [ ]+ | (\s) \2*+""",
    re.VERBOSE,
)


def clean_text(text: str, name: str = "text") -> str:
    r"""Make typed or pasted text safe to tokenise and to show.

    Line ends become "\n"; every other control character (C0, C1) but the tab becomes one space, so
    that words on both sides stay apart. A surrogate pair becomes its character. All else stays:
    capitals, accents, spaces, invisible characters. Cleaning twice changes nothing. Returns the
    text, never blank. Raises TextError: no text, a blank one, one of over a million characters, or
    half a character.

    >>> clean_text("one\r\ntwo\x00three")
    'one\ntwo three'
    """
    if not isinstance(text, str):
        raise TextError(_no_string(text, name))
    if len(text) > MAX_CHARACTERS:
        raise TextError(
            f"The {name} has {len(text):,} characters; at most {MAX_CHARACTERS:,} can be read. "
            "Take a part of it."
        )
    pairs = re.compile("(?:[\ud800-\udbff][\udc00-\udfff])+")
    text = pairs.sub(lambda m: m[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)
    if broken := SURROGATE.search(text):
        raise TextError(
            f"The {name} is not valid Unicode: half a character (U+{ord(broken[0]):04X}) at "
            f"position {broken.start() + 1}. Delete it or type it again."
        )
    text = re.sub("\r\n|[\r\v\f\x85]", "\n", text)
    text = re.sub("[\x00-\x08\x0e-\x1f\x7f-\x9f]", " ", text)
    if not text.strip():
        raise TextError(f"The {name} is empty. Type at least one word.")
    return text


def visible(text: str, limit: int = MAX_LABEL) -> str:
    """Put a sign in place of each character that would not show or would reorder others.

    Only white space: "␠", "⏎", "⇥", with "×3" for a run. Direction marks, other spaces and further
    invisible characters: their number. A combining mark that stands alone sits on a "◌". Joiners
    and variation selectors stay inside of an emoji or a word.

    >>> visible("  "), visible("a\u202eb"), visible("a b")
    ('␠×2', 'a⟨U+202E⟩b', 'a b')
    """
    if not text:
        return "∅"
    if text.isspace():
        runs = [(glyph(char), len(list(run))) for char, run in groupby(text)]
        shown = [sign if n == 1 else f"{sign}×{n}" for sign, n in runs]
    else:
        shown = [
            char if char == " " else glyph(char, inside=i > 0, last=i == len(text) - 1)
            for i, char in enumerate(text[: limit + 1])
        ]
        if unicodedata.category(shown[0][0])[0] == "M":
            shown[0] = "◌" + shown[0]
    if sum(map(len, shown)) <= limit:
        return "".join(shown)
    label = ""
    for sign in shown:
        if len(label) + len(sign) >= limit:
            break
        label += sign
    return label + "…"


def in_a_row(labels: Iterable[str], limit: int = 300) -> str:
    """Join labels of tokens for a sentence; a long row ends with "…".

    >>> in_a_row(["the", "cat"]), in_a_row(["the", "cat"], limit=6)
    ('the · cat', 'the ·…')
    """
    return visible(" · ".join(labels), limit)


def word_numbers(text: str) -> list[int]:
    """Return for every character the number of its word."""
    kinds = text.translate({ord(char): kind_of(char) for char in set(text)})
    numbers: list[int] = []
    for number, match in enumerate(_WORD.finditer(kinds)):
        numbers += [number] * len(match[0])
    return numbers


@lru_cache(1 << 12)
def kind_of(char: str) -> str:
    """Return one letter for what `_WORD` knows, and the sign itself for everything else."""
    for kind, pattern in _KINDS.items():
        if pattern.match(char):
            return kind
    if char.isalpha():
        return "a"
    if char.isalnum() or char == "_":
        return "0"
    return "m" if unicodedata.category(char)[0] == "M" else char


def glyph(char: str, inside: bool = False, last: bool = False) -> str:
    """Return a character, or a visible sign for one that would not show.

    `inside`: it has a character before it, so that joiners and selectors act on that one. `last`:
    it ends its text, so that a joiner joins nothing.
    """
    if _JOINER.match(char) or _SELECTOR.match(char):
        hidden = not inside or (last and _JOINER.match(char) is not None)
    else:
        hidden = char in _FILLERS or unicodedata.category(char) in _HIDDEN
    return (_SIGNS.get(char) or f"⟨U+{ord(char):04X}⟩") if hidden else char


def _no_string(value: object, name: str) -> str:
    several = " For several texts call trace_batch." if isinstance(value, list | tuple) else ""
    return f"The {name} must be a string, got {type(value).__name__}.{several}"
