"""Files of texts as a stranger may upload them: one of each kind that is whole, and odd ones."""

import json

from tests.making.conll_2012 import FILE
from tests.strangers.fuzzing import LONG

WORDS = "Ärger A cat sat on the mat. The dog slept."


def row(number: int | str, head: int | str, form: str = "w", misc: str = "_") -> str:
    """A line of CoNLL-U."""
    relation = "dep" if head else "root"
    return f"{number}\t{form}\t{form}\tNOUN\t_\t_\t{head}\t{relation}\t_\t{misc}\n"


def tree(*rows: str) -> bytes:
    """A sentence of CoNLL-U."""
    return ("".join(rows) + "\n").encode()


def chain(n_words: int, misc: str = "_") -> bytes:
    """A sentence in which each word hangs from the one before it."""
    return tree(*(row(i + 1, i, misc=misc) for i in range(n_words)))


def at_once(key: str, value: str) -> bytes:
    """A line of JSON whose value is as it is spelled here, and one that can be read."""
    return b'{"text": "A cat."}\n' + f'{{"{key}": {value}}}\n'.encode()


WHOLE = {
    ".txt": WORDS.replace(". ", ".\n").encode(),
    ".json": json.dumps(
        [{"id": i, "text": text, "more": [None, {}]} for i, text in enumerate(WORDS.split(". "))]
    ).encode(),
    ".jsonl": b"".join(
        json.dumps({"id": i, "text": text, "more": [None, {"a": 1.5}]}).encode() + b"\n"
        for i, text in enumerate(WORDS.split(". "))
    ),
    ".csv": f'id;Text;note\n1;"{WORDS}; ""so""\nit goes";\n2;It slept.;x\n'.encode(),
    ".conllu": (
        b"# newdoc id = d\n# text = du chat\n"
        + tree(row("1-2", "_", "du"), row(1, 3, "de"), row(2, 1, "le"), row(3, 0, "chat"))
        + tree(row(1, 2, misc="Entity=(e1-x-1)|SpaceAfter=No"), row(2, 0, misc="Entity=(e1)"))
    ),
    ".conll": FILE.encode(),
    ".v4_gold_conll": FILE.encode(),
}

CASES: dict[str, tuple[str, bytes]] = {
    # -- tables
    "10,000 columns, one of them the text": (
        "a.csv",
        ("text" + ",x" * 9_999 + "\n" + "A cat," * 9_999 + "x").encode(),
    ),
    "a quote without end": ("a.csv", b'text\n"A cat sat\nA dog.\n' + b"It slept.\n" * 14_000),
    "rows of another length": ("a.csv", b"text,b\n" + b"a\n" * 200_000),
    # -- lines of JSON
    "brackets in a field": ("a.jsonl", at_once("text", "[" * 100_000 + "]" * 100_000)),
    "a text that is a number of a million digits": ("a.jsonl", at_once("text", "9" * 10**6)),
    "numbers that are none": ("a.jsonl", at_once("text", "NaN") + at_once("n", "-Infinity")),
    "a hundred thousand keys": (
        "a.jsonl",
        json.dumps({f"k{i}": "x" for i in range(60_000)} | {"text": "A cat."}).encode(),
    ),
    # -- lists of JSON
    "brackets in brackets in a list": ("a.json", b'["A cat.", ' + b"[" * 10**6 + b"]" * 10**6),
    "an object on many lines": ("a.json", b'{\n"text": "A cat."\n}\n'),
    # -- trees
    "a head of thousands of digits": ("a.conllu", tree(row(1, "9" * 90_000), row(2, 0))),
    "a range that goes on forever": (
        "a.conllu",
        tree(row("1-999999999", "_"), row(1, 0), row(2, 1)),
    ),
    "relations of broken bytes": (
        "a.conllu",
        tree(row(1, 0), row(2, 1)).replace(b"dep", b"\xff"),
    ),
    "a sentence of 50,000 words": ("a.conllu", chain(50_000)),
    "very many mentions, each around the next": (
        "a.conllu",
        tree(
            *(row(i + 1, i, misc="Entity=" + "(a" * 2_000) for i in range(100)),
            *(row(i + 1, i, misc="Entity=" + "a)" * 2_000) for i in range(100, 200)),
        ),
    ),
    "mentions that end in the order in which they begin": (
        "a.conllu",
        tree(
            *(
                row(i + 1, i, misc="Entity=" + "".join(f"(a{i}b{j}" for j in range(5_000)))
                for i in range(10)
            ),
            *(
                row(i + 11, i + 10, misc="Entity=" + "".join(f"a{i}b{j})" for j in range(5_000)))
                for i in range(10)
            ),
        ),
    ),
    "columns of other names": ("a.conllu", b"# global.columns = ID FORM\n1\tA\n\n"),
}

_OF_ANY_KIND = {
    "NUL": bytes(1_000),
    "UTF-16": WORDS.encode("utf-16"),
    "a picture": b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 50,
    "blank lines": b"\n" * 500_000 + b"x",
    "one line of two megabytes": b"a " * 990_000,
    "marks upon a letter": ("e" + "\u0301" * 400_000).encode(),
}
_ANY_KIND = ("a.txt", "a.csv", "a.jsonl", "a.conllu")
CASES |= {
    f"{what} in a {name}": (name, content)
    for number, (what, content) in enumerate(_OF_ANY_KIND.items())
    for name in (_ANY_KIND if LONG else _ANY_KIND[number % 4 :: 4])  # daily in one of them
}
CASES |= {
    f"line ends of old Macs in a {name}": (name, WHOLE[name[1:]].replace(b"\n", b"\r"))
    for name in _ANY_KIND
}

NAMES = (
    *("../x.csv", "..\\x.csv", "../../../../etc/x.csv", "/etc/x.csv", "\\\\host\\share.csv"),
    *("C:\\x.csv", "file:///etc/passwd.csv", "~/x.csv", "a/b/../c.csv", "..csv", "....csv"),
    *("a\x00.csv", "a\nb.csv", "a\ud800.csv", "\u202efile.csv", "x.csv/", "x.CSV", " .csv"),
    *("x" * 10_000 + ".csv", "é" * 10_000 + ".csv", "../" * 3_000 + "x.csv"),
    *("<script>alert(1)</script>.csv", "[x](javascript:alert(1)).csv", "*.csv", "a[b]?.csv"),
    *("'; DROP TABLE heads; --.csv", "$HOME.csv", "`id`.csv", "-rf.csv", "%2e%2e%2fx.csv"),
)
