"""Comparison of two studies of a treebank: head by head, and best head against best head."""

import numpy as np
import pandas as pd

from mha_viz.core.metrics.chance import RATE, q_values
from mha_viz.core.metrics.units import difference
from mha_viz.corpus.query.best_heads import UNKNOWN
from mha_viz.corpus.query.comparison import source_plan
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.treebank.relations import KEYS, MIN_TARGETS
from mha_viz.corpus.treebank.split_half import has_units, in_units
from mha_viz.errors import ArgumentError, StudyError

TREE_QUESTIONS = ("relations", "trees", "coreference")
_HEAD = ["layer", "head"]
_NAMES = {"n_arcs": "n", "uuas": "accuracy"}


def compare_trees(a: Study, b: Study, by: str = "relations") -> pd.DataFrame:
    """Compare two studies of a treebank by what their heads find in it.

    Where both are of the same source, the test is paired by unit, else the studies are independent
    (`core.metrics.units.difference`). A causal model is asked for fewer words, so that n_a and n_b
    may differ. All is of the half of the sentences that reports, on which no head was chosen.

    Args:
        a: a study.
        b: another one.
        by: "relations", "trees" (UUAS) or "coreference": head by head, of models with as many
            layers and heads; or "best": of any models, the best heads for each of these questions.

    Returns:
        DataFrame with relation, or the question, and direction; layer and head, of "best" layer_a,
        head_a, layer_b and head_b; n_a, n_b, accuracy_a, accuracy_b (or the UUAS), difference (b -
        a) with its 95 % interval, low and high; p, two-sided; q, the least false-discovery rate at
        which it is a difference, of all rows of 20 words or more; and better, "a", "b" or
        "neither". The least q first.

    Raises:
        ArgumentError: no such question; models of other sizes, head by head.
        StudyError: no gold trees, or a study of an earlier version without units.
    """
    if by == "best":
        every = [_compared(a, b, one, KEYS) for one in TREE_QUESTIONS]
        return _ranked(pd.concat(every, ignore_index=True))
    if by not in TREE_QUESTIONS:
        known = ", ".join((*TREE_QUESTIONS, "best"))
        raise ArgumentError(f"by must be one of {known}, got {by!r}.")
    if (a.n_layers, a.n_heads) != (b.n_layers, b.n_heads):
        raise ArgumentError(
            'Models of other sizes are compared by their best heads, by="best": expected as many '
            f"layers and heads, got {a.n_layers} x {a.n_heads} and {b.n_layers} x {b.n_heads}."
        )
    return _ranked(_compared(a, b, by, [*KEYS, *_HEAD]))


def _compared(a: Study, b: Study, by: str, keys: list[str]) -> pd.DataFrame:
    """Test the difference of each two heads with the same keys; without heads, of chosen ones."""
    asked = [*KEYS, *_HEAD] if by == "relations" else _HEAD
    sides = []
    for study in (a, b):
        found = getattr(study, by).rename(columns=_NAMES)
        found = found if by == "relations" else found.assign(relation=by, direction="")
        found = found if keys != KEYS else found[found["chosen"]]
        sides.append(found[[*KEYS, *_HEAD, "n", "accuracy"]])
    both = sides[0].merge(sides[1], on=keys, suffixes=("_a", "_b"))
    sums = []
    for side, study in (("_a", a), ("_b", b)):
        counts = study.sql(f"SELECT * FROM {by}").rename(columns=_NAMES)
        if not has_units(counts):
            raise StudyError(f"An earlier version of mha-viz made {study.folder}: make it again.")
        own = both[[name + side if name + side in both else name for name in asked]]
        rows = pd.MultiIndex.from_frame(own.set_axis(asked, axis=1))
        sums.append((in_units(counts, rows, "hits"), in_units(counts, rows, "n")))
    return both.assign(**difference(*sums, paired=source_plan(a) == source_plan(b)))


def _ranked(both: pd.DataFrame) -> pd.DataFrame:
    """Add q, and which is better; put the surest differences first."""
    enough = both[["n_a", "n_b"]].min(axis=1) >= MIN_TARGETS
    found = both.assign(q=q_values(both["p"].where(enough).to_numpy(float)))
    words = np.where(found["q"] <= RATE, np.where(found["difference"] > 0, "b", "a"), "neither")
    found["better"] = np.where(found["q"].isna(), UNKNOWN, words)
    order = found.assign(size=-found["difference"].abs()).sort_values(["q", "p", "size"]).index
    return found.loc[order].reset_index(drop=True)
