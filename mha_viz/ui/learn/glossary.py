"""The glossary: every term, symbol, shape and quantity of the app, to be searched.

Knows streamlit; must not import torch: the first lines are there first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import streamlit as st

from mha_viz.ui.learn import frame
from mha_viz.ui.learn.contents import BY_KEY, LABS
from mha_viz.ui.learn.glossary_terms import GROUPS, Place, Term
from mha_viz.ui.learn.misconceptions import MISCONCEPTIONS
from mha_viz.ui.session import memory, state, views
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.messages import plain

SEARCH = "glossary-search"
MAX_SEARCH = 60
QUANTITIES = {
    "head": "Quantities of a head",
    "pair": "Quantities of two heads, from a text",
    "parameters": "Quantities of two heads, from their weights",
    "layer": "Quantities of a layer",
    "flow": "Quantities of all layers together",
}
_ALL_HEADS = (("sort", ""), ("least", 0.0), ("only", ""))  # none left out by an earlier choice
_SEEN = {  # quantities that are not where others of their kind are
    "sink": Place("Explore", "explore", _ALL_HEADS),  # not sorted by it: few models have one
    "value_weighted": Place("Explore", "explore", (("show", "carried"),)),
    "cosine": Place("Compare", "compare", (("section", "alike"), ("space", "W_Q"))),
    "product_cosine": Place("Compare", "compare", (("section", "alike"), ("space", "W_QK"))),
    "product_overlap": Place("Compare", "compare", (("section", "alike"), ("space", "W_QK"))),
    "subspace_overlap": Place(BY_KEY["statements"].title, BY_KEY["statements"].address),
}
_WITHOUT_VIEW = {lab.address for lab in LABS if not lab.uses_text}


def draw() -> None:
    """The page: a box to search in, terms and quantities in groups, misconceptions."""
    look.page_style()
    frame.sidebar()
    st.title("Glossary", anchor=False)
    st.markdown(
        "The names, symbols and shapes that are used everywhere in the app. Links open in a new "
        "tab, with your model and sentence."
    )
    if not state.link():
        st.caption("Your text is too long for a link: the new tab opens without it.")
    wanted = _search().lower().split()
    found = 0
    for title, terms in GROUPS:
        found += _group(title, [_of_term(term) for term in terms], wanted)
    metrics = memory.late("mha_viz.core.metrics")
    for of, title in QUANTITIES.items():
        rows = [_of_metric(metric) for metric in metrics.METRICS.values() if metric.of == of]
        found += _group(title, rows, wanted)
    found += _group("Names for heads", [_of_label(one) for one in metrics.LABELS.values()], wanted)
    found += _group("Often believed", [_of_belief(*belief) for belief in MISCONCEPTIONS], wanted)
    if not found:
        st.info("Nothing here is called that. Try a part of the word.")


def _search() -> str:
    if SEARCH not in st.session_state:
        st.session_state[SEARCH] = st.query_params.get("find", "")[:MAX_SEARCH]
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
        st.query_params["find"] = text.strip()
    elif "find" in st.query_params:
        del st.query_params["find"]
    return text


def _group(title: str, rows: Iterable[tuple[str, str]], wanted: list[str]) -> int:
    """A heading and its entries, as (what is searched, markdown); how many there are."""
    shown = [line for searched, line in rows if all(word in searched.lower() for word in wanted)]
    if shown:
        st.header(title, anchor=False)
        st.markdown("\n".join(f"- {line}" for line in shown))
    return len(shown)


def _of_term(term: Term) -> tuple[str, str]:
    parts = [f"**{plain(term.name)}**"]
    if term.symbol:
        parts.append(f"${term.symbol}$")
    if term.shape:
        parts.append(f"`({', '.join(term.shape.split())})`")
    parts.append(f"– {plain(term.meaning)}")
    parts += [_link(place) for place in term.where]
    return f"{term.name} {term.shape} {term.meaning}", " ".join(parts)


def _of_metric(metric: Any) -> tuple[str, str]:
    low, high = metric.limits
    span = f"{_number(low)} to {_number(high)}" if high is not None else f"from {_number(low)}"
    unit = metric.unit or "a plain number"
    lines = (
        f"**{plain(metric.title)}** `{metric.key}` – {plain(metric.meaning)} "
        f"*{plain(f'{unit}, {span}; {metric.direction}.')}* "
        f"{plain(metric.source)}. {_where(metric)}",
        _formula(metric.formula),
    )
    searched = f"{metric.key} {metric.title} {metric.meaning} {metric.unit} {metric.source}"
    return searched, "  \n  ".join(lines)


def _formula(latex: str) -> str:
    """In parts where it has some, so that a phone can break the line between them."""
    return ", ".join(rf"$\displaystyle {part}$" for part in latex.split(r",\quad "))


def _number(value: float) -> str:
    return f"{value:g}".replace("-", "−")


def _where(metric: Any) -> str:
    """Where a quantity is seen."""
    return _link(_SEEN.get(metric.key) or _with_its_kind(metric))


def _with_its_kind(metric: Any) -> Place:
    if metric.of == "head":
        return Place("Explore", "explore", (*_ALL_HEADS, ("sort", metric.key)))
    chosen = {
        "pair": (("section", "twins"), ("measure", metric.key)),
        "layer": (("section", "diversity"),),
        "flow": (("section", "flow"),),
    }[metric.of]
    return Place("Compare", "compare", chosen)


def _of_label(label: Any) -> tuple[str, str]:
    seen = _link(Place("Explore", "explore", (*_ALL_HEADS, ("only", label.key))))
    searched = f"{label.key} {label.title} {label.meaning}"
    return searched, f"**{plain(label.title)}** – {plain(label.meaning)} {seen}"


def _of_belief(belief: str, truth: str, lab: str) -> tuple[str, str]:
    seen = _link(Place(BY_KEY[lab].title, BY_KEY[lab].address))
    return f"{belief} {truth}", f"*“{plain(belief)}”* {plain(truth)} {seen}"


def _link(place: Place) -> str:
    """A link in markdown. It opens a new tab, which knows no choice of this one: it says all.

    Relative: the app may be served under a path. The first page is at that path itself.
    """
    address = "./" if place.page == "explore" else place.page
    if place.page not in _WITHOUT_VIEW:
        view = replace(state.current(), **dict(place.chosen))
        address += f"?{urlencode(views.to_params(view))}"
    return f"[{plain(place.title)}]({address})"
