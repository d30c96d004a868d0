"""What a lab's controls are set to, kept while other pages are open and carried by its link.

Knows streamlit's session and the page's address.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import streamlit as st

from mha_viz.ui import state, views
from mha_viz.ui.learn.contents import Lab

MAX_RAW = 200  # letters of a link's choice that nothing has read
T = TypeVar("T")


@dataclass
class _Held:
    raw: dict[str, str]  # what the link said, as long as nothing was made of it
    visit: int  # how often Back or Forward led here
    values: dict[str, Any] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)
    fixed: dict[str, Any] = field(default_factory=dict)


class Choices:
    """One lab's choices in one session, each by its name in the link."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        key, moved = f"choices-{lab.key}", state.follow(view=lab.uses_text)
        before = st.session_state.get(key)
        if before is None or moved:
            visit = 0 if before is None else before.visit + 1
            st.session_state[key] = _Held(state.address(), visit)
        self._held: _Held = st.session_state[key]

    def bound(
        self,
        name: str,
        widget: Callable[..., Any],
        *args: Any,
        default: T,
        read: Callable[[str], T],
        also: Callable[[], None] | None = None,
        **options: Any,
    ) -> T:
        """A widget that shows the choice `name` and writes what the user chooses back into it.

        Args:
            name: in the link; must be no name of a `View`'s field.
            widget, args, options: as for Streamlit, without value, key and callback.
            default: what it is where nothing was chosen; then the link does not name it.
            read: makes a value of what a link says, or raises ValueError.
            also: called after a choice was written back.
        """
        value = self.get(name, default, read)
        key = self.key(name)
        state.show(key, value)

        def store() -> None:
            chosen = st.session_state[key]
            if chosen is not None:  # a segmented control can be switched off
                self.set(name, chosen)
            if also is not None:
                also()

        widget(*args, key=key, on_change=store, **options)
        return value

    def get(self, name: str, default: T, read: Callable[[str], T]) -> T:
        """The choice `name`, for controls that are no plain widgets."""
        held = self._held
        held.defaults[name] = default
        if name not in held.values:
            held.values[name] = self._read(name, default, read)
        value: T = held.values[name]
        return value

    def fixed(self, name: str, value: T) -> T:
        """The value that `name` had when it was first asked for: editors need it again and again.

        Back and Forward begin anew.
        """
        found: T = self._held.fixed.setdefault(name, value)
        return found

    def editor_key(self, name: str) -> str:
        """A key for an editor of `fixed` numbers, whose edits must not outlive those."""
        return f"{self.key(name)}-{self._held.visit}"

    def keep(self, name: str, value: Any) -> None:
        """Take over what an editor says, while the page is drawn."""
        self._held.values[name] = value

    def set(self, name: str, value: Any) -> None:
        """Choose something, in a callback."""
        self.keep(name, value)
        st.session_state.problems = []
        state.unsettle()

    def key(self, name: str) -> str:
        """A key for a widget or figure of this lab."""
        return f"{self.lab.key}-{name}"

    def publish(self) -> None:
        """Write all that was chosen into the address; the end of a lab's run."""
        held = self._held
        # What no part of the lab has read yet, it may read further down.
        more = {name: raw[:MAX_RAW] for name, raw in held.raw.items() if name not in views.NAMES}
        more |= {
            name: _written(value)
            for name, value in held.values.items()
            if value != held.defaults.get(name)
        }
        state.publish(more, view=self.lab.uses_text)

    def _read(self, name: str, default: T, read: Callable[[str], T]) -> T:
        raw = self._held.raw.pop(name, None)
        if raw is None:
            return default
        try:
            return read(raw)
        except ValueError:
            shown = raw if len(raw) <= 40 else raw[:39] + "…"
            state.tell(f"The link's {name}={shown!r} makes no sense and was left out.")
            return default


def _written(value: Any) -> str:
    if isinstance(value, tuple):  # a matrix
        return ";".join(",".join(f"{number:g}" for number in row) for row in value)
    return views.written(value)


def among(options: Sequence[T]) -> Callable[[str], T]:
    """Reads one of these values."""
    known: dict[Hashable, T] = {views.written(option): option for option in options}

    def read(raw: str) -> T:
        if raw not in known:
            raise ValueError
        return known[raw]

    return read


def switch(raw: str) -> bool:
    """Reads whether something is on."""
    return among([False, True])(raw)


def numbers(rows: int, columns: int, low: float, high: float) -> Callable[[str], Any]:
    """Reads a small matrix, rows split by ";" and numbers by ",", as a tuple of tuples."""
    number = views.real(low, high)

    def read(raw: str) -> tuple[tuple[float, ...], ...]:
        matrix = tuple(tuple(number(n) for n in row.split(",")) for row in raw.split(";"))
        if len(matrix) != rows or any(len(row) != columns for row in matrix):
            raise ValueError
        return matrix

    return read
