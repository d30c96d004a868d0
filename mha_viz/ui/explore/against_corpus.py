"""A head's numbers on this text among its own numbers over a study, where one has been made."""

from __future__ import annotations

import math
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd
import streamlit as st

from mha_viz.core.metrics import METRICS
from mha_viz.reports.report import Report
from mha_viz.ui.session import memory, state
from mha_viz.ui.session.scene import Scene
from mha_viz.ui.session.views import View
from mha_viz.web.labels import head_name
from mha_viz.web.theme import format_number

if TYPE_CHECKING:
    from mha_viz.corpus.study import Study

_UNUSUAL = 0.95  # share of the texts beyond which a number stands
_NAMED = 4  # numbers that are named


class Standings(NamedTuple):
    """How one head's numbers stand: `corpus.standing.standing` by metric, among which texts."""

    table: pd.DataFrame
    texts: str

    def in_words(self, metric: str) -> str:
        """As "higher than on 97 % of the texts"; "" where nothing can be said."""
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


def standings(scene: Scene, report: Report, place: tuple[int, int]) -> Standings | None:
    """How a head's numbers stand among the texts of a finished study; None where there is none.

    It is only looked up: no study is begun for it, and a head's rows are read once.
    """
    view = state.current()
    study = _finished(view)
    if study is None or scene.record.part not in ("self", "encoder"):
        return None
    found = import_module("mha_viz.corpus.standing")
    rows = memory.cache().get(
        ("scores of a head", study.folder, place),
        lambda: found.scores_of_head(study, *place),
        lambda made: int(made.memory_usage(deep=True).sum()),
    )
    scores = {metric: float(values[place]) for metric, values in report.scores.items()}
    scores["n_tokens"] = len(scene.record.tokens)
    described = import_module("mha_viz.ui.session.studies").described(study, view)
    return Standings(found.standing(rows, scores), described)


def _finished(view: View) -> Study | None:
    # Studies are made on the page Corpus: where nobody has opened it there is none, and what reads
    # them need not be loaded.
    if memory.known("mha_viz.ui.corpus") is None:
        return None
    found: Study | None = import_module("mha_viz.ui.session.studies").studies().finished(view)
    return found


def draw(found: Standings | None, report: Report, place: tuple[int, int]) -> None:
    """What is unusual for the head on this text; or where a study would be made."""
    with st.container(horizontal=True, vertical_alignment="center"):
        if found is None:
            st.caption("Is this usual for the head? A study of many texts would tell:")
            st.page_link(st.session_state.pages["corpus"], label="Make one on Corpus")
        else:
            st.caption(_said(found, report, place))
            st.page_link(st.session_state.pages["corpus"], label="To the study")


def _said(found: Standings, report: Report, place: tuple[int, int]) -> str:
    beyond = found.table.drop("n_tokens")[["lower", "higher"]].max(axis=1)
    far = beyond[beyond > _UNUSUAL].sort_values(ascending=False, kind="stable").index
    among = f"Against {head_name(*place)} on {found.texts}"
    length = _length(found)
    if far.empty:
        return f"**{among}**: nothing unusual; each number lies within the middle 90 %. {length}"
    said = "; ".join(
        f"**{METRICS[metric].title}** {format_number(report.scores[metric][place])}, "
        f"{found.in_words(metric)}"
        for metric in far[:_NAMED]
    )
    more = f"; and {len(far) - _NAMED} more" if len(far) > _NAMED else ""
    n, usual = int(beyond.notna().sum()), 2 * (1 - _UNUSUAL)
    return (
        f"**{among}**: {said}{more}. On an ordinary text {format_number(n * usual)} of {n} numbers "
        f"are so far out. {length}Each of them: “In numbers and words”."
    )


def _length(found: Standings) -> str:
    """A word on the text's own length where it is unusual, for much grows with it."""
    lower, higher, median = found.table.loc["n_tokens", ["lower", "higher", "median"]].to_numpy()
    if max(lower, higher) <= _UNUSUAL:
        return ""
    side = "longer" if lower > higher else "shorter"
    return (
        f"This text is {side} than nearly all of those (half have {median:.0f} tokens or less): "
        "entropy, distance and more grow with length. "
    )
