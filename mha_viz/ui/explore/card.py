"""The report card of the chosen head: its labels, and every score among those of all heads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, SupportsFloat

import pandas as pd
import streamlit as st

from mha_viz.core.metrics import METRICS
from mha_viz.plots.card import report_card
from mha_viz.reports.report import Report
from mha_viz.ui.explore import against_corpus
from mha_viz.ui.explore.against_corpus import Standings
from mha_viz.ui.session import reporting, state
from mha_viz.ui.session.scene import Scene
from mha_viz.ui.widgets import figures, look, words
from mha_viz.ui.widgets.messages import plain
from mha_viz.web.labels import head_name
from mha_viz.web.theme import format_number

MEANING = "What it means"
AMONG = "Among texts"
# Wide enough for what they hold; together they fit a phone, and the card's column.
_WIDTHS = {"Metric": 104, "This head": 76, "Mean": 68, "Rank": 70}


def card(scene: Scene) -> None:
    """Is this head unusual, and in what? Measured on all tokens, even those left out above."""
    view = state.current()
    report = reporting.report(scene, view)
    labels(report)
    place = view.chosen
    figure = report_card(
        {key: values.numpy() for key, values in report.scores.items()},
        {key: METRICS[key].title for key in report.scores},
        {key: words.unit_of(key) for key in report.scores},
        place,
        dark=look.dark(),
        baselines={
            key: words.baseline_values(report.baselines.get(key), view.layer)
            for key in report.scores
        },
    )
    figures.chart(
        figure,
        key="card",
        alt="Every metric of this head among those of all heads; the table has the numbers.",
        tools=False,
    )
    st.caption(
        "Each row is a metric on a scale of its own: small dots are all heads, the large one is "
        "this head, ticks are heads that have learned nothing. Far from the crowd is unusual; far "
        "from the ticks was learned."
        + " Measured on all tokens." * (view.words or view.no_special or view.no_first)
        + f" {words.INDUCTION}" * (report.induction is not None)
    )
    found = against_corpus.standings(scene, report, place)
    against_corpus.draw(found, report, place)
    name = head_name(*place)
    figures.explain(
        lambda: figure,
        key="card",
        table=_numbers(report, place, found),
        name=f"Card of {name}",
        caption=words.settings(scene, name, "on all tokens"),
        title="In numbers and words",
        draw=lambda: _in_words(report, place, found),
    )
    reporting.offer_random(view)


def labels(report: Report) -> None:
    """What kind of head the chosen one is, and why."""
    view = state.current()
    found = report.labels[view.layer][view.head]
    if not found:
        st.markdown("No label: none of its scores passes a threshold and beats the baselines.")
    for one in found:
        st.markdown(f":material/label: **{one.label.title}.** {one.label.meaning}")
        st.caption(plain(one.why))
    if short := report.too_short(view.layer):
        st.caption(f"Too short to tell: {', '.join(label.title for label in short)}.")


def _in_words(report: Report, place: tuple[int, int], found: Standings | None) -> None:
    """A table narrow enough to be seen whole, and below it what each number means."""
    table = _numbers(report, place, found, format_number).fillna("")
    st.dataframe(
        table.drop(columns=MEANING),
        hide_index=True,
        width="stretch",
        column_config={
            name: st.column_config.Column(width=width, pinned=name == "Metric")
            for name, width in _WIDTHS.items()
        },
    )
    further = "" if found is None else f"this head on {found.texts}, and "
    st.caption(f"Further right: {further}heads that have learned nothing. What each number means:")
    rows = table[["Metric", "This head", AMONG, MEANING]].map(plain).to_numpy().tolist()
    st.caption(
        "\n".join(
            f"- **{metric}**: {value}{among and f', {among}'}. {text}"
            for metric, value, among, text in rows
        )
    )
    for note in report.notes:
        if not note.startswith(words.CUT):  # which the page says already
            st.caption(plain(note))


def _numbers(
    report: Report,
    place: tuple[int, int],
    found: Standings | None,
    write: Callable[[SupportsFloat], Any] = float,
) -> pd.DataFrame:
    """A row per metric; `write` makes of each number what the table shows."""
    rows = []
    for key, values in report.scores.items():
        known = values[values.isfinite()]
        mine = values[place]
        rank = int((known > mine).sum()) + 1 if bool(mine.isfinite()) else None
        unit = words.unit_of(key)
        baseline = words.baseline_values(report.baselines.get(key), place[0])
        rows.append(
            {
                "Metric": METRICS[key].title + (f" ({unit})" if unit else ""),
                "This head": write(mine),
                "Mean": write(known.mean()) if len(known) else words.UNDEFINED,
                "Rank": "" if rank is None else f"{rank} of {len(known)}",
                AMONG: "" if found is None else found.in_words(key),
                **{
                    name: write(baseline[name]) if name in baseline else ""
                    for name in words.BASELINE_NAMES.values()
                },
                MEANING: METRICS[key].meaning,
            }
        )
    if report.induction is not None:
        low, high = (format_number(b[place]) for b in (report.induction.low, report.induction.high))
        rows.append(
            {
                "Metric": "Induction, 95 % interval",
                "This head": f"{low} to {high}",
                MEANING: f"Over {report.induction.n_seeds} random texts of "
                f"{report.induction.period} tokens said twice.",
            }
        )
    return pd.DataFrame(rows)
