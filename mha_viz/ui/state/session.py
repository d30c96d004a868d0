"""The memory of a visitor's session from run to run, beside what an address says."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import streamlit as st
from cachetools import LRUCache

if TYPE_CHECKING:
    from streamlit.navigation.page import StreamlitPage


@dataclass
class Session:
    """Memory of one visitor's page beside its view; it goes with the page.

    Values of rooms above this one are typed there, where they are read.
    """

    pages: dict[str, StreamlitPage] = field(default_factory=dict)  # by address, as app.py offers
    page: str = ""  # the address of the one that is open
    visits: int = 0  # pages that were opened so far
    runs: int = 0
    # Messages
    problems: list[str] = field(default_factory=list)  # what was asked for in vain, until a choice
    shown_problems: list[str] = field(default_factory=list)  # of these, what this run has drawn
    faults: list[str] = field(default_factory=list)  # of callbacks, which cannot draw
    # Models
    typed_models: list[str] | None = None  # names that are offered; None before the first picker
    names_model: bool = False  # the box for another model's name is open
    refused: str = ""  # why the name in it is not accepted
    model_to_fetch: str = ""
    attempt: Any = None  # the `Download` that was begun here
    # The sentence and its run
    has_pair_box: bool = False
    stopped: Hashable = None  # the run that was stopped
    scenes: dict[str, Hashable] = field(default_factory=dict)  # that were there last, by side
    random_wanted: set[tuple[str, str, str]] = field(default_factory=set)  # checkpoints
    auto_head: tuple[int, int] | None = None  # the head that was chosen by nobody
    auto_second: tuple[int, int] | None = None
    # Components
    heard: dict[str, str | None] = field(default_factory=dict)  # the last message, by component
    selected: dict[str, list[Any]] = field(default_factory=dict)  # points of figures, by their key
    measured: dict[str, LRUCache[Any, Any]] = field(default_factory=dict)  # results, by kind
    # The workbench
    sent_part: Any = None  # of exact weights: their head, and rows and columns
    leads_to: str = ""  # the page that a button of it asks for
    wants_random: bool = False  # a baseline of random weights is asked for
    words_of: tuple[int, int] | None = None  # the head whose words were drawn last
    # A text that the model continues
    is_writing: bool | None = None  # its panel is open; None before anybody has chosen
    player: Any = None
    writer: Any = None
    # Compare
    section: str = ""  # that was drawn last
    board_run: tuple[int, tuple[str, ...]] | None = None  # the visit and the page's run there
    opened_panel: int | None = None  # whose head is to be opened on Heads
    # Many texts
    texts_given: list[str] = field(default_factory=list)  # keys of texts that were brought here
    opened_token: tuple[str, int] | None = None  # a text, and a position there to open on Heads
    # Why
    offered_pairs: tuple[list[Any], Any] | None = None  # pairs of heads, and the one shown last
    opened_graph: Any = None  # that was read from a file
    more_texts: str | None = None  # beside the sentence, one a line; None: examples
    beside: str = ""  # the score that importance is drawn against; "": redundancy
    # Looks
    is_projected: bool | None = None  # None where nobody has chosen
    has_projector_switch: bool = False  # on the page of this run


def session() -> Session:
    """Return what the session remembers, empty at its start."""
    remembered: Session = st.session_state.setdefault("session", Session())
    return remembered


def from_browser(key: str) -> Any:
    """Return what a widget or component last sent from the browser; None for nothing."""
    return st.session_state.get(key)


def to_browser(key: str, value: object) -> None:
    """Set the value with which a widget is drawn next."""
    st.session_state[key] = value
