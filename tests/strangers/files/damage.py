"""Ways in which a stranger's file may be damaged, or forged."""

import copy
import json
import shutil
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

# What stands where something else is expected: no number, no end, no type, half a character.
ODD = (
    *(None, True, "", "\ud800", "x" * 3_000, [], {}, [[]]),
    *(-1, 0, 0.5, 2**31, 2**63, 10**400, 1e308, -1e308, float("nan"), float("inf")),
)


def damaged(content: bytes) -> st.SearchStrategy[bytes]:
    """The content cut, or with a few of its bytes replaced, taken out or put in."""
    at = st.integers(0, len(content))

    def cut(places: tuple[int, int], put: bytes) -> bytes:
        begin, end = sorted(places)
        return content[:begin] + put + content[end:]

    near = st.tuples(at, st.integers(0, 8)).map(lambda pair: (pair[0], sum(pair)))
    return st.one_of(
        at.map(lambda end: content[:end]),
        st.builds(cut, near, st.binary(max_size=8)),
        st.builds(cut, st.tuples(at, at), st.just(b"")),
    )


def forged(value: Any) -> st.SearchStrategy[Any]:
    """A value as JSON has it, with one of its parts replaced by something odd, or lost."""
    return st.builds(
        _changed, st.just(value), st.sampled_from(_places(value)), st.sampled_from(ODD)
    )


def _places(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to every part of a value that is not the whole."""
    parts = value.items() if isinstance(value, dict) else ()
    parts = enumerate(value) if isinstance(value, list) else parts
    below = [((*above, key), part) for key, part in parts]
    return [way for key, part in below for way in (key, *_places(part, key))]


def _changed(value: Any, way: tuple[Any, ...], odd: Any) -> Any:
    whole = copy.deepcopy(value)
    inside = whole
    for key in way[:-1]:
        inside = inside[key]
    if odd == {}:
        del inside[way[-1]]
    else:
        inside[way[-1]] = odd
    return whole


def changed(folder: Path, to: Path, name: str | Path, content: bytes) -> Path:
    """A copy of a folder with another content of one file; it takes the place of the last one."""
    place = to / folder.name
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(folder, place)
    (place / name).write_bytes(content)
    return place


def as_json(value: Any) -> bytes:
    """JSON as Python spells it, NaN and halves of characters included."""
    return json.dumps(value).encode()
