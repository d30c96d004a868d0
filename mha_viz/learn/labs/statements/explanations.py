"""Explanations of lab 10's numbers: both sides, and why a statement holds or fails."""

import math
import operator
from collections.abc import Mapping
from typing import Any

from mha_viz.core.metrics.joint_information import N_DRAWS
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.interventions.robustness import Robustness
from mha_viz.learn.frame.texts import read_texts
from mha_viz.reports.textbook import HOLDS, LITTLE, Sides, Statement, judge
from mha_viz.ui.widgets.messages import words
from mha_viz.web.theme import format_number as short

TEXTS = read_texts(__package__)
SIGNS = {"=": "=", "<=": "≤", ">=": "≥"}
COMPARISONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
Numbers = dict[str, float]


def sides_in_words(statement: Statement, sides: Sides, layer: int) -> str:
    """Write both sides in a layer; a side that is only bounded becomes an interval."""
    at = sides.at(layer)
    interval = _interval(at["drawn_low"], at["drawn_high"])
    if words.UNDEFINED in interval or math.isnan(at["right"]):
        return words.UNDEFINED
    return f"{interval} {SIGNS[statement.relation]} {short(at['right'])} ?"


def why(
    statement: Statement,
    record: AttentionRecord,
    sides: Sides,
    layer: int,
    failures: Robustness | None = None,
) -> str:
    """Explain why a statement holds or fails in this layer, with the numbers that show it."""
    at = sides.at(layer)
    first, second = at["left"], at["right"]
    if math.isnan(first) or math.isnan(second):
        return TEXTS(f"undefined.{_reason(statement, record)}")
    word = judge(statement, sides)[layer].word
    total = at.get("sum of all heads", second)  # of what the heads tell one by one
    at |= {"holds": word == HOLDS, "ratio": first / second if second else math.nan}
    at |= {"difference": first - second, "unused": second - first, "shared": total - second}
    at |= {"twice": at.get("sum of the heads’ dimensions", first) - first}
    at |= {"just below": second - statement.tolerance}
    values: dict[str, object] = {"layer": layer, "at": at, "statement": statement}
    if failures is not None:
        n_pairs = len(failures.pairs)
        at |= {"pairs": n_pairs, **failures.summary()}
        values |= {"failures": failures, "n_pairs": n_pairs}
    beyond = (max(total - at[end], 0.0) for end in ("drawn_high", "drawn_low"))
    values |= {"gap": _interval(*beyond), "n_draws": N_DRAWS}
    values["drawn"] = _interval(at["drawn_low"], at["drawn_high"])
    values["short"] = {name: short(number) for name, number in at.items()}
    table = "little" if word == LITTLE else statement.key
    conditions = TEXTS.tables["when"]["all"] | TEXTS.tables["when"].get(table, {})
    shown = [
        name
        for name in TEXTS.tables["why"][table]
        if all(_is_met(condition, at) for condition in conditions.get(name, ()))
    ]
    return " ".join(TEXTS(f"why.{table}.{name}", **values) for name in shown)


def _is_met(condition: tuple[Any, ...], at: Mapping[str, float]) -> bool:
    """Compare a number with another one, or with a share of one that has a name."""
    name, comparison, bound, *share = condition
    bound = at[bound] * (share or [1])[0] if isinstance(bound, str) else bound
    return bool(COMPARISONS[comparison](at[name], bound))


def _interval(low: float, high: float) -> str:
    ends = short(low), short(high)
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def _reason(statement: Statement, record: AttentionRecord) -> str:
    if statement.key == "variance" and len(record.tokens) < 2:
        return "one-token"
    if record.n_heads == 1 and statement.key in ("orthogonal", "diversity"):
        return "one-head"
    return statement.needs if statement.needs in ("loss", "pattern") else "zeros"
