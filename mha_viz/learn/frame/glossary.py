"""The glossary page: every term, symbol, shape and quantity of the app, with a search box.

glossary.toml lists the terms, misconceptions.toml the beliefs. Must not import torch, so that the
first lines appear at once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import streamlit as st

from mha_viz.learn.frame import layout
from mha_viz.learn.frame.contents import BY_KEY, LABS, read_records
from mha_viz.ui.run import late_imports
from mha_viz.ui.state import links, selection, views
from mha_viz.ui.widgets.messages.notices import plain
from mha_viz.web.theme import true_minus

SEARCH = "glossary-search"
MAX_SEARCH = 60
QUANTITIES = {
    "head": "Quantities of a head",
    "pair": "Quantities of two heads, from a text",
    "parameters": "Quantities of two heads, from their weights",
    "layer": "Quantities of a layer",
    "flow": "Quantities of all layers together",
}
_ALL_HEADS = {"sort": "", "least": 0.0, "only": ""}  # none left out by an earlier choice


@dataclass(frozen=True)
class Destination:
    """A page that shows something: its title, its name in the app, and the choices on it."""

    title: str
    page: str
    chosen: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Term:
    """One entry.

    Args:
        name: as it is written in code and on screen. symbol: in LaTeX, or "".
        shape: of a tensor, by the names of its axes, or "".
        meaning: one or two plain sentences.
        where: the pages of this app that show it.
    """

    name: str
    meaning: str
    symbol: str = ""
    shape: str = ""
    where: tuple[Destination, ...] = ()


@dataclass(frozen=True)
class Group:
    """Terms under a heading."""

    title: str
    terms: tuple[Term, ...]


@dataclass(frozen=True)
class Misconception:
    """A common belief, the truth, and the key of the lab that measures it."""

    belief: str
    truth: str
    lab: str


GROUPS = read_records(Group, Path(__file__).with_suffix(".toml"), "group")
MISCONCEPTIONS = read_records(
    Misconception, Path(__file__).with_name("misconceptions.toml"), "misconception"
)
_DESTINATIONS = {  # quantities that are not where others of their kind are
    "sink": Destination("Heads", "heads", _ALL_HEADS),  # not sorted by it: few models have one
    "value_weighted": Destination("Heads", "heads", {"weighted": "1"}),
    "cosine": Destination("Compare", "compare", {"section": "similar", "space": "W_Q"}),
    "product_cosine": Destination("Compare", "compare", {"section": "similar", "space": "W_QK"}),
    "product_overlap": Destination("Compare", "compare", {"section": "similar", "space": "W_QK"}),
    "subspace_overlap": Destination("Compare", "compare", {"section": "similar", "space": "W_Q"}),
}
_WITHOUT_VIEW = {lab.address for lab in LABS if not lab.uses_text}


def draw() -> None:
    """Draw the page: a search box, terms and quantities in groups, misconceptions."""
    layout.sidebar()
    st.title("Glossary", anchor=False)
    st.markdown(
        "The names, symbols and shapes that are used everywhere in the app. Links open in a new "
        "tab, with your model and sentence."
    )
    words = _search().lower().split()
    n_shown = 0
    for group in GROUPS:
        n_shown += _group(group.title, [_term_line(term) for term in group.terms], words)
    late_imports.await_torch()
    from mha_viz.core import metrics

    for of, title in QUANTITIES.items():
        rows = [_metric_line(metric) for metric in metrics.METRICS.values() if metric.of == of]
        n_shown += _group(title, rows, words)
    n_shown += _group("Names for heads", map(_label_line, metrics.LABELS.values()), words)
    n_shown += _group("Often believed", map(_belief_line, MISCONCEPTIONS), words)
    if not n_shown:
        st.info("Nothing here is called that. Try a part of the word.")


def _search() -> str:
    if SEARCH not in st.session_state:
        former = st.query_params.get("find", "")  # now a choice of the page Many texts
        words = st.query_params.get("search", "" if former in views.FINDS else former)
        st.session_state[SEARCH] = words[:MAX_SEARCH]
    text = st.text_input(
        "Search",
        key=SEARCH,
        max_chars=MAX_SEARCH,
        placeholder="entropy, d_head, W_O …",
        icon=":material/search:",
        width=360,
        persist_state="session",
    )
    if text.strip():
        st.query_params["search"] = text.strip()
    elif "search" in st.query_params:
        del st.query_params["search"]
    return text


def _group(title: str, rows: Iterable[tuple[str, str]], words: list[str]) -> int:
    """Draw a heading and its entries (searched text, markdown); return how many are shown."""
    shown = [line for searched, line in rows if all(word in searched.lower() for word in words)]
    if shown:
        st.header(title, anchor=False)
        st.markdown("\n".join(f"- {line}" for line in shown))
    return len(shown)


def _term_line(term: Term) -> tuple[str, str]:
    parts = [f"**{plain(term.name)}**"]
    if term.symbol:
        parts.append(f"${term.symbol}$")
    if term.shape:
        parts.append(f"`({', '.join(term.shape.split())})`")
    parts.append(f"– {plain(term.meaning)}")
    parts += [_link(destination) for destination in term.where]
    return f"{term.name} {term.shape} {term.meaning}", " ".join(parts)


def _metric_line(metric: Any) -> tuple[str, str]:
    low, high = metric.limits
    span = f"{_number(low)} to {_number(high)}" if high is not None else f"from {_number(low)}"
    unit = metric.unit or "a plain number"
    lines = (
        f"**{plain(metric.title)}** `{metric.key}` – {plain(metric.meaning)} "
        f"*{plain(f'{unit}, {span}; {metric.direction}.')}* "
        f"{plain(metric.source)}. {_link(_DESTINATIONS.get(metric.key) or _with_its_kind(metric))}",
        # in parts, so that a phone can break the line between them
        ", ".join(rf"$\displaystyle {part}$" for part in metric.formula.split(r",\quad ")),
    )
    searched = f"{metric.key} {metric.title} {metric.meaning} {metric.unit} {metric.source}"
    return searched, "  \n  ".join(lines)


def _number(value: float) -> str:
    return true_minus(f"{value:g}")


def _with_its_kind(metric: Any) -> Destination:
    if metric.of == "head":
        return Destination("Heads", "heads", _ALL_HEADS | {"sort": metric.key})
    chosen = {
        "pair": {"section": "similar", "measure": metric.key},
        "layer": {"section": "more", "more": "diversity"},
        "flow": {"section": "more", "more": "flow"},
    }[metric.of]
    return Destination("Compare", "compare", chosen)


def _label_line(label: Any) -> tuple[str, str]:
    link = _link(Destination("Heads", "heads", _ALL_HEADS | {"only": label.key}))
    searched = f"{label.key} {label.title} {label.meaning}"
    return searched, f"**{plain(label.title)}** – {plain(label.meaning)} {link}"


def _belief_line(wrong: Misconception) -> tuple[str, str]:
    lab = BY_KEY[wrong.lab]
    link = _link(Destination(lab.title, lab.address))
    return f"{wrong.belief} {wrong.truth}", f"*“{plain(wrong.belief)}”* {plain(wrong.truth)} {link}"


def _link(destination: Destination) -> str:
    """Write a link in markdown. It opens a new tab, which knows no choice of this one: it says all.

    Relative: the app may be served under a path. The first page is at that path itself.
    """
    address = "./" if destination.page == "heads" else destination.page
    if destination.page not in _WITHOUT_VIEW:
        view = replace(selection.of(views.View), **destination.chosen)
        address += f"?{urlencode(links.to_params(view))}"
    return f"[{plain(destination.title)}]({address})"
