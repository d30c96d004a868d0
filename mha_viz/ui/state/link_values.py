"""Readers of values in links, each with ValueError for one that is not valid, and their writer."""

import base64
import hashlib
import re
import zlib
from collections.abc import Callable, Collection, Container, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

from mha_viz.checkpoints.hub_cache import is_hub_id

MAX_URL_TEXT = 1_500  # browsers and chat programs cut longer links
MAX_BRANCHES = 50
UNTRAINED = " (random weights)"  # after a model's name: its untrained copy
MAX_PINS = 9
MAX_URL_PINS = 6_000  # characters of all pins, packed
MAX_UNPACKED = 2**20  # bytes of them: a short link may hold gigabytes
_STORED = re.compile(r"stored-([0-9a-f]{32})\Z")  # in place of what is too long
T = TypeVar("T")
Numbers = tuple[tuple[float, ...], ...]  # a small matrix
_PIN, _FIELD = "\x1e", "\x1f"  # Unicode's own separators, which are in no cleaned text


def one_of(options: Collection[T]) -> Callable[[str], T]:
    """Return a reader of one of these values."""
    by_text = {written(option): option for option in options}

    def read(raw: str) -> T:
        if raw not in by_text:
            raise ValueError
        return by_text[raw]

    return read


def integer(low: int, high: int) -> Callable[[str], int]:
    """Return a reader of a whole number of that range."""

    def read(raw: str) -> int:
        if len(raw) > 9 or not low <= int(raw) <= high:
            raise ValueError
        return int(raw)

    return read


def real(low: float, high: float) -> Callable[[str], float]:
    """Return a reader of a number of that range."""

    def read(raw: str) -> float:
        value = float(raw)
        if not low <= value <= high:  # NaN fails, too
            raise ValueError
        return value

    return read


def numbers(default: Numbers, low: float, high: float) -> Callable[[str], Numbers]:
    """Return a reader of a small matrix: rows split by ";", numbers by ",", as a tuple of tuples.

    Args:
        default: gives its size, and the numbers that are not written: "" between two commas, and
            what is missing at the end of a row.
        low: the least number.
        high: the largest one.
    """
    number = real(low, high)

    def row(raw: str, usual: tuple[float, ...]) -> tuple[float, ...]:
        typed = raw.split(",")
        if len(typed) > len(usual):
            raise ValueError
        typed_numbers = [number(text) if text else usual[i] for i, text in enumerate(typed)]
        return *typed_numbers, *usual[len(typed_numbers) :]

    def read(raw: str) -> Numbers:
        return tuple(row(*pair) for pair in zip(raw.split(";"), default, strict=True))

    return read


def written_numbers(matrix: Numbers, default: Numbers) -> str:
    """Write a small matrix as a link has it: the numbers alone that are not the default's."""
    rows = [
        ",".join(
            "" if number == usual else f"{number:g}" for number, usual in zip(*pair, strict=True)
        )
        for pair in zip(matrix, default, strict=True)
    ]
    return ";".join(row.rstrip(",") for row in rows)


def switch(raw: str) -> bool:
    """Read "1" or "0"."""
    return one_of(("0", "1"))(raw) == "1"


MAX_NODES = 24  # of a graph that are pinned
_NODE = re.compile(r"L\d{1,4}(in|mid|MLP|H\d{1,4})@(\d{1,5}|\*)", re.ASCII)
MAX_SPANS = 50  # rows of neighbours among the chosen tokens
index = integer(0, 9_999)
position = integer(-1, 9_999)


def heads(
    most: int, second: Callable[[str], int] = index
) -> Callable[[str], tuple[tuple[int, int], ...]]:
    """Return a reader of at most so many heads, as "3.7,2.1", or of other pairs."""

    def read(raw: str) -> tuple[tuple[int, int], ...]:
        pairs = [part.split(".") for part in raw.split(",")][:most] if raw else []
        return tuple((index(first), second(other)) for first, other in pairs)

    return read


branches = heads(MAX_BRANCHES, integer(0, 99_999_999))  # chosen tokens: positions and ids


def window(raw: str) -> tuple[tuple[int, int], ...]:
    """Read the tokens that both axes show, as "10.42,0.99": first and last, of queries and keys."""
    spans = heads(3)(raw)
    if len(spans) not in (0, 2) or any(first > last for first, last in spans):
        raise ValueError
    return spans


