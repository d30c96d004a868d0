"""A finished study: its tables, and the questions that it answers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from mha_viz.core.attention.checks import Number
from mha_viz.core.record import display
from mha_viz.corpus.query import search as searching
from mha_viz.corpus.query import tree_scores
from mha_viz.corpus.query.best_heads import PUBLISHED, QUESTIONS, beside_published, best_heads
from mha_viz.corpus.query.study_tables import (
    nearest_pairs,
    pair_matrix,
    pair_measures,
    profile_rows,
    strongest,
)
from mha_viz.corpus.query.verification import refusing_damage, whole_manifest
from mha_viz.corpus.sources.hub_datasets import as_dataset
from mha_viz.corpus.store.database import Database
from mha_viz.corpus.store.edges_index import EDGES
from mha_viz.corpus.store.integrity import HASHES
from mha_viz.corpus.store.manifest import Sizes, study_notes, truncation_note, unit_note
from mha_viz.corpus.treebank.trees import Sentence
from mha_viz.errors import ArgumentError, StudyError

if TYPE_CHECKING:
    import datasets
    import duckdb


class Study:
    """A study of every head of a model over many texts. It only reads its folder.

    Args:
        folder: where it lies.
        manifest: what its study.json says.

    Attributes:
        n_layers, n_heads: of the model.
        n_texts, n_tokens: of the source, as far as they could be read; duplicates count once.

    >>> import tempfile, mha_viz as mv
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mv.Study.load(folder)
    Traceback (most recent call last):
        ...
    mha_viz.errors.StudyError: ... is no study: expected a folder with study.json in it.
    """

    def __init__(self, folder: Path, manifest: Mapping[str, Any]) -> None:
        self.folder, self.manifest = folder, manifest
        self._sizes = Sizes.of(manifest)
        self.n_layers, self.n_heads, _, self.n_texts, self.n_tokens = self._sizes
        self._database = Database(folder, manifest.get(HASHES, {}))
        self._database.check_rows(self._sizes.of_summaries)
        # Summaries are small; edges and the tables of shards are compared when they are first read.
        summaries = {Path(name).stem for name in manifest.get("files", ())}
        self._database.verify(summaries - {EDGES})
        self._chosen_on: Database | None = None

    @classmethod
    def load(cls, folder: str | Path) -> Study:
        """Open a finished study.

        Args:
            folder: where it lies.

        Raises:
            StudyError: no study, or one that is unfinished, cut, changed, or of a newer version.
        """
        with refusing_damage(folder):
            return cls(Path(folder), whole_manifest(folder))

    @property
    def cut(self) -> str:
        """The number of texts or documents longer than the model takes, in words; "" if none."""
        return truncation_note(self.manifest)

    @property
    def notes(self) -> list[str]:
        """Notes on the texts, in sentences: duplicates that were left out, texts that were cut."""
        return study_notes(self.manifest)

    @property
    def unit_note(self) -> str:
        """The units that intervals and tests take as independent, in words."""
        return unit_note(self.manifest)

    def __repr__(self) -> str:
        name, model = str(self.folder), self.manifest["model"]["name"]
        return f"Study({name!r}: {model}, {self.n_texts:,} texts, {self.n_tokens:,} tokens)"

    # -- tables ----------------------------------------------------------------------------------

    @property
    def heads(self) -> pd.DataFrame:
        """The means by head and metric, with standard errors and 95 % intervals over units.

        standard_error, low and high (`units.interval`) are NaN of fewer than two units.
        """
        return self._database.query("SELECT * FROM heads")

    @property
    def texts(self) -> duckdb.DuckDBPyRelation:
        """The single scores: text_id, n_tokens, layer, head, a column per metric, by text and head.

        Read when its rows are asked for: `study.texts.filter("layer = 3").df()`.

        Raises:
            StudyError: none were kept.
        """
        self._check_texts()
        return self._database.relation("SELECT * FROM texts")

    @property
    def labels(self) -> pd.DataFrame:
        """The labels that heads have earned over all texts, a row each.

        Columns layer, head, label; mean, low, high of its metric; the baseline that low had to
        beat (of "local": high) and the threshold it had to reach; share_of_texts, on which share of
        single texts the head would have got the label.
        """
        found = self._database.query("SELECT * EXCLUDE earned FROM labels WHERE earned")
        with self._database.reading():
            return found.sort_values(["layer", "head"], kind="stable")

    @property
    def profile(self) -> pd.DataFrame:
        """The weight by offset: layer, head, offset ("<-32", "-32" to "32", ">32"), weight."""
        return self.profile_by("offset")

    def profile_by(self, axis: str) -> pd.DataFrame:
        """Compute the weight that each head gives to each offset, position or kind of key.

        Args:
            axis: "offset", "position" or "kind".

        Returns:
            DataFrame with the columns layer, head, one of the axis' name, and weight: the mean over
            all queries that have such a key, a share of 1.
        """
        return profile_rows(self._database, axis)

    def pairs(
        self, measure: str = "hellinger", statistic: str = "mean"
    ) -> Float[np.ndarray, "h h"]:
        """Lay out the similarity of any two heads over texts, heads in order of layer.

        Args:
            measure: "hellinger", "redundancy", "cka" or "correlation"; "jensen_shannon" where the
                study was made with it.
            statistic: "mean" over texts, or "std", their standard deviation.

        Returns:
            (layer * head, layer * head); NaN where no text defines it.
        """
        return pair_matrix(self._database, self.n_layers * self.n_heads, measure, statistic)

    @property
    def pair_measures(self) -> list[str]:
        """The measures by which this study compares heads; none where it was made without."""
        return pair_measures(self._database)

    def nearest_pairs(self, measure: str = "hellinger", k: int = 20) -> pd.DataFrame:
        """List the heads that are most alike over all texts, the nearest pair first.

        Args:
            measure: as in `pairs`. By "correlation" a head's negative is its twin as well.
            k: the most pairs.

        Returns:
            Columns layer, head, layer_b, head_b, n_texts that define it, mean, low and high. The
            95 % interval is Student's, as wide as if all texts of one unit said the same: NaN of
            fewer than 10 units, and where units are not texts and no rows by text were kept.

        Raises:
            ArgumentError: no such measure in this study; k below 1.
        """
        counts = self.manifest["counts"]
        return nearest_pairs(self._database, self.n_heads, measure, counts, k)

    # -- gold trees, of a study of CoNLL-U files ---------------------------------------------------

    def chosen_on(self, other: Study) -> Study:
        """Choose heads by another study: a dev set chooses, a test set reports.

        Args:
            other: of the same model, over other sentences. All of them choose, and all of this
                study's report, in `relations`, `trees` and `coreference`.

        Raises:
            StudyError: one of them has no trees, is of another model, or both have one source.
        """
        tree_scores.check_choosing(
            (self._database, other._database), (self.manifest, other.manifest)
        )
        found = Study(self.folder, self.manifest)
        found._chosen_on = other._database
        return found

    @property
    def has_trees(self) -> bool:
        """True if any text came with a gold tree."""
        return tree_scores.has_trees(self._database)

    @property
    def relations(self) -> pd.DataFrame:
        """The accuracy of every head at every relation: a row per head, relation and direction.

        Columns as `corpus.treebank.relations.relation_scores` has them: n, accuracy, low, high,
        offset_baseline and random_baseline on the half of the sentences that reports; chosen_on,
        the accuracy on the other half; offset, the best fixed step; whether the head was chosen, as
        the best one there; p, q and beats, of the test that it beats both baselines.
        """
        return tree_scores.relations(self._database, self._chosen_on)

    @property
    def parts_of_speech(self) -> pd.DataFrame:
        """The weight from words of one part of speech to those of another, of every head.

        Columns layer, head, from_upos, to_upos, n_words (that look), weight (mean over them),
        expected (if each had spread it evenly over all words that it sees), difference.
        """
        return tree_scores.parts_of_speech(self._database)

    @property
    def trees(self) -> pd.DataFrame:
        """The share of the gold trees in every head: see `corpus.treebank.parsing.tree_scores`."""
        return tree_scores.scores(self._database, self._chosen_on, "trees")

    @property
    def coreference(self) -> pd.DataFrame:
        """The accuracy of every head at antecedents: `corpus.treebank.coreference`."""
        return tree_scores.scores(self._database, self._chosen_on, "coreference")

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
            known = ", ".join((*QUESTIONS, PUBLISHED))
            raise ArgumentError(f"by must be one of {known}, got {by!r}.")
        return best_heads(getattr(self, by), by)

    def sentence(self, text_id: int) -> Sentence:
        """Read a text with its gold tree, for `corpus.treebank.head_vs_tree`.

        Of sentences that were joined, each has its own tree.

        Args:
            text_id: of a text that came with a tree.

        Raises:
            StudyError: no trees at all. ArgumentError: none of that text.
        """
        self._database.check_rows(self._sizes.of_texts)
        return tree_scores.sentence(self._database, text_id)

    def sample_texts(self, n: int = 100, seed: int = 0) -> list[str]:
        """Draw some of the texts, for what takes texts: `query_key_map`.

        Args:
            n: how many at most, 1 or more.
            seed: of the draw; the same one draws the same texts.

        Raises:
            ArgumentError: n below 1. StudyError: no single texts were kept.
        """
        if n < 1:
            raise ArgumentError(f"n must be 1 or more, got {n}.")
        self._check_texts()
        drawn = "SELECT text FROM sentences ORDER BY hash(text_id, ?), text_id LIMIT ?"
        return list(self._database.query(drawn, (seed, n))["text"])

    # -- on paper --------------------------------------------------------------------------------

    def figures(
        self, metric: str = "entropy", head: tuple[int, int] | None = None
    ) -> dict[str, Any]:
        """Make the study's figures, as on the page.

        Args:
            metric: key of the metric that heads are shown by.
            head: (layer, head) of those of one head; by default the one with a label on most texts.

        Returns:
            By name: "heads" (the map), "quantiles", "histogram", "offset", "kind", "pairs" (where
            heads were compared) and, of a treebank, "parts_of_speech": each a
            `paper.figures.StudyFigure`, with `table`, `draw()` and
            `save("heads.pdf", column="single")`.

        Raises:
            ArgumentError: no such metric or head.
        """
        return dict(display.known(display.study_paper)().study_figures(self, metric, head))

    def report(
        self,
        folder: str | Path,
        metric: str = "entropy",
        head: tuple[int, int] | None = None,
        column: str = "single",
    ) -> Path:
        """Write a page with all that the study says, and every table and figure as a file.

        Args:
            folder: where `index.html` goes, which needs no other file and runs no script, `tables`
                (CSV, Markdown, LaTeX) and `figures` (PDF, SVG). Files of these names are replaced.
            metric: as in `figures`.
            head: as in `figures`.
            column: the width of figures in a paper, "single" (3.25 inches) or "double" (6.75).

        Returns:
            The page: best heads, labels, metrics with 95 % intervals, figures, the commands that
            make all of it again, and what study.json says.

        Raises:
            ArgumentError: no such metric, head or width; a folder that holds a study.
            WriteError: the folder cannot be written.
        """
        paper = display.known(display.study_paper)()
        return Path(paper.write_report(self, folder, metric, head, column))

    # -- questions -------------------------------------------------------------------------------

    def examples(
        self,
        layer: int,
        head: int,
        by: str = "previous_token",
        k: int = 10,
        match_length: bool = True,
    ) -> pd.DataFrame:
        """Find the texts on which a head scores highest, without copies of one text.

        A mean over few tokens reaches extremes easily. So the texts are put in five classes by the
        quintiles of their token counts, and each class gives its strongest text, then each its
        second, and so on.

        Args:
            layer: from 0.
            head: from 0.
            by: key of a metric, or of a label: then the texts that show it best ("local": the
                smallest distance).
            k: how many.
            match_length: False takes all texts as one class: the strongest of any length.

        Returns:
            DataFrame with the columns text_id, value, n_tokens, place, text; and of its class the
            mean of the metric, class_mean, and the fewest and most tokens, class_from and class_to.
            Of texts with one rank in their classes, that which is furthest from its mean is first.
            Texts that differ in capitals and spaces only are one.

        Raises:
            ArgumentError: no such head or metric.
            StudyError: no rows by text were kept.
        """
        self.check_head(layer, head)
        self._check_texts()
        return strongest(self._database, layer, head, by, k, match_length)

    def search(
        self,
        query: str | None = None,
        key: str | None = None,
        layer: int | None = None,
        head: int | None = None,
        relation: str | None = None,
        min_weight: Number = 0.3,
        limit: int = 100,
        direction: str | None = None,
        query_upos: str | None = None,
        key_upos: str | None = None,
        previous: bool = False,
    ) -> pd.DataFrame:
        """Find where a token looks at another: the heaviest first.

        Args:
            query: the token that looks, in any capitals; * stands for any letters.
            key: the token that is looked at, likewise.
            layer: of that layer only.
            head: of heads with that number only.
            relation: of studies of treebanks: tokens whose words the gold tree joins by it, such
                as "nsubj", which stands for "nsubj:pass" as well.
            min_weight: the least weight. Below 0.3 a study holds the strongest key of each query
                only.
            limit: the most rows.
            direction: with a relation, "to_head" (from a dependent to its head) or "to_dependent";
                both if not given.
            query_upos: of studies of treebanks: the part of speech of the word that looks ("VERB").
            key_upos: of the one that is looked at, likewise.
            previous: only at the nearest such key before the query, as at the previous comma.

        Returns:
            DataFrame with the columns text_id, layer, head, query and key (positions), query_token,
            key_token, weight, strongest (whether no key of that query has more), with a relation
            also relation and direction; place, text.

        Raises:
            ArgumentError: no such head, an empty word, a weight that is no share.
            StudyError: the study has no edges, or no trees for a relation or part of speech.
        """
        self.check_head(layer, head)
        self._database.check_rows(self._sizes.of_texts)
        if (relation, query_upos, key_upos) != (None, None, None):
            tree_scores.check_trees(self._database)
        terms = searching.EdgeQuery(
            query=query,
            key=key,
            layer=layer,
            head=head,
            relation=relation,
            direction=direction,
            query_upos=query_upos,
            key_upos=key_upos,
            previous=previous,
            min_weight=min_weight,
            limit=limit,
        )
        return searching.edges(self._database, terms)

    def sql(self, query: str) -> pd.DataFrame:
        """Run your own query in DuckDB's SQL: it can read the study and nothing else.

        Args:
            query: one SELECT; `select table_name from information_schema.tables` lists the tables.

        Raises:
            ArgumentError: it is no single SELECT, or cannot be run.
        """
        return self._database.query_freely(query)

    def to_dataset(self, table: str = "heads") -> datasets.Dataset:
        """Copy a table into a dataset of Hugging Face, in memory (extra `datasets`).

        Args:
            table: its name, as in SQL.

        Raises:
            ArgumentError: no such table.
            SourceError: the extra is missing.
        """
        if table not in self._database.tables:
            known = ", ".join(self._database.tables)
            raise ArgumentError(f"table must be one of {known}, got {table!r}.")
        self._database.check_rows(self._sizes.of_texts)
        rows = self._database.relation(f'SELECT * FROM "{table}"')
        with self._database.reading():
            found = rows.to_arrow_table()
        return as_dataset(found)

    def verify(self, *tables: str) -> None:
        """Compare the files of tables with their hashes, as is done before a table is first read.

        Args:
            tables: names, as in SQL; what the study does not have is left out. For all files see
                `corpus.query.verification.verify_study`.

        Raises:
            StudyError: a file was changed after it was written.
        """
        self._database.verify(tables)

    @property
    def has_texts(self) -> bool:
        """True if there is a row for each text and head."""
        return "texts" in self._database.tables

    def _check_texts(self) -> None:
        self._database.check_rows(self._sizes.of_texts)
        if not self.has_texts:
            raise StudyError(
                "This study keeps no single texts: it was made with keep_texts=False (--no-texts). "
                "Make it again without that to see them."
            )

    def check_head(self, layer: int | None, head: int | None) -> None:
        """Raise ArgumentError unless there are such a layer and head, where they are given."""
        for name, given, n in (("layer", layer, self.n_layers), ("head", head, self.n_heads)):
            if given is not None and not 0 <= given < n:
                raise ArgumentError(f"{name} must be from 0 to {n - 1}, got {given}.")
