"""Readers of values in links; each raises ValueError for one that is not valid."""

from collections.abc import Callable, Collection

from mha_viz.checkpoints.hub_cache import is_hub_id

MAX_URL_TEXT = 1_500  # browsers and chat programs cut longer links
MAX_BRANCHES = 50


def one_of(allowed: Collection[str]) -> Callable[[str], str]:
    """Return a reader of one of these words."""

    def read(raw: str) -> str:
        if raw not in allowed:
            raise ValueError
        return raw

    return read


def whole(low: int, high: int) -> Callable[[str], int]:
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


def switch(raw: str) -> bool:
    """Read "1" or "0"."""
    return one_of(("0", "1"))(raw) == "1"


MAX_SPANS = 50  # rows of neighbours among the chosen tokens
index = whole(0, 9_999)
position = whole(-1, 9_999)


def heads(most: int) -> Callable[[str], tuple[tuple[int, int], ...]]:
    """Return a reader of heads, as "3.7,2.1", of which it takes so many."""

    def read(raw: str) -> tuple[tuple[int, int], ...]:
        pairs = [part.split(".") for part in raw.split(",")][:most] if raw else []
        return tuple((index(layer), index(head)) for layer, head in pairs)

    return read


def window(raw: str) -> tuple[tuple[int, int], ...]:
    """Read the tokens that both axes show, as "10.42,0.99": first and last, of queries and keys."""
    spans = heads(3)(raw)
    if len(spans) not in (0, 2) or any(first > last for first, last in spans):
        raise ValueError
    return spans


def spans(raw: str) -> tuple[tuple[int, int], ...]:
    """Read chosen tokens, as "3.5,9.9": first and last of each row of neighbours."""
    found = heads(MAX_SPANS)(raw)
    if any(first > last for first, last in found):
        raise ValueError
    return found


def branches(raw: str) -> tuple[tuple[int, int], ...]:
    """Read chosen tokens, as "5.1234,9.7": positions and ids."""
    pairs = [part.split(".") for part in raw.split(",")][:MAX_BRANCHES] if raw else []
    token_id = whole(0, 99_999_999)
    return tuple((index(at), token_id(number)) for at, number in pairs)


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
