"""Tables of a study as a reader sees them: best heads, labels and metrics under plain names."""

import tomllib
from importlib.resources import files
from typing import NamedTuple

import pandas as pd

from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.core.metrics.units import MIN_UNITS
from mha_viz.corpus.query.best_heads import BEATS, QUESTIONS
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.treebank.relations import ALL, MIN_TARGETS, TO_HEAD
from mha_viz.web.labels import head_name
from mha_viz.web.theme import format_number

_TEXTS = tomllib.loads((files(__package__) / "tables.toml").read_text("utf-8"))
_LIMITS = dict(min_targets=MIN_TARGETS, min_units=MIN_UNITS)
NOTES = {key: note.format(**_LIMITS) for key, note in _TEXTS["notes"].items()}


class StudyTable(NamedTuple):
    """A table of a study: its name in files and in words, its rows, and how it is shown."""

    key: str
    title: str
    rows: pd.DataFrame
    note: str
    shown: pd.DataFrame


def study_tables(study: Study) -> list[StudyTable]:
    """Make the tables of a report: best heads of gold trees, labels, metrics, pairs."""
    best = {by: study.best_heads(by) for by in (QUESTIONS if study.has_trees else ())}
    found = {by: titled(rows) for by, rows in best.items() if len(rows)}
    notes = {by: f"{answer(best[by], by).replace('**', '')} {NOTES[by]}" for by in found}
    found |= {"labels": titled(study.labels), "metrics": titled(study.heads)}
    if study.pair_measures:
        measure = study.pair_measures[0]
        found["pairs"], notes["pairs"] = titled(study.nearest_pairs(measure)), pairs_note(measure)
    notes, shown = NOTES | notes, found | {"metrics": _by_metric(found["metrics"])}
    titles = _TEXTS["titles"]
    return [StudyTable(k, titles[k], rows, notes[k], shown[k]) for k, rows in found.items()]


def pairs_note(measure: str) -> str:
    """Say what the numbers of a table of pairs are."""
    return NOTES["pairs"].format(measure=METRICS[measure].title)


def _by_metric(rows: pd.DataFrame) -> pd.DataFrame:
    """Lay out means with their intervals: a row per head, a column per metric."""
    numbers = rows[["Mean", "Low", "High"]].map(format_number)
    cells = numbers["Mean"] + " (" + numbers["Low"] + " to " + numbers["High"] + ")"
    wide = rows.assign(cell=cells).pivot(index="Head", columns="Metric", values="cell")
    return wide.loc[rows["Head"].unique(), rows["Metric"].unique()].reset_index()


def short_title(arc: str) -> str:
    """Return a choice's name where there is little room.

    >>> short_title("obj.to_dependent"), short_title("all.to_head"), short_title("trees.")
    ('obj → dep.', 'any → head', 'trees')
    """
    relation, _, direction = arc.rpartition(".")
    if not direction:  # no relation, but a question of its own
        return relation
    name = "any" if relation == ALL else relation
    return f"{name} → {'head' if direction == TO_HEAD else 'dep.'}"


def titled(found: pd.DataFrame) -> pd.DataFrame:
    """Return rows about heads, of any of a study's tables, as they are on screen."""
    table = found.copy()
    for side in [side for side in ("", "_b", "_a") if f"layer{side}" in found]:
        places = found[[f"layer{side}", f"head{side}"]].to_numpy().tolist()
        table[f"head{side}"] = [head_name(*place) for place in places]
    if "relation" in table:
        table["relation"] = (table["relation"] + "." + table["direction"]).map(short_title)
    for column, known in (("label", LABELS), ("metric", METRICS)):
        if column in table:
            table[column] = [known[key].title for key in table[column]]
    columns = {name: title for name, title in _TEXTS["columns"].items() if name in table}
    return table[list(columns)].rename(columns=columns).reset_index(drop=True)


def answer(found: pd.DataFrame, by: str) -> str:
    """Sum the table up in a sentence.

    >>> rows = {"relation": ["det"], "direction": ["to_head"], "layer": [0], "head": [3]}
    >>> rows |= {"accuracy": [0.81], "verdict": ["beats all"]}
    >>> answer(pd.DataFrame(rows), "relations")
    '**Relations with a head that beats its baselines: 1 of 1**, as det → head by L0 H3 (0.81).'
    """
    table = titled(found)
    if "verdict" not in found:
        first = table.iloc[0]
        return (
            f"**Most above an even spread**: {first['Head']}, from {first['From']} to "
            f"{first['To']} ({first['Weight']:.2f} against {first['Spread evenly']:.2f})."
        )
    known, score = table[found["verdict"] == BEATS], "UUAS" if by == "trees" else "Accuracy"
    whose = "Relations with a head that beats its" if by == "relations" else "Heads that beat their"
    told = f"**{whose} baselines: {len(known)} of {len(found):,}**"
    names = [f"{row.get('Relation', '')} by {row['Head']} ({row[score]:.2f})".removeprefix(" by ")
             for row in known.head(3).to_dict("records")]  # fmt: skip
    return f"{told}, as {', '.join(names)}." if names else f"{told}."
