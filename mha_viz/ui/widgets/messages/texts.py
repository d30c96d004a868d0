"""Texts of a page on screen, which texts.toml in the page's folder declares.

Values fill {placeholders}. {size:number} writes a value as `format_number` does, {size:.2g} with
two digits, {share:.1%} as `format_share` does, {count:short} as `short`, and {size:bytes} as
`of_bytes`; a minus is never a hyphen.
"""

import re
import tomllib
from collections.abc import Callable, Mapping
from functools import reduce
from importlib.resources import files
from string import Formatter
from typing import Any, TypedDict, TypeVar, cast

from mha_viz.core.amounts import format_number, format_share, of_bytes, short, true_minus


class FigureTexts(TypedDict):
    """Texts that `figures.show` takes; those that depend on a run may come from elsewhere."""

    name: str
    how_to_read: str


class KeyedTexts(FigureTexts):
    """The same, and the key of the figure on its page."""

    key: str


_WRITERS: dict[str, Callable[[Any], str]] = {
    "number": format_number,
    "short": short,
    "bytes": of_bytes,
}


class _Filler(Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec in _WRITERS:  # an amount and its unit stay on one line
            return _WRITERS[format_spec](value).replace(" ", "\N{NO-BREAK SPACE}")
        if digits := re.fullmatch(r"\.([1-3])g", format_spec):
            return format_number(value, digits=int(digits[1]))
        if digits := re.fullmatch(r"\.([0-3])%", format_spec):
            return format_share(value, int(digits[1]))
        text = str(super().format_field(value, format_spec))
        return text if isinstance(value, str) else true_minus(text)


class Texts:
    """The texts of one page; `texts("table.key", n=4)` is one of them, filled in."""

    def __init__(self, source: str, tables: Mapping[str, Any]) -> None:
        self.source, self.tables = source, tables

    def __call__(self, name: str, /, **values: object) -> str:
        """Return one text. Raises ValueError if it or one of its values is missing."""
        return cast(str, self._filled(name, self._at(name), values))

    def labels(self, name: str) -> dict[str, str]:
        """Return a table of names, by the keys of what they name."""
        return dict(self._at(name))

    def control(self, name: str, /, **values: object) -> dict[str, Any]:
        """Return the arguments of a widget that `controls.name` declares, as its label."""
        return self._table(f"controls.{name}", values)

    def _at(self, name: str) -> Any:
        try:
            return reduce(lambda table, key: table[key], name.split("."), self.tables)
        except KeyError as error:
            raise ValueError(f"{self.source} has no {name}.") from error

    def _table(self, name: str, values: Mapping[str, object]) -> dict[str, Any]:
        """Return a table with all its strings filled in, without its subtables."""
        strings = {key: text for key, text in self._at(name).items() if not isinstance(text, dict)}
        return {key: self._filled(f"{name}.{key}", text, values) for key, text in strings.items()}

    def _filled(self, name: str, text: Any, values: Mapping[str, object]) -> Any:
        if isinstance(text, list):
            return [self._filled(name, part, values) for part in text]
        try:
            return _Filler().vformat(text, (), values) if isinstance(text, str) else text
        except KeyError as error:
            raise ValueError(f"{self.source}, {name}: no value for {error}.") from error


class PageTexts(Texts):
    """The texts of one page; a figure's table ends in its key on the page."""

    def figure(self, name: str, /, **values: object) -> KeyedTexts:
        """Return the texts of a figure, and its key."""
        return cast(KeyedTexts, {"key": name.rpartition(".")[2], **self._table(name, values)})


T = TypeVar("T", bound=Texts)


def read_texts(package: str, kind: type[T]) -> T:
    """Read the texts.toml of a package."""
    text = (files(package) / "texts.toml").read_text("utf-8")
    return kind(f"{package}, texts.toml", tomllib.loads(text))