def spans(raw: str) -> tuple[tuple[int, int], ...]:
    """Read chosen tokens, as "3.5,9.9": first and last of each row of neighbours."""
    ranges = heads(MAX_SPANS)(raw)
    if any(first > last for first, last in ranges):
        raise ValueError
    return ranges


def nodes(raw: str) -> str:
    """Read the pinned nodes of a graph, as "L2H3@5,L1mid@4"."""
    names = raw.split(",") if raw else []
    if len(names) > MAX_NODES or not all(map(_NODE.fullmatch, names)):
        raise ValueError
    return raw


def text_hash(value: str) -> str:
    """Return the hash by which the server keeps a long text: 128 bits, which nobody guesses."""
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def reference(value: str) -> str:
    """Return what stands in an address for a text that is too long for it."""
    return f"stored-{text_hash(value)}"


def referenced(raw: str) -> str | None:
    """Return the hash that an address has in place of a text; None where it has none."""
    match = _STORED.match(raw)
    return match and match[1]


def text(raw: str) -> str:
    """Read a text, as far as it is taken."""
    return raw[: 4 * MAX_URL_TEXT]


def token(raw: str) -> str:
    """Read a word to look for."""
    return raw[:100]


def model(raw: str) -> str:
    """Read a model's name, never a path: what is loaded from a folder is typed by hand."""
    if not is_hub_id(raw):
        raise ValueError
    return raw


def key(raw: str) -> str:
    """Read the key of a metric or label; whether it exists is found out later."""
    if not raw.isidentifier() or len(raw) > 40:
        raise ValueError
    return raw


def metric(raw: str) -> str:
    """Read the key of a metric; an older link may use its former name."""
    from mha_viz.core.metrics import RENAMED  # not above: it brings torch

    return RENAMED.get(raw, key(raw))


def arc(raw: str) -> str:
    """Read a relation of gold trees with its direction, as "nsubj.to_head"."""
    relation, _, direction = raw.rpartition(".")
    if not relation or len(raw) > 60 or direction not in ("to_head", "to_dependent"):
        raise ValueError
    return raw


class Pin(NamedTuple):
    """A head of a model on a text, and what somebody noted about it."""

    model: str
    text: str
    pair: str
    part: str
    layer: int
    head: int
    note: str = ""

    def is_in(self, pins: Collection["Pin"]) -> bool:
        """Return whether one of the pins is the same head on the same text, whatever is noted."""
        return any(self[:-1] == pin[:-1] for pin in pins)


def unique_pins(pins: Sequence[Pin]) -> tuple[Pin, ...]:
    """Return the different ones of these heads, as many as a board holds.

    >>> pin = Pin("tiny-bert", "a", "", "self", 0, 1)
    >>> pins = pin, pin._replace(note="again"), pin._replace(head=2)
    >>> [pin.head for pin in unique_pins(pins)]
    [1, 2]
    """
    unique: list[Pin] = []
    for pin in pins:
        unique += [] if pin.is_in(unique) else [pin]
    return tuple(unique[:MAX_PINS])


def pins(raw: str, folders: Container[str], problems: list[str]) -> tuple[Pin, ...]:
    """Read pins as `written` packs them; those that are not valid become a problem."""
    try:
        packed = base64.b64decode(raw + "=" * (-len(raw) % 4), b"-_", validate=True)
        rows = zlib.decompressobj().decompress(packed, MAX_UNPACKED).decode().split(_PIN)
    except zlib.error as error:
        raise ValueError from error
    valid: list[Pin] = []
    for row in rows[: 2 * MAX_PINS]:
        with suppress(ValueError):
            name, words, pair, part, layer, head, line = row.split(_FIELD)
            base = name.removesuffix(UNTRAINED)
            name = name if base in folders else model(base) + name[len(base) :]
            valid += [Pin(name, words, pair, key(part), index(layer), index(head), line[:200])]
    unique = unique_pins(valid)
    if n := len(rows) - len(unique):
        problems.append(f"Pins of the link that are not valid: {n:,} of {len(rows):,}, ignored.")
    return unique


def written(value: object) -> str:
    """Write a choice as a link has it; pins packed, because models and texts repeat."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, tuple) and value and isinstance(value[0], Pin):
        rows = _PIN.join(_FIELD.join(map(str, pin)) for pin in value).encode("utf-8", "replace")
        return base64.urlsafe_b64encode(zlib.compress(rows, 9)).decode().rstrip("=")
    if isinstance(value, tuple):
        return ",".join(f"{layer}.{head}" for layer, head in value)
    return str(value).removesuffix(".0") if isinstance(value, float) else str(value)
