"""Heads against gold trees: what a study of a treebank says, out of its tables of counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from mha_viz.corpus.query.best_heads import PUBLISHED, QUESTIONS, beside_published, best_heads
from mha_viz.corpus.query.study_tables import StudyTables
from mha_viz.corpus.store.database import Database
from mha_viz.corpus.treebank.coreference import coreference_scores
from mha_viz.corpus.treebank.gold import sentence_of
from mha_viz.corpus.treebank.parsing import tree_scores
from mha_viz.corpus.treebank.relations import relation_scores
from mha_viz.corpus.treebank.trees import CHOOSE, REPORT, Sentence
from mha_viz.errors import ArgumentError, StudyError

S = TypeVar("S", bound="TreebankStudy")


class TreebankStudy(StudyTables):
    """The tables that a study of CoNLL-U files has beside those of any; see `Study`.

    >>> import mha_viz as mv
    >>> from mha_viz.checkpoints.catalog import shipped_folder
    >>> study = mv.Study.load(shipped_folder() / "tiny-bert" / "sample_study")
    >>> study.has_trees, "uuas" in study.best_heads("trees").columns
    (True, True)
    >>> [word.form for word in study.sentence(0).words][:2]
    ['The', 'old']
    """

    def __init__(self, folder: Path, manifest: Mapping[str, Any] | None = None) -> None:
        super().__init__(folder, manifest)
        self._chosen_on: Database | None = None  # of the study that chooses, where another does

    @property
    def has_trees(self) -> bool:
        """True if any text came with a gold tree."""
        return not {"arcs", "relations"}.isdisjoint(self._database.tables)  # counts, without texts

    @property
    def relations(self) -> pd.DataFrame:
        """The accuracy of every head at every relation: a row per head, relation and direction.

        Columns as `corpus.treebank.relations.relation_scores` has them: n, accuracy, low, high,
        offset_baseline and random_baseline on the half of the sentences that reports; chosen_on,
        the accuracy on the other half; offset, the best fixed step; whether the head was chosen, as
        the best one there; p, q and beats, of the test that it beats both baselines.
        """
        self._check_trees()
        with self._database.reading():
            counts, untrained = self._counts("relations"), self._untrained("relations")
            return relation_scores(counts, self._counts("relation_offsets"), untrained)

    @property
    def parts_of_speech(self) -> pd.DataFrame:
        """The weight from words of one part of speech to those of another, of every head.

        Columns layer, head, from_upos, to_upos, n_words (that look), weight (mean over them),
        expected (if each had spread it evenly over all words that it sees), difference.
        """
        self._check_trees()
        return self._database.query(
            """SELECT layer, head, from_upos, to_upos, rows AS n_words, weight / rows AS weight,
                expected / rows AS expected, (weight - expected) / rows AS difference
            FROM parts_of_speech ORDER BY layer, head, from_upos, to_upos"""
        )

    @property
    def trees(self) -> pd.DataFrame:
        """The share of the gold trees in every head: see `corpus.treebank.parsing.tree_scores`."""
        return self._scores("trees", tree_scores)

    @property
    def coreference(self) -> pd.DataFrame:
        """The accuracy of every head at antecedents: `corpus.treebank.coreference`."""
        return self._scores("coreference", coreference_scores)

    def _scores(self, table: str, compute: Callable[..., pd.DataFrame]) -> pd.DataFrame:
        self._check_trees()
        with self._database.reading():
            untrained = self._untrained(table)
            return compute(self._counts(table), untrained)

    def _counts(self, table: str) -> pd.DataFrame:
        """Read counts by halves of the sentences, or of another study that chooses and of this."""
        query = f"SELECT * FROM {table}"
        counts = self._database.query(query)
        if self._chosen_on is None:
            return counts
        theirs = self._chosen_on.query(query).reindex(columns=counts.columns)
        parts = [theirs.assign(half=CHOOSE), counts.assign(half=REPORT)]
        return pd.concat(parts, ignore_index=True)

    def _untrained(self, table: str) -> pd.DataFrame | None:
        """Read the counts of the model with random weights, where there is one."""
        name = f"untrained_{table}"
        both = [database for database in (self._database, self._chosen_on) if database is not None]
        return self._counts(name) if all(name in database.tables for database in both) else None

    def best_heads(self, by: str = "relations") -> pd.DataFrame:
        """Rank heads by how well they answer a question, each beside its baselines.

        Args:
            by: "relations", with the best head of each; "trees", by UUAS; "coreference"; or
                "parts_of_speech"; of BERT-base also "published", beside Clark et al. 2019.

        Returns:
            As `best_heads` and `beside_published` of `corpus.query.best_heads` have it.

        Raises:
            ArgumentError: no such question. StudyError: no trees.
        """
        if by == PUBLISHED:
            best = best_heads(self.relations, "relations")
            return beside_published(best, self.relations, self.manifest["model"]["name"])
        if by not in QUESTIONS:
            questions = ", ".join((*QUESTIONS, PUBLISHED))
            raise ArgumentError(f"by must be one of {questions}, got {by!r}.")
        return best_heads(getattr(self, by), by)

    def chosen_on(self: S, other: S) -> S:
        """Choose heads by another study: a dev set chooses, a test set reports.

        Args:
            other: of the same model, over other sentences. All of them choose, and all of this
                study's report, in `relations`, `trees` and `coreference`.

        Returns:
            This study with those heads in place of its own best ones.

        Raises:
            StudyError: one of them has no trees, is of another model, or both have one source.

        Example:
            dev, test = mv.Study.load("ewt-dev"), mv.Study.load("ewt-test")
            test.chosen_on(dev).best_heads("relations")
        """
        ours, theirs = self.manifest, other.manifest
        for study in (self, other):
            if not study.has_trees:
                raise StudyError(f"Heads are chosen by gold trees: {study.folder} has none.")
        if ours["model"]["weights_sha256"] != theirs["model"]["weights_sha256"]:
            raise StudyError(
                f"Heads are chosen on the model that they are reported of: {self.folder} is of "
                f"{ours['model']['name']}, {other.folder} of {theirs['model']['name']} with other "
                "weights."
            )
        if ours["source"] == theirs["source"]:
            raise StudyError(
                f"{self.folder} and {other.folder} are of the same sentences: give a study of "
                "others to choose heads on, or leave it out, and one half of these chooses."
            )
        chosen = type(self)(self.folder, self.manifest)
        chosen._chosen_on = other._database
        return chosen

    def sentence(self, text_id: int) -> Sentence:
        """Read a text with its gold tree, for `corpus.treebank.relations.head_vs_tree`.

        Of sentences that were joined, each has its own tree.

        Args:
            text_id: of a text that came with a tree.

        Raises:
            StudyError: no trees at all. ArgumentError: none of that text.
        """
        self._check_trees()
        self._database.check_rows(self._sizes.of_texts)
        if "words" not in self._database.tables:
            raise StudyError(
                "This study kept no sentences with their trees: make it again to see one."
            )
        query = "SELECT * FROM words WHERE text_id = ? ORDER BY word"
        words = self._database.query(query, (text_id,))
        if words.empty:
            raise ArgumentError(f"The text {text_id} of this study has no gold tree.")
        text = self._database.query("SELECT text FROM sentences WHERE text_id = ?", (text_id,))
        with self._database.reading():
            return sentence_of(str(text["text"][0]), words)

    def _check_trees(self) -> None:
        if not self.has_trees:
            raise StudyError(
                "This study has no gold trees: make one of a CoNLL-U file, or of “sample”, the "
                "treebank that comes with mha-viz."
            )
