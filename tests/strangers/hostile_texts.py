"""Texts that a stranger might type to break something: the named ones, and any number of others."""

import sys
import unicodedata

from hypothesis import strategies as st

MEGABYTE = 2**20
_STORM = "\u0301\u0323\u0338\u20dd\u0e38\u0651\U0001e8d0"  # marks of several combining classes

MARKUP = (
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    '"><iframe srcdoc="<script>parent.alert(1)</script>">',
    "<!--", "-->", "]]>", "<![CDATA[x]]>", "<?xml version='1.0'?>", "</textarea></title></style>",
    "<a href='javascript:alert(1)'>x</a>", "[x](javascript:alert(1))", "[x](https://example.org)",
    "![x](https://example.org/x.png)", "[x]: https://example.org", "https://example.org",
    "www.example.org", "me@example.org", "<https://example.org>", "&lt;b&gt; &#60;b&#62; &amp;",
    "**b** _i_ ~~s~~ `c` # h", "\n# h\n- a\n1. b\n> q\n---\n", "| a | b |\n|---|---|\n| 1 | 2 |",
    "```\ncode", "$x^2$", "$$\\frac{1}{0}$$", r"\(x\) \[y\]", r"\href{javascript:alert(1)}{x}",
    r"\def\x{\x\x}\x", ":material/home:", ":red[x]", ":red-background[x]", ":rainbow[x]", ":smile:",
    ":streamlit:", ":small[x]", ":shortcut[x]", "-> <- <-> -- >= ~=", "%{y} %{x:.2f} %s %d {0} {x}",
    "${x} #{x} {{x}} {% x %}", "<extra></extra>", "<br>", "[bold]x[/bold] [/] [link=x]y[/link]",
    "\x1b[31mred\x1b]0;title\x07", "\\x00 \\u0000 \\n \\", "'; DROP TABLE rows; --", '"', "'", "`",
    "../../etc/passwd", "C:\\nul", "file:///etc/passwd", "~", "$HOME $(id) `id` | id ; id", "NaN",
    "None", "null", "undefined", "true", "-0", "1e309", "__proto__", "constructor", "toString",
)  # fmt: skip
TOKENS = (
    "[CLS]", "[SEP]", "[MASK]", "[PAD]", "[UNK]", "<s>", "</s>", "<pad>", "<unk>", "<mask>",
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<bos>", "<eos>", "<extra_id_0>", "<0x0A>",
    "<0xFF>", "##", "##ing", "Ġ", "Ċ", "ĠThe", "▁", "▁The", "@@", "</w>", "[unused1]", "[ MASK ]",
)  # fmt: skip
FORMULAS = (
    "=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1+1", "\r=1+1", "\n=1+1", "＝1+1", "a,=1+1", "a;=1+1",
    "a\t=1+1", '"=1+1', '";=1+1', "'=1+1", "=cmd|' /C calc'!A0", '=HYPERLINK("http://a.b","x")',
)  # fmt: skip
HIDDEN = (
    *"\u200b\u200c\u200d\u2060\ufeff\ufffe\u00ad\u061c\u180e\u3164\uffa0\u115f\u2800\u00a0\u3000",
    *"\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u206a\u206f",  # direction
    *"\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e\x1f\x00\x07\x08\x1b\x7f\x80\x9b\x9f\r\n\t",
    *"\ufff9\ufffa\ufffb\ufffc\ufffd\uffff\U0001ffff\U0010ffff\ue000\U000f0000\U0010fffd",
    *"\ufe00\ufe0f\U000e0100\U000e0001\U000e0020\U000e007f\U0001f3fb\U0001f1e6\u20e3\u034f",
    *"\ud800\udbff\udc00\udfff\u0378\U000e0fff\U0003fffe\u0300\u0488\u0e33\u17b4\uaa7d\ufb1e",
)
EMOJI = ("👩‍👩‍👧‍👦", "👍🏽", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "🇩🇪", "1️⃣", "❤️‍🔥", "🧑🏿‍🤝‍🧑🏻")
WORDS = (
    "the", " cat", "sat on", "İstanbul", "ﬁt", "ß", "ǆ", "٣٤٥", "१२३", "𝟙𝟚", "½", "Ⅷ", "㍿", "ﷺ",
    "我喜欢", "ねこ", "고양이", "ᄀ" + "ᅡ" * 3, "สวัสดี", "हिन्दी", "שָׁלוֹם", "مرحبا", "می‌خواهم",
    "e\u0301", "é", "ΐ", "ΐ", "Å", "Å", "1.5", "1,5", "don't",
    "l’eau", "", " ", "  ", "\n\n", "\r\n", "...",
)  # fmt: skip
PIECES = (*MARKUP, *TOKENS, *FORMULAS, *HIDDEN, *EMOJI, *WORDS)


