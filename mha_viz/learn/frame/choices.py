"""The choices of a lab's controls, kept while other pages are open and carried by its link."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypedDict, TypeVar, Unpack

import streamlit as st

from mha_viz.learn.frame.contents import Lab
from mha_viz.ui.state import selection, views
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.link_values import integer, one_of, real, written, written_numbers
from mha_viz.ui.state.session import from_browser, session
from mha_viz.ui.widgets.components.component import validate_step
from mha_viz.web.browser import component_script, style

MAX_RAW = 200  # letters of a link's choice that nothing has read
T = TypeVar("T")
N = TypeVar("N", int, float)
Offered = Sequence[T] | Mapping[T, str]
_player = st.components.v2.component(
    "mha_viz.player", css=style("player"), js=component_script("player")
)


class Look(TypedDict, total=False):
    """The look of a control, in Streamlit's words."""

    width: int  # in pixels
    help: str | None
    disabled: bool


@dataclass
class _Stored:
    raw: dict[str, str]  # what the link said, as long as nothing was made of it
    visit: int  # how often Back or Forward led here
    values: dict[str, Any] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)
    fixed: dict[str, Any] = field(default_factory=dict)


class Choices:
    """One lab's choices in one session, each by its name in the link."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        key = f"choices-{lab.key}"
        before: _Stored | None = from_browser(key)
        stored = {} if before is None else _params(before)
        moved = selection.sync_from_url(view=lab.uses_text, more=stored)
        if before is None or moved:
            visit = 0 if before is None else before.visit + 1
            st.session_state[key] = _Stored(selection.url_params(), visit)
        self._stored: _Stored = st.session_state[key]
        self.moving = False  # while a choice is played, value by value

    def slide(
        self, name: str, label: str, options: Offered[T], default: T, **look: Unpack[Look]
    ) -> T:
        """Draw a slider over a few values.

        Args:
            name: in the link, and in the widget's key; must be no name of a `View`'s field.
            label: above the control.
            options: the values; a mapping says what each is called on screen.
            default: what it is where nothing was chosen; then the link does not name it.
            **look: as for Streamlit.
        """
        return self._one_of(st.select_slider, name, label, options, default, **look)

    def walk(
        self, name: str, label: str, options: Mapping[T, str], default: T, **look: Unpack[Look]
    ) -> T:
        """Draw a slider over steps beside buttons that go back and forth; arguments as for `slide`.

        With the focus on the slider, the arrow keys do so as well.
        """
        steps = list(options)
        step = self.get(name, default, one_of(steps))
        for button, way in (("Back", -1), ("Next", 1)):
            number = steps.index(step) + way
            st.button(
                button,
                icon=f":material/arrow_{'forward' if way > 0 else 'back'}:",
                key=self.key(button),
                disabled=not 0 <= number < len(steps),
                on_click=guarded(self.set),
                args=(name, steps[number % len(steps)]),
            )
        return self.slide(name, label, options, default, **look)

    def menu(
        self, name: str, label: str, options: Offered[T], default: T, **look: Unpack[Look]
    ) -> T:
        """Draw a menu; arguments as for `slide`."""
        return self._one_of(st.selectbox, name, label, options, default, **look)

    def segments(self, name: str, label: str, options: Offered[T], default: T) -> T:
        """Draw buttons side by side, of which one is pressed; arguments as for `slide`."""
        return self._one_of(st.segmented_control, name, label, options, default, wrap=True)

    def several(
        self, name: str, label: str, options: Mapping[str, str], usual: Sequence[str]
    ) -> list[str]:
        """Draw a menu of which several may be chosen; `usual` are, as long as nothing is chosen."""

        def read(raw: str) -> str:
            keys = raw.split(",") if raw else []
            if len(set(keys)) != len(keys) or not set(keys) <= options.keys():
                raise ValueError
            return raw

        def take(picked: list[str]) -> None:
            keys = [key for key in options if key in picked]
            self.set(name, "" if keys in ([], list(usual)) else ",".join(keys))

        raw = self.get(name, "", read)
        chosen = raw.split(",") if raw else list(usual)
        shown: dict[str, Any] = {"value": chosen, "format_func": options.__getitem__}
        selection.control(self.key(name), st.multiselect, label, list(options), take=take, **shown)
        return chosen

    def seed(self, name: str = "seed", label: str = "Seed", *, width: int) -> int:
        """Let one of ten random draws be chosen; arguments as for `slide`."""
        return self.slide(name, label, range(10), 0, width=width)

    def toggle(self, name: str, label: str, *, default: bool = False) -> bool:
        """Draw a switch; arguments as for `slide`."""
        return self._bound(name, default, one_of((False, True)), st.toggle, label)

    def number(
        self, name: str, label: str, low: int, high: int, default: int, **look: Unpack[Look]
    ) -> int:
        """Let a whole number from `low` to `high` be typed; other arguments as for `slide`."""
        read = integer(low, high)
        return self._bound(name, default, read, st.number_input, label, low, high, **look)

    def amount(
        self,
        name: str,
        label: str,
        low: N,
        high: N,
        default: N,
        *,
        step: N | None = None,
        **look: Unpack[Look],
    ) -> N:
        """Draw a slider from `low` to `high`, in steps; other arguments as for `slide`."""
        reads: Callable[..., Any] = integer if isinstance(low, int) else real
        read = reads(low, high)
        return self._bound(name, default, read, st.slider, label, low, high, step=step, **look)

    def position(
        self,
        name: str,
        label: str,
        positions: range,
        default: int,
        *,
        most: int,
        called: Sequence[str] = (),
        width: int = 260,
    ) -> int:
        """Draw a slider over positions in something whose size depends on other choices.

        A choice beyond its end is kept for when there are as many positions; until then it is the
        end.

        Args:
            name: of the choice; `label` and `default` as for `slide`.
            label: above the control.
            positions: those that there are now, two at least.
            default: what it is where nothing was chosen.
            most: the last position that there can ever be.
            called: their names on screen; their numbers if there are none.
            width: in pixels.
        """
        first, last, step = positions[0], positions[-1], positions.step
        value = min(self.get(name, default, integer(first, most)) // step * step, last)
        # With the end in its key: to Streamlit, a slider with another end is another slider.
        key, take = self.key(f"{name}-{last}"), partial(self.set, name)
        shown: dict[str, Any] = {"value": value, "take": take, "width": width}
        if called:
            shown["format_func"] = called.__getitem__
            selection.control(key, st.select_slider, label, list(positions), **shown)
        else:
            selection.control(key, st.slider, label, first, last, step=step, **shown)
        return value

    def play(self, name: str, value: float, frames: Sequence[float], played: str) -> None:
        """Draw a button that leads the choice `name` through values, beginning near `value`.

        Values change in the browser (play_button.js), each as if the control had been moved. While
        it plays, the address stays: each value would be a step of the browser's history.

        Args:
            name: of the choice, whose control stands beside the button.
            value: of the choice now.
            frames: its values, the first one first.
            played: what is played, to screen readers.
        """
        key = self.key(f"{name}-player")

        @guarded
        def go() -> None:
            step = validate_step(from_browser(key), len(frames))
            if step is not None:
                at, self.moving = step
                self.set(name, frames[at])

        at = min(range(len(frames)), key=lambda i: abs(frames[i] - value))
        data = {"at": at, "last": len(frames) - 1, "what": played}
        _player(key=key, data=data, width="content", on_step_change=go)

    def text(self, name: str, label: str, default: str, *, most: int, width: int) -> str:
        """Draw a line of text of at most `most` letters; other arguments as for `slide`."""

        def read(raw: str) -> str:
            return raw[:most]

        return self._bound(name, default, read, st.text_input, label, max_chars=most, width=width)

    def _one_of(
        self,
        widget: Callable[..., object],
        name: str,
        label: str,
        options: Offered[T],
        default: T,
        **look: object,
    ) -> T:
        values = list(options)
        called = options.__getitem__ if isinstance(options, Mapping) else str
        return self._bound(
            name, default, one_of(values), widget, label, values, format_func=called, **look
        )

    def _bound(
        self,
        name: str,
        default: T,
        read: Callable[[str], T],
        widget: Callable[..., object],
        *args: object,
        **options: object,
    ) -> T:
        """Draw a widget that shows the choice `name` and stores what the user chooses."""
        value = self.get(name, default, read)
        take = partial(self.set, name)
        selection.control(self.key(name), widget, *args, value=value, take=take, **options)
        return value

    def get(self, name: str, default: T, read: Callable[[str], T]) -> T:
        """Return the choice `name`, for controls that are no plain widgets."""
        stored = self._stored
        stored.defaults[name] = default
        if name not in stored.values:
            stored.values[name] = self._read(name, default, read)
        value: T = stored.values[name]
        return value

    def fixed(self, name: str, value: T) -> T:
        """Return the value that `name` had at its first use: editors need it again and again.

        Back and Forward begin anew.
        """
        first_value: T = self._stored.fixed.setdefault(name, value)
        return first_value

    def editor_key(self, name: str) -> str:
        """Return a key for an editor of `fixed` numbers, whose edits must not outlive those."""
        return f"{self.key(name)}-{self._stored.visit}"

    def keep(self, name: str, value: Any) -> None:
        """Take over an editor's value, while the page is drawn."""
        self._stored.values[name] = value

    def set(self, name: str, value: Any) -> None:
        """Choose something, in a callback."""
        self.keep(name, value)
        session().problems = []

    def key(self, name: str) -> str:
        """Return a key for a widget or figure of this lab."""
        return f"{self.lab.key}-{name}"

    def publish(self) -> None:
        """Write all that was chosen into the address, once it rests; the end of a lab's run."""
        if not self.moving:
            selection.push_url(_params(self._stored), view=self.lab.uses_text)

    def _read(self, name: str, default: T, read: Callable[[str], T]) -> T:
        raw = self._stored.raw.pop(name, None)
        if raw is None:
            return default
        try:
            return read(raw)
        except ValueError:
            shown = raw if len(raw) <= 40 else raw[:39] + "…"
            selection.add_problem(f"The link's {name}={shown!r} is not valid and was ignored.")
            return default


def _params(stored: _Stored) -> dict[str, str]:
    """Return a lab's choices as its address writes them."""
    # What no part of the lab has read yet, it may read further down.
    unread = {name: raw[:MAX_RAW] for name, raw in stored.raw.items() if name not in views.NAMES}
    return unread | {
        name: (
            written_numbers(value, stored.defaults[name])
            if isinstance(value, tuple)
            else written(value)
        )
        for name, value in stored.values.items()
        if value != stored.defaults.get(name)
    }
