"""The report card of the chosen head: its labels, and every score among those of all heads."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsFloat

import pandas as pd
import streamlit as st

from mha_viz.core.metrics import METRICS
from mha_viz.plots.report_card import report_card
from mha_viz.reports.report import Report
from mha_viz.ui.explore import TEXTS
from mha_viz.ui.run import memory, reporting
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import state
from mha_viz.ui.state.views import Corpus, Explore
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import words

if TYPE_CHECKING:
    pass

MEANING = "What it means"
AMONG = "Among texts"
# Wide enough for what they hold; together they fit a phone, and the card's column.
_WIDTHS = {"Metric": 104, "This head": 76, "Mean": 68, "Rank": 70}


def card(scene: Scene) -> None:
    """Draw the report card of the chosen head, measured on all tokens."""
    view = state.of(Explore)
    report = reporting.report(scene, view)
    labels(report)
    place, keys = view.chosen, list(report.scores)
    values = {key: values.numpy() for key, values in report.scores.items()}
    titles = {key: METRICS[key].title for key in keys}
    units = {key: METRICS[key].shown_unit for key in keys}
    learned_nothing = {key: words.baseline_values(report.baselines.get(key), place) for key in keys}
    looks: dict[str, Any] = {"baselines": learned_nothing, "dark": look.dark()}
    looks["layer_numbers"] = scene.record.layer_numbers
    figure = report_card(values, titles, units, place, **looks)
    figures.chart(figure, key="card", alt=TEXTS("card.alt"), tools=False)
    told = " Measured on all tokens." * (view.words or view.no_special or view.no_first)
    told += f" {words.INDUCTION}" * (report.induction is not None)
    st.caption(TEXTS("card.card") + told)
    found = percentiles(scene, report, place)
    with st.container(horizontal=True, vertical_alignment="center"):
        usual = "Is this usual for the head? A study of many texts would tell:"
        st.caption(usual if found is None else _unusual_line(found, report, place))
        label = "Make one on Corpus" if found is None else "To the study"
        st.page_link(st.session_state.pages["corpus"], label=label)
    name, table = words.head_name(*place), _numbers(report, place, found)
    texts: dict[str, Any] = {"name": f"Card of {name}", "title": "In numbers and words"}
    texts["caption"] = words.settings(scene, name, "on all tokens")
    draw = partial(_in_words, report, place, found)
    figures.explain(lambda: figure, key="card", table=table, draw=draw, **texts)
    reporting.offer_random(view)


def labels(report: Report) -> None:
    """Write the labels of the chosen head, and why it has them."""
    view = state.of(Explore)
    found = report.labels[view.layer][view.head]
    if not found:
        st.markdown("No label: none of its scores passes a threshold, the baselines and chance.")
    for one in found:
        st.markdown(f":material/label: **{one.label.title}.** {one.label.meaning}")
        st.caption(words.plain(one.why))
    if by_chance := report.withheld[view.layer][view.head]:
        titles = ", ".join(label.title for label in by_chance)
        st.caption(f"Withheld, because as many heads may reach it by chance: {titles}.")
    if short := report.too_short(view.layer):
        st.caption(f"Too short to tell: {', '.join(label.title for label in short)}.")


def _in_words(report: Report, place: tuple[int, int], found: Percentiles | None) -> None:
    table = _numbers(report, place, found, words.format_number).fillna("")
    columns = {
        name: st.column_config.Column(width=width, pinned=name == "Metric")
        for name, width in _WIDTHS.items()
    }
    shown = table.drop(columns=MEANING)
    st.dataframe(shown, hide_index=True, column_config=columns)
    further = "" if found is None else f"this head on {found.texts}, and "
    st.caption(f"Further right: {further}heads that have learned nothing. What each number means:")
    rows = table[["Metric", "This head", AMONG, MEANING]].map(words.plain).to_numpy().tolist()
    lines = (
        f"- **{name}**: {value}{among and f', {among}'}. {text}"
        for name, value, among, text in rows
    )
    st.caption("\n".join(lines))
    # The page itself says what was cut.
    words.notes(note for note in report.notes if not note.startswith(words.CUT))


def _numbers(
    report: Report,
    place: tuple[int, int],
    found: Percentiles | None,
    write: Callable[[SupportsFloat], Any] = float,
) -> pd.DataFrame:
    """Return a row per metric; `write` formats each number."""
    rows = []
    for key, values in report.scores.items():
        known, mine, unit = values[values.isfinite()], values[place], METRICS[key].shown_unit
        rank = f"{int((known > mine).sum()) + 1} of {len(known)}" if mine.isfinite() else ""
        baseline = words.baseline_values(report.baselines.get(key), place)
        row = {
            "Metric": METRICS[key].title + (f" ({unit})" if unit else ""),
            "This head": write(mine),
            "Mean": write(known.mean()) if len(known) else words.UNDEFINED,
            "Rank": rank,
            AMONG: "" if found is None else found.in_words(key),
        }
        for name in words.BASELINE_NAMES.values():
            row[name] = write(baseline[name]) if name in baseline else ""
        rows.append(row | {MEANING: METRICS[key].meaning})
    if (found_in := report.induction) is not None:
        low, high = (words.format_number(bound[place]) for bound in (found_in.low, found_in.high))
        meaning = TEXTS("card.induction", found=found_in)
        interval = {"Metric": "Induction, 95 % interval", "This head": f"{low} to {high}"}
        rows.append(interval | {MEANING: meaning})
    return pd.DataFrame(rows)


_UNUSUAL = 0.95  # share of the texts beyond which a number stands
_NAMED = 4  # numbers that are named


class Percentiles(NamedTuple):
    """Percentiles of one head's numbers by metric, and among which texts."""

    table: pd.DataFrame
    texts: str

    def in_words(self, metric: str) -> str:
        """Write "higher than on 97 % of the texts"; "" where nothing is known."""
        if metric not in self.table.index:
            return ""
        lower, higher = (float(self.table[side][metric]) for side in ("lower", "higher"))
        if not math.isfinite(lower):
            return ""
        side, share = ("higher", lower) if lower >= higher else ("lower", higher)
        if share == 0:
            return "as on all of the texts"
        most = "all" if share == 1 else f"{math.floor(100 * share)} %"
        return f"{side} than on {most} of the texts"