def _plane(number: int) -> str:
    """A character of each 64 in a plane of Unicode; of the first, surrogates are cases apart."""
    chars = (chr(point) for point in range(number << 16, (number + 1) << 16, 64))
    return "".join(char for char in chars if unicodedata.category(char) != "Cs")


def _category(kind: str) -> str:
    """The first thousand characters of a category of Unicode."""
    found = (c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c) == kind)
    return "".join(char for char, _ in zip(found, range(1000), strict=False))


NAMED = {
    **{f"plane {number}": _plane(number) for number in range(17)},
    **{f"category {kind}": _category(kind) for kind in "Cf Co Cn Lm Mc Me Mn Nd No Sk Zs".split()},
    "controls": "a".join(map(chr, [*range(32), *range(127, 160)])),
    "all hidden": "x".join(char for char in HIDDEN if unicodedata.category(char) != "Cs"),
    "half a character": "a\ud83d",
    "the other half": "\ude00a",
    "two halves": "\ud83d\ude00",
    "10,000 marks": "e" + "\u0301" * 10_000,
    "10,000 marks of all kinds": "e" + _STORM * (10_000 // len(_STORM)),
    "marks alone": "\u0301" * 300,
    "marks on every letter": "".join(f"{letter}{_STORM * 9}" for letter in "combining storm"),
    "direction": "a \u202eb\u202d c\u2066d \u2069\u2069 e\u202c\u200f f",
    "joiners": "\u200d".join("👩👩👧👦" * 20),
    "a long word": "supercalifragilistic" * 500,
    "only spaces": " \t\n\u3000\u2003 ",
    "nothing": "",
    "only NUL": "\x00\x00",
    "line ends": "a\r\n\n\r\rb\x85c\u2028d\u2029e\x0bf\x0cg\n",
    "composed": unicodedata.normalize("NFC", "é ñ 한글 Å ệ"),
    "decomposed": unicodedata.normalize("NFD", "é ñ 한글 Å ệ"),
    "byte order mark": "\ufeffthe cat\ufeff",
    "markup": " ".join(MARKUP),
    "special tokens": " ".join(TOKENS) + "".join(TOKENS),
    "only special tokens": "[CLS][SEP][MASK][PAD][UNK]",
    "formulas": "\n".join(FORMULAS),
    "emoji": "".join(EMOJI),
}

# A megabyte of one thing each, and one more than is read.
LARGE = {
    "words": "the cat " * (MEGABYTE // 8),
    "line ends": "\r\n" * (MEGABYTE // 2) + "x",
    "NUL": "\x00" * MEGABYTE + "x",
    "marks": "e" + "\u0301" * MEGABYTE,
    "marks of all kinds": "e" + _STORM * (MEGABYTE // len(_STORM)),
    "jamo": "\u1100\u1161\u11a8" * (MEGABYTE // 3),
    "ligatures": "ﷺ" * MEGABYTE,
    "joiners": "👩\u200d" * (MEGABYTE // 2),
    "flags": "🇩" * MEGABYTE,
    "surrogate pairs": "\ud83d\ude00" * (MEGABYTE // 2),
    "tags": "<b>" * (MEGABYTE // 3),
    "too long": "x" * (MEGABYTE + MEGABYTE // 4),
}

_any_character = st.characters(codec=None, exclude_categories=())
_pieces = st.one_of(
    st.sampled_from(PIECES),
    st.text(_any_character, max_size=8),
    st.builds(lambda char, n: char * n, st.one_of(st.sampled_from(HIDDEN), _any_character),
              st.integers(2, 300)),
)  # fmt: skip
# Mostly a sentence of pieces, sometimes any characters at all, sometimes a named case.
texts: st.SearchStrategy[str] = st.one_of(
    st.lists(_pieces, min_size=1, max_size=12).map("".join),
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=12).map(" ".join),
    st.text(_any_character, max_size=60),
    st.sampled_from(sorted(NAMED)).map(NAMED.__getitem__),
)
