"""The labs in order, and the address of each; and how the TOML files beside the code are read.

Standard library only: the list of labs must be there before anything heavy is imported.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")


@dataclass(frozen=True)
class Route:
    """A way through some of the labs, by their keys, for those who have `minutes`."""

    minutes: int
    about: str
    labs: tuple[str, ...]


@dataclass(frozen=True)
class Picture:
    """A lab's picture in the list of labs, as `docs/make_lab_pictures.py` takes it.

    Args:
        alt: its content, for those who do not see it.
        figures: the keys of the figures on the lab's page, from left to right.
        link: the choices behind "?" in the lab's address.
        width: of the window, in pixels. Charts are as wide as it leaves them, and their letters
            are the larger in a small picture.
    """

    alt: str
    figures: tuple[str, ...]
    link: str = ""
    width: int = 560


@dataclass(frozen=True, kw_only=True)
class Lab:
    """One lab.

    Args:
        key: its address is /lab-key, its folder mha_viz/learn/labs/key with _ for -.
        title: its name on screen.
        about: the question that it answers, in one sentence.
        goal: a learner's gain, behind "you can".
        minutes: that it takes, with its questions.
        needs: keys of the labs that it builds on.
        parts: the blocks of the map that it is about, by their keys there.
        picture: its picture in the list of labs.
        learned: sentences that a learner now knows, for the end.
        next: what to open next: keys of labs, or names of the app's pages.
        uses_text: whether it runs on the user's sentence and model.
    """

    key: str
    title: str
    about: str
    goal: str
    minutes: int
    needs: tuple[str, ...]
    parts: tuple[str, ...]
    picture: Picture
    learned: tuple[str, ...]
    next: tuple[str, ...]
    uses_text: bool = False

    @property
    def module(self) -> str:
        """The module that draws it."""
        return f"mha_viz.learn.labs.{self.key.replace('-', '_')}.page"

    @property
    def address(self) -> str:
        """The last part of its address."""
        return f"lab-{self.key}"


def read_records(kind: type[T], path: Path, table: str) -> tuple[T, ...]:
    """Read the array `table` of a TOML file as dataclasses, in the order of the file.

    Raises:
        ValueError: a field that the dataclass does not have, one that is missing, or one of
            another type; the message names file, entry and field.
    """
    entries = tomllib.loads(path.read_text("utf-8"))[table]
    return tuple(
        _record(kind, entry, f"{path.name}, {table} {number}")
        for number, entry in enumerate(entries, 1)
    )


def _record(kind: type[T], entry: Mapping[str, Any], where: str) -> T:
    hints, all_fields = get_type_hints(kind), fields(kind)  # type: ignore[arg-type]
    names = {field.name for field in all_fields}
    optional = {
        field.name
        for field in all_fields
        if field.default is not MISSING or field.default_factory is not MISSING
    }
    if wrong := entry.keys() - names or names - optional - entry.keys():
        raise ValueError(f"{where}: unknown or missing: {', '.join(sorted(wrong))}.")
    return kind(**{name: _value(hints[name], x, f"{where}, {name}") for name, x in entry.items()})


def _value(hint: Any, value: Any, where: str) -> Any:
    """Return a value with tuples for arrays and dataclasses for tables, as the type says."""
    origin = get_origin(hint) or hint
    if origin is tuple and isinstance(value, list):
        item = get_args(hint)[0]
        return tuple(_value(item, part, f"{where} {i}") for i, part in enumerate(value, 1))
    if is_dataclass(origin) and isinstance(value, dict):
        return _record(origin, value, where)  # type: ignore[arg-type]
    if not isinstance(value, origin):
        raise ValueError(f"{where}: {value!r} is no {origin.__name__}.")
    return MappingProxyType(value) if isinstance(value, dict) else value


LABS = read_records(Lab, Path(__file__).with_suffix(".toml"), "lab")
BY_KEY = {lab.key: lab for lab in LABS}
START = Lab(  # the page before the labs, with choices of its own and none of their frame
    key="start",
    title="Start here: follow one sentence",
    about="Where does a language model get its next word from?",
    goal="say what tokens, queries, keys, values and heads do in one real prediction",
    minutes=6,
    needs=(),
    parts=(),
    picture=Picture(alt="", figures=()),
    learned=(),
    next=(),
)
ROUTES = read_records(Route, Path(__file__).with_suffix(".toml"), "route")