def percentiles(scene: Scene, report: Report, place: tuple[int, int]) -> Percentiles | None:
    """Rank a head's numbers among the texts of a finished study; None where there is none.

    It is only looked up: no study is begun for it, and a head's rows are read once.
    """
    if not memory.has_studies.is_set() or scene.record.part not in ("self", "encoder"):
        return None
    from mha_viz.corpus.query.comparison import percentiles, scores_of_head
    from mha_viz.ui.run.studies import describe, studies

    view = state.of(Corpus)
    study = studies().finished(view)
    if study is None:
        return None
    key, make = ("scores of a head", study.folder, place), scores_of_head
    rows = memory.cache().get(key, partial(make, study, *place), reporting.table_bytes)
    scores = {metric: float(values[place]) for metric, values in report.scores.items()}
    scores["n_tokens"] = len(scene.record.tokens)
    return Percentiles(percentiles(rows, scores), describe(study, view))


def _unusual_line(found: Percentiles, report: Report, place: tuple[int, int]) -> str:
    beyond = found.table.drop("n_tokens")[["lower", "higher"]].max(axis=1)
    far = beyond[beyond > _UNUSUAL].sort_values(ascending=False, kind="stable").index
    among, length = f"Against {words.head_name(*place)} on {found.texts}", ""
    lower, higher, median = found.table.loc["n_tokens", ["lower", "higher", "median"]].to_numpy()
    if max(lower, higher) > _UNUSUAL:  # much grows with the length
        side = "longer" if lower > higher else "shorter"
        length = TEXTS("card.length", side=side, median=median)
    if far.empty:
        return TEXTS("card.usual", among=among, length=length)
    numbers = "; ".join(
        f"**{METRICS[metric].title}** {words.format_number(report.scores[metric][place])}, "
        f"{found.in_words(metric)}"
        for metric in far[:_NAMED]
    )
    more = f"; and {len(far) - _NAMED} more" if len(far) > _NAMED else ""
    n, told = int(beyond.notna().sum()), {"among": among, "numbers": numbers + more}
    return TEXTS("card.unusual", **told, usual=n * 2 * (1 - _UNUSUAL), n=n, length=length)
