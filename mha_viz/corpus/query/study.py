"""A finished study: its tables, and the questions that it answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from mha_viz.core.attention.checks import Number
from mha_viz.core.record import display
from mha_viz.corpus.query import search as searching
from mha_viz.corpus.query.tree_scores import TreebankStudy
from mha_viz.corpus.sources.hub_datasets import datasets_library
from mha_viz.corpus.store.address import is_address
from mha_viz.corpus.store.manifest import study_notes, truncation_note, unit_note
from mha_viz.corpus.store.older_format import convert_older
from mha_viz.corpus.store.study_file import FILE
from mha_viz.errors import ArgumentError, StudyError

if TYPE_CHECKING:
    import datasets

    from mha_viz.engine.model import AttentionModel
    from mha_viz.prediction.replay import OnProgress


class Study(TreebankStudy):
    """A study of every head of a model over many texts. It only reads its file.

    Args:
        folder: where its file, `study.duckdb`, lies.
        manifest: what it says of itself, if not as the file has it: model, source, settings,
            versions, counts.

    Attributes:
        n_layers, n_heads: of the model.
        layer_numbers: the model's own numbers of its layers, () for 0, 1, 2 ...; tables and
            arguments of a study have the position of a layer among those with attention.
        n_texts, n_tokens: of the source, as far as they could be read; duplicates count once.

    >>> import tempfile, mha_viz as mv
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mv.Study.load(folder)
    Traceback (most recent call last):
        ...
    mha_viz.errors.StudyError: ... is no study: expected a folder with study.duckdb in it.
    """

    @classmethod
    def load(cls, folder: str | Path) -> Study:
        """Open a finished study.

        Args:
            folder: where it lies, or its file. A study of an earlier version, in Parquet files, is
                converted once: its file is written beside them.

        Returns:
            The study; tables are read when they are asked for.

        Raises:
            StudyError: an address; no study, or one that is unfinished, cut, changed, or of a newer
                version.
            WriteError: a study of an earlier version, in a folder that cannot be written.

        >>> from mha_viz.checkpoints.catalog import shipped_folder
        >>> shipped = Study.load(shipped_folder() / "tiny-bert" / "sample_study")
        >>> shipped.n_texts, shipped.sample_texts(2) == shipped.sample_texts(2)
        (196, True)
        """
        if is_address(folder):
            raise StudyError(
                f"{folder} is an address: copy {FILE} into a folder first (`aws s3 cp`, `gcloud "
                "storage cp` or the like), and open that."
            )
        path = Path(folder)
        path = path.parent if path.name == FILE else path
        try:
            convert_older(path)
            return cls(path)
        except StudyError:
            raise
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            changed = "what it says of itself was changed. Restore it, or make it anew."
            raise StudyError(f"The study {folder} is damaged: {changed}") from error

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

        >>> from mha_viz.checkpoints.catalog import shipped_folder
        >>> shipped = Study.load(shipped_folder() / "tiny-bert" / "sample_study")
        >>> places = shipped.search("the", layer=0, head=7, limit=5)
        >>> set(places.query_token.str.lower()), bool(places.weight.is_monotonic_decreasing)
        ({'the'}, True)
        """
        self.check_head(layer, head)
        self._database.check_rows(self._sizes.of_texts)
        if (relation, query_upos, key_upos) != (None, None, None):
            self._check_trees()
        terms = searching.EdgeQuery(
            *(query, key, layer, head, relation, direction),
            *(query_upos, key_upos, previous, min_weight, limit),
        )
        return searching.edges(self._database, terms)

    def sample_texts(self, n: int = 100, seed: int = 0) -> list[str]:
        """Draw some of the texts, for what takes texts: `query_key_map`.

        Args:
            n: how many at most, 1 or more.
            seed: of the draw; the same one draws the same texts.

        Returns:
            Up to n texts, in the order in which they were drawn.

        Raises:
            ArgumentError: n below 1. StudyError: no single texts were kept.
        """
        if n < 1:
            raise ArgumentError(f"n must be 1 or more, got {n}.")
        self._check_texts()
        drawn = "SELECT text FROM sentences ORDER BY hash(text_id, ?), text_id LIMIT ?"
        return list(self._database.query(drawn, (seed, n))["text"])

    def sql(self, query: str) -> pd.DataFrame:
        """Run your own query in DuckDB's SQL: it can read the study and nothing else.

        Args:
            query: one SELECT; `select table_name from information_schema.tables` lists the tables.

        Returns:
            DataFrame with a row for each of the result.

        Raises:
            ArgumentError: it is no single SELECT, or cannot be run.

        >>> import tempfile, mha_viz as mv
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     study = mv.study(mv.load("tiny-bert"), ["The cat sat.", "It slept."], folder)
        ...     int(study.sql("SELECT count(*) AS n FROM sentences").n[0])
        2
        """
        return self._database.query_freely(query)

    def to_dataset(self, table: str = "heads") -> datasets.Dataset:
        """Copy a table into a dataset of Hugging Face, in memory (extra `datasets`).

        Args:
            table: its name, as in SQL.

        Returns:
            The dataset, a row for each of the table.

        Raises:
            ArgumentError: no such table. SourceError: the extra is missing.

        Example:
            mv.Study.load("my-study").to_dataset("heads").push_to_hub("me/my-study")
        """
        if table not in self._database.tables:
            names = ", ".join(self._database.tables)
            raise ArgumentError(f"table must be one of {names}, got {table!r}.")
        self._database.check_rows(self._sizes.of_texts)
        rows = self._database.relation(f'SELECT * FROM "{table}"')
        with self._database.reading():
            return datasets_library().Dataset(rows.to_arrow_table())

    def verify(self, *tables: str) -> dict[str, int]:
        """Read every value of some tables, and compare each block with its checksum.

        Args:
            tables: names, as in SQL; what the study does not have is left out. All if none is
                named.

        Returns:
            The number of rows of each table.

        Raises:
            StudyError: the file was changed after it was written.

        >>> from mha_viz.checkpoints.catalog import shipped_folder
        >>> shipped = Study.load(shipped_folder() / "tiny-bert" / "sample_study")
        >>> shipped.verify("sentences")
        {'sentences': 196}
        """
        return self._database.verify(tables or None)

    def figures(
        self, metric: str = "entropy", head: tuple[int, int] | None = None
    ) -> dict[str, Any]:
        """Make the study's figures, as on the page.

        Args:
            metric: key of the metric that heads are shown by.
            head: (layer, head) of those of one head; by default the one with a label on most texts.

        Returns:
            By name: "heads" (the map), "scatter" (all heads by their weight on the first and on the
            previous token), "quantiles", "histogram", "offset", "kind", "pairs" (where
            heads were compared) and, of a treebank, "parts_of_speech": each a
            `paper.figures.StudyFigure`, with `table`, `draw()` and
            `save("heads.pdf", column="single")`.

        Raises:
            ArgumentError: no such metric or head.

        Example:
            figures = mv.Study.load("my-study").figures("distance", head=(3, 7))
            figures["heads"].save("heads.pdf", column="single")
        """
        return dict(display.installed(display.study_paper)().study_figures(self, metric, head))

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
            make all of it again, and what the study says of itself.

        Raises:
            ArgumentError: no such metric, head or width; a folder that holds a study.
            WriteError: the folder cannot be written.

        Example:
            mv.Study.load("my-study").report("my-report", head=(3, 7))
        """
        paper = display.installed(display.study_paper)()
        return Path(paper.write_report(self, folder, metric, head, column))

    def atlas(
        self,
        folder: str | Path,
        model: AttentionModel | None = None,
        by: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> Path:
        """Write the study as a static site: all heads, and a page of each with examples.

        It needs no server and no network: its first page opens from a disk, and any host of files
        serves it. All links are relative.

        Args:
            folder: where `index.html` goes, and `heads`, `texts` and `assets`. Files of these names
                are replaced.
            model: the study's; by default it is loaded by its name. It is run once on each example
                text; where their weights would take more than 40 MB, the texts that fewest heads
                show have their heaviest weights alone.
            by: key of the metric whose deciles the examples of every head are drawn from; by
                default that of the label that the head has on most texts, "entropy" without one.
            on_progress: called with how much is done, and of how much; an exception stops it.

        Returns:
            The first page.

        Raises:
            ArgumentError: no such metric; another model; a folder that holds a study.
            MhaVizError: the model cannot be loaded.
            WriteError: the folder cannot be written.

        Example:
            mv.Study.load("my-study").atlas("my-atlas", mv.load("tiny-bert"))
        """
        atlas = display.installed(display.study_atlas)()
        return Path(atlas.write_atlas(self, folder, model, by, on_progress))
