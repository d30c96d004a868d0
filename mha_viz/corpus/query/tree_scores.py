"""Heads against gold trees, out of a treebank study's tables of counts."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from mha_viz.corpus.store.database import Database
from mha_viz.corpus.treebank.coreference import coreference_scores
from mha_viz.corpus.treebank.parsing import tree_scores
from mha_viz.corpus.treebank.relations import relation_scores
from mha_viz.corpus.treebank.tree_text import sentence_of
from mha_viz.corpus.treebank.trees import CHOOSE, REPORT, Sentence
from mha_viz.errors import ArgumentError, StudyError


def has_trees(database: Database) -> bool:
    """Tell whether any text of the study came with a gold tree."""
    return not {"arcs", "relations"}.isdisjoint(database.tables)  # without texts, counts alone


def check_trees(database: Database) -> None:
    """Raise StudyError where no text of the study came with a gold tree."""
    if not has_trees(database):
        raise StudyError(
            "This study has no gold trees: make one of a CoNLL-U file, or of “sample”, the "
            "treebank that comes with mha-viz."
        )


def check_choosing(
    databases: tuple[Database, Database], manifests: tuple[Mapping[str, Any], Mapping[str, Any]]
) -> None:
    """Raise StudyError unless the second study may choose the heads that the first reports on."""
    names = [f"{database.folder}" for database in databases]
    ours, theirs = manifests
    for name, database in zip(names, databases, strict=True):
        if not has_trees(database):
            raise StudyError(f"Heads are chosen by gold trees: {name} has none.")
    if ours["model"]["weights_sha256"] != theirs["model"]["weights_sha256"]:
        raise StudyError(
            f"Heads are chosen on the model that they are reported of: {names[0]} is of "
            f"{ours['model']['name']}, {names[1]} of {theirs['model']['name']} with other weights."
        )
    if ours["source"] == theirs["source"]:
        raise StudyError(
            f"{names[0]} and {names[1]} are of the same sentences: give a study of others to "
            "choose heads on, or leave it out, and one half of these chooses."
        )


def relations(database: Database, chosen_on: Database | None = None) -> pd.DataFrame:
    """Compute `Study.relations`; where another study chooses, all of this one reports."""
    check_trees(database)
    with database.reading():
        return relation_scores(
            _counts("relations", database, chosen_on),
            _counts("relation_offsets", database, chosen_on),
            _untrained("relations", database, chosen_on),
        )


def parts_of_speech(database: Database) -> pd.DataFrame:
    """Compute `Study.parts_of_speech`."""
    check_trees(database)
    return database.query(
        """SELECT layer, head, from_upos, to_upos, rows AS n_words, weight / rows AS weight,
            expected / rows AS expected, (weight - expected) / rows AS difference
        FROM parts_of_speech ORDER BY layer, head, from_upos, to_upos"""
    )


def scores(database: Database, chosen_on: Database | None, table: str) -> pd.DataFrame:
    """Compute `Study.trees` or `Study.coreference` out of the table of that name."""
    check_trees(database)
    compute = {"trees": tree_scores, "coreference": coreference_scores}[table]
    with database.reading():
        theirs = _untrained(table, database, chosen_on)
        return compute(_counts(table, database, chosen_on), theirs)


def sentence(database: Database, text_id: int) -> Sentence:
    """Read `Study.sentence`."""
    check_trees(database)
    if "words" not in database.tables:
        raise StudyError("This study kept no sentences with their trees: make it again to see one.")
    words = database.query("SELECT * FROM words WHERE text_id = ? ORDER BY word", (text_id,))
    if words.empty:
        raise ArgumentError(f"The text {text_id} of this study has no gold tree.")
    text = database.query("SELECT text FROM sentences WHERE text_id = ?", (text_id,))
    with database.reading():
        return sentence_of(str(text["text"][0]), words)


def _counts(table: str, database: Database, chosen_on: Database | None) -> pd.DataFrame:
    """Read counts by halves of the sentences; one half may be another study, and the other this."""
    counts = database.query(f"SELECT * FROM {table}")
    if chosen_on is None:
        return counts
    theirs = chosen_on.query(f"SELECT * FROM {table}").reindex(columns=counts.columns)
    return pd.concat([theirs.assign(half=CHOOSE), counts.assign(half=REPORT)], ignore_index=True)


def _untrained(table: str, database: Database, chosen_on: Database | None) -> pd.DataFrame | None:
    """Read the counts of the model with random weights, where there is one."""
    both = [one for one in (database, chosen_on) if one is not None]
    if any(f"untrained_{table}" not in one.tables for one in both):
        return None
    return _counts(f"untrained_{table}", database, chosen_on)
