"""Explanations of lab 10's numbers: both sides, and why a statement holds or fails."""

import math
from collections.abc import Mapping

from mha_viz.core.metrics.joint_information import N_DRAWS
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.interventions.robustness import Robustness
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.statements.measured import HARMED_SHARE, MAX_INFORMATION
from mha_viz.learn.labs.statements.numbers import HOLDS, LITTLE, Sides, Statement, judge
from mha_viz.ui.widgets.messages import words
from mha_viz.web.theme import format_number as short

TEXTS = read_texts(__package__)
SIGNS = {"=": "=", "<=": "≤", ">=": "≥"}
Numbers = dict[str, float]


def sides_in_words(statement: Statement, sides: Sides, layer: int) -> str:
    """Write both sides in a layer; a side that is only bounded becomes an interval."""
    at = _numbers(sides, layer)
    interval = _interval(at["drawn_low"], at["drawn_high"])
    if words.UNDEFINED in interval or math.isnan(at["right"]):
        return words.UNDEFINED
    return f"{interval} {SIGNS[statement.relation]} {short(at['right'])} ?"


def why(
    statement: Statement,
    record: AttentionRecord,
    measured: Mapping[str, Sides],
    layer: int,
    failures: Robustness | None = None,
) -> str:
    """Explain why a statement holds or fails in this layer, with the numbers that show it."""
    sides = measured[statement.key]
    at = _numbers(sides, layer)
    if math.isnan(at["left"]) or math.isnan(at["right"]):
        return TEXTS(f"undefined.{_reason(statement, record)}")
    word = judge(statement, sides)[layer].word
    values: dict[str, object] = {"layer": layer, "at": at, "statement": statement}
    if failures is not None:
        at |= {"harmed": at[HARMED_SHARE], **failures.summary()}
        values |= {"failures": failures, "n_pairs": len(failures.pairs)}
        chosen = {"loss": True, "pairs": len(failures.pairs) > 0}
    elif word == LITTLE:
        chosen = {"little": True}
    else:
        total = at.get("sum of all heads", at["right"])  # of what the heads tell one by one
        at["ratio"] = at["left"] / at["right"] if at["right"] else math.nan
        at["difference"] = at["left"] - at["right"]
        at["shared"] = total - at["right"]
        beyond = (max(total - at[end], 0.0) for end in ("drawn_high", "drawn_low"))
        values |= {"gap": _interval(*beyond), "n_draws": N_DRAWS}
        values["drawn"] = _interval(at["drawn_low"], at["drawn_high"])
        chosen = _sentences(statement, at, word == HOLDS)
    values["short"] = {name: short(number) for name, number in at.items()}
    table = "little" if chosen.keys() == {"little"} else statement.key
    return " ".join(TEXTS(f"why.{table}.{name}", **values) for name, yes in chosen.items() if yes)


def _numbers(sides: Sides, layer: int) -> Numbers:
    low, high = sides.sampled or (sides.low, sides.high)
    values = {
        "left": sides.left_side,
        "right": sides.right_side,
        "low": sides.low,
        "high": sides.high,
    }
    values |= {"drawn_low": low, "drawn_high": high, **sides.more}
    return {name: float(values[name][layer]) for name in values}


def _interval(low: float, high: float) -> str:
    ends = short(low), short(high)
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def _reason(statement: Statement, record: AttentionRecord) -> str:
    if statement.key == "variance" and len(record.tokens) < 2:
        return "one-token"
    if record.n_heads == 1 and statement.key in ("orthogonal", "diversity"):
        return "one-head"
    return statement.needs if statement.needs in ("loss", "pattern") else "zeros"


def _sentences(statement: Statement, at: Numbers, holds: bool) -> dict[str, bool]:
    """Return the names of a statement's sentences in texts.toml, True for those to be shown."""
    ends = {"holds": holds, "fails": not holds}
    match statement.key:
        case "orthogonal":
            chance = at["random subspaces"]
            less, more = at["left"] < 0.95 * chance, at["left"] > 1.05 * chance
            versus = {"less": less, "more": more, "alike": not (less or more)}
            return {"shares": True, **versus, **ends}
        case "direct-sum":
            at["twice"] = at["sum of the heads’ dimensions"] - at["left"]
            at["unused"] = at["right"] - at["left"]
            parts = {"used_twice": at["twice"] > 0, "left_out": at["unused"] > 0, "holds": holds}
            return {"dimensions": True, **parts, "effective": True}
        case "variance":
            cancel = at["difference"] < 0
            return {"cancel": cancel, "agree": not cancel, **ends}
        case "best-head":
            worse = at["heads’ mean pattern"] < at["right"] - statement.tolerance
            return {"theorem": True, "worse": worse, "equal": not worse}
        case "capacity":
            return {"gap": True, "beyond": at["right"] > at[MAX_INFORMATION], "holds": holds}
        case "given-query":
            return {"zero": True, **ends, "exact": True}
        case "redundancy":
            return {"pairs": True, "negative": at["right"] < 0, "exact": True}
    return {"measured": True, **ends}  # "norm" and "diversity"
