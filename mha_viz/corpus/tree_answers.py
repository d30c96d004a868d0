"""What a study of a treebank answers: heads against gold trees, out of its tables of counts."""

from __future__ import annotations

import pandas as pd

from mha_viz.corpus.coreference import coreference_scores
from mha_viz.corpus.database import Database
from mha_viz.corpus.parsing import tree_scores
from mha_viz.corpus.relations import relation_scores
from mha_viz.corpus.trees import Sentence
from mha_viz.corpus.word_table import sentence_of
from mha_viz.errors import ArgumentError, StudyError


def has_trees(database: Database) -> bool:
    """Whether any text of the study came with a gold tree."""
    return "arcs" in database.tables


def check_trees(database: Database) -> None:
    """There is something to hold heads against.

    Raises:
        StudyError: no text of the study came with a gold tree.
    """
    if not has_trees(database):
        raise StudyError(
            "This study has no gold trees: make one of a CoNLL-U file, or of “sample”, the "
            "treebank that comes with mha-viz."
        )


def relations(database: Database) -> pd.DataFrame:
    """See `Study.relations`."""
    check_trees(database)
    found = relation_scores(
        database.ask("SELECT * FROM relations"),
        database.ask("SELECT * FROM relation_offsets"),
        _untrained(database, "SELECT * FROM untrained_relations"),
    )
    first = ["layer", "head", "relation", "direction", "n", "accuracy", "low", "high"]
    baselines = ["offset_baseline", "random_baseline"]
    return found[[*first, *baselines, "chosen_on", "offset", "chosen"]]


def parts_of_speech(database: Database) -> pd.DataFrame:
    """See `Study.parts_of_speech`."""
    check_trees(database)
    return database.ask(
        """SELECT layer, head, from_upos, to_upos, rows AS n_words, weight / rows AS weight,
            expected / rows AS expected, (weight - expected) / rows AS difference
        FROM parts_of_speech ORDER BY layer, head, from_upos, to_upos"""
    )


def trees(database: Database) -> pd.DataFrame:
    """See `Study.trees`."""
    check_trees(database)
    query = """SELECT half, layer, head, sum(n_arcs)::BIGINT AS n_arcs, sum(hits)::BIGINT AS hits,
        sum(branching_hits)::BIGINT AS branching_hits FROM {} GROUP BY ALL"""
    theirs = _untrained(database, query.format("untrained_parses"))
    return tree_scores(database.ask(query.format("parses")), theirs)


def coreference(database: Database) -> pd.DataFrame:
    """See `Study.coreference`."""
    check_trees(database)
    theirs = _untrained(database, "SELECT * FROM untrained_coreference")
    return coreference_scores(database.ask("SELECT * FROM coreference"), theirs)


def sentence(database: Database, text_id: int) -> Sentence:
    """See `Study.sentence`."""
    check_trees(database)
    if "words" not in database.tables:
        raise StudyError("This study kept no sentences with their trees: make it again to see one.")
    words = database.ask("SELECT * FROM words WHERE text_id = ? ORDER BY word", (text_id,))
    if words.empty:
        raise ArgumentError(f"The text {text_id} of this study has no gold tree.")
    text = database.ask("SELECT text FROM sentences WHERE text_id = ?", (text_id,))
    return sentence_of(str(text["text"][0]), words)


def _untrained(database: Database, query: str) -> pd.DataFrame | None:
    """What the model with random weights did, where the study has one."""
    return database.ask(query) if "untrained_relations" in database.tables else None
