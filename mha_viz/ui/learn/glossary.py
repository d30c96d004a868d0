"""The glossary: every term, symbol, shape and quantity of the app, to be searched.

Knows streamlit; must not import torch: the first lines are there first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import streamlit as st

from mha_viz.ui import look, memory
from mha_viz.ui.learn import frame
from mha_viz.ui.learn.contents import BY_KEY
from mha_viz.ui.learn.glossary_terms import GROUPS, MISCONCEPTIONS, Term
from mha_viz.ui.messages import plain

SEARCH = "glossary-search"
MAX_SEARCH = 60
QUANTITIES = {
    "head": "Quantities of a head", "pair": "Quantities of two heads, from a text",
    "parameters": "Quantities of two heads, from their weights", "layer": "Quantities of a layer",
    "flow": "Quantities of all layers together",
}  # fmt: skip
_WHERE = {
    "diversity": ("Compare", "compare?section=diversity"),
    "value_weighted": ("Explore", "explore?show=carried"),
}


def draw() -> None:
    """The page: a box to search in, terms and quantities in groups, misconceptions."""
    look.page_style()
    frame.sidebar()
    st.title("Glossary", anchor=False)
    st.markdown("The names, symbols and shapes that are used everywhere in the app.")
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
        "Search", key=SEARCH, max_chars=MAX_SEARCH, placeholder="entropy, d_head, W_O …",
        icon=":material/search:", width=360, persist_state="session",
    )  # fmt: skip
    if text.strip():
        st.query_params["find"] = text.strip()
    elif "find" in st.query_params:
        del st.query_params["find"]
    return text


def _group(title: str, rows: Iterable[tuple[str, str]], wanted: list[str]) -> int:
    """A heading and its entries, as (what is searched, markdown); how many there are."""
    shown = [line for searched, line in rows if all(word in searched.lower() for word in wanted)]
    if shown:
        st.subheader(title, anchor=False)
        st.markdown("\n".join(f"- {line}" for line in shown))
    return len(shown)


def _of_term(term: Term) -> tuple[str, str]:
    parts = [f"**{plain(term.name)}**"]
    if term.symbol:
        parts.append(f"${term.symbol}$")
    if term.shape:
        parts.append(f"`({', '.join(term.shape.split())})`")
    parts.append(f"– {plain(term.meaning)}")
    parts += [_link(*place) for place in term.where]
    return f"{term.name} {term.shape} {term.meaning}", " ".join(parts)


def _of_metric(metric: Any) -> tuple[str, str]:
    low, high = metric.range
    span = f"{_number(low)} to {_number(high)}" if high is not None else f"from {_number(low)}"
    unit = metric.unit or "a plain number"
    lines = (
        f"**{plain(metric.title)}** `{metric.key}` – {plain(metric.meaning)} "
        f"*{plain(f'{unit}, {span}; {metric.direction}.')}* "
        f"{plain(metric.source)}. {_link(*_place(metric))}",
        _formula(metric.formula),
    )
    searched = f"{metric.key} {metric.title} {metric.meaning} {metric.unit} {metric.source}"
    return searched, "  \n  ".join(lines)


def _formula(latex: str) -> str:
    """In parts where it has some, so that a phone can break the line between them."""
    return ", ".join(rf"$\displaystyle {part}$" for part in latex.split(r",\quad "))


def _number(value: float) -> str:
    return f"{value:g}".replace("-", "−")


def _place(metric: Any) -> tuple[str, str]:
    """Where a quantity is seen."""
    if metric.key in _WHERE:
        return _WHERE[metric.key]
    return {
        "head": ("Explore", f"explore?sort={metric.key}"),
        "pair": ("Compare", f"compare?section=alike&measure={metric.key}"),
        "parameters": ("Compare", "compare?section=diversity"),
        "layer": (BY_KEY["statements"].title, BY_KEY["statements"].address),
        "flow": ("Compare", "compare?section=flow"),
    }[metric.of]


def _of_label(label: Any) -> tuple[str, str]:
    seen = _link("Explore", f"explore?only={label.key}")
    searched = f"{label.key} {label.title} {label.meaning}"
    return searched, f"**{plain(label.title)}** – {plain(label.meaning)} {seen}"


def _of_belief(belief: str, truth: str, lab: str) -> tuple[str, str]:
    line = f"*“{plain(belief)}”* {plain(truth)} {_link(BY_KEY[lab].title, BY_KEY[lab].address)}"
    return f"{belief} {truth}", line


def _link(label: str, address: str) -> str:
    """Relative: the app may be served under a path."""
    return f"[{plain(label)}]({address})"
