"""Tables of a finished study: heads, single texts, labels, profiles, pairs of heads; and SQL."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from mha_viz.core.arguments import one_of
from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.core.metrics.units import MIN_UNITS, t_quantile
from mha_viz.core.names import LIKENESS, PAIR_MEASURES
from mha_viz.corpus.measure.padded import KINDS
from mha_viz.corpus.measure.profiles import bin_rank
from mha_viz.corpus.query import example_texts
from mha_viz.corpus.query.example_texts import DecilePlace, HeadScore
from mha_viz.corpus.store.blocks import INDEX
from mha_viz.corpus.store.database import Database
from mha_viz.corpus.store.manifest import Sizes, own_numbers
from mha_viz.errors import ArgumentError, StudyError

if TYPE_CHECKING:
    import duckdb

AXES = ("offset", "position", "kind")  # that the weight of a head is laid out by


class StudyTables:
    """The tables of a study that any source has; see `Study`.

    >>> import mha_viz as mv
    >>> from mha_viz.checkpoints.catalog import shipped_folder
    >>> study = mv.Study.load(shipped_folder() / "tiny-bert" / "sample_study")
    >>> study.profile_by("kind").kind.unique().tolist()[:3]
    ['itself', 'same token', 'special']
    >>> study.pairs("cka").shape, len(study.nearest_pairs(k=5)), len(study.examples(0, 7, k=3))
    ((32, 32), 5, 3)
    >>> int(study.deciles(0, 7, k=1).band.max()), study.decile_of(1.0, 20, 0, 7).band
    (10, 10)
    """

    def __init__(self, folder: Path, manifest: Mapping[str, Any] | None = None) -> None:
        self.folder, self._database = folder, Database(folder)
        self.manifest = self._database.manifest if manifest is None else manifest
        self._sizes = Sizes.of(self.manifest)
        self.n_layers, self.n_heads, _, self.n_texts, self.n_tokens = self._sizes
        self.layer_numbers = own_numbers(self.manifest)
        self._database.check_rows(self._sizes.of_summaries)

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
        earned = self._database.query("SELECT * EXCLUDE earned FROM labels WHERE earned")
        with self._database.reading():
            return earned.sort_values(["layer", "head"], kind="stable")

    @property
    def profile(self) -> pd.DataFrame:
        """The weight by offset: layer, head, offset ("<-32", "-32" to "32", ">32"), weight."""
        return self.profile_by("offset")

    def profile_by(self, axis: str) -> pd.DataFrame:
        """Compute the weight that each head gives to each offset, position or kind of key.

        Args:
            axis: "offset", "position" or "kind"; ArgumentError for any other.

        Returns:
            DataFrame with the columns layer, head, one of the axis' name, and weight: the mean over
            all queries that have such a key, a share of 1.
        """
        one_of("axis", axis, AXES)
        profile = self._database.query(
            f"""SELECT layer, head, "at" AS {axis}, weight / rows AS weight FROM profile
            WHERE axis = ? AND rows > 0""",
            (axis,),
        )
        rank = KINDS.index if axis == "kind" else bin_rank
        with self._database.reading():
            order = [profile["layer"], profile["head"], profile[axis].map(rank)]
            ranked = np.lexsort([np.asarray(column) for column in reversed(order)])
            return profile.iloc[ranked].reset_index(drop=True)

    def pairs(
        self, measure: str = "hellinger", statistic: str = "mean"
    ) -> Float[np.ndarray, "h h"]:
        """Lay out the similarity of any two heads over texts, heads in order of layer.

        Args:
            measure: "hellinger", "redundancy", "cka" or "correlation"; "jensen_shannon" where the
                study was made with it; ArgumentError for one that it was not.
            statistic: "mean" over texts, or "std", their standard deviation; likewise.

        Returns:
            (layer * head, layer * head); NaN where no text defines it.
        """
        one_of("statistic", statistic, ("mean", "std"))
        rows, n_all = self._pair_rows(measure), self.n_layers * self.n_heads
        with self._database.reading():
            itself = float(statistic == "mean" and measure in LIKENESS)
            matrix = np.full((n_all, n_all), np.nan)
            matrix[rows["i"], rows["j"]] = matrix[rows["j"], rows["i"]] = rows[statistic]
            np.fill_diagonal(matrix, itself)
            return matrix

    @property
    def pair_measures(self) -> list[str]:
        """The measures by which this study compares heads; none where it was made without."""
        if "pairs" not in self._database.tables:
            return []
        ours = ", ".join(f"'{measure}'" for measure in PAIR_MEASURES)  # a file may hold others
        measures = self._database.query(
            f"SELECT DISTINCT measure FROM pairs WHERE measure IN ({ours}) ORDER BY 1"
        )
        return list(measures["measure"])

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
        if k < 1:
            raise ArgumentError(f"k must be at least 1, got {k}.")
        rows = self._pair_rows(measure).dropna(subset="mean")
        with self._database.reading():
            near = rows["mean"].abs() if measure == "correlation" else rows["mean"]
            order = np.argsort(-near if measure in LIKENESS else near, kind="stable")[:k]
            rows = rows.iloc[order].reset_index(drop=True)
            n_units = (rows["n"] * self._units_by_text()).to_numpy()
            reach = t_quantile(n_units) * rows["std"] / np.sqrt(n_units)
            reach = reach.where(n_units >= MIN_UNITS)
            ends = {"low": rows["mean"] - reach, "high": rows["mean"] + reach}
            (layer, head), (layer_b, head_b) = (np.divmod(rows[at], self.n_heads) for at in "ij")
            heads = dict(layer=layer, head=head, layer_b=layer_b, head_b=head_b)
            limits = METRICS[measure].limits
            ends = {name: of.clip(*limits) for name, of in ends.items()}
            return pd.DataFrame(heads | {"n_texts": rows["n"], "mean": rows["mean"]} | ends)

    def _pair_rows(self, measure: str) -> pd.DataFrame:
        """Read one measure's pairs i < j: n, mean and std over texts, NaN where undefined."""
        measures = self.pair_measures
        if measure not in measures:
            raise ArgumentError(
                f"measure must be one of {', '.join(measures)}, got {measure!r}."
                if measures
                else "This study has no pairs of heads: it was made without them."
            )
        rows = self._database.query("SELECT * FROM pairs WHERE measure = ?", (measure,))
        with self._database.reading():
            n = rows["n"].where(rows["n"] > 0).astype(float)
            mean = rows["sum"] / n
            variance = (rows["sum_sq"] - n * mean**2) / (n - 1).where(n > 1)
            return rows.assign(mean=mean, std=np.sqrt(variance.clip(lower=0)))

    def _units_by_text(self) -> float:
        """Return how many units a text is worth where all texts of a unit say the same.

        Source: Kish 1965, the effective sample size: (sum of n_g)^2 / sum of n_g^2 for n_g texts
        each.
        """
        counts = self.manifest["counts"]
        if counts.get("n_units", counts["n_texts"]) == counts["n_texts"]:
            return 1.0
        if "sentences" not in self._database.tables:
            return np.nan  # no rows were kept: the sizes of the units are not known
        shares = self._database.query(
            "SELECT sum(n) / sum(n * n) AS share FROM "
            "(SELECT count(*) AS n FROM sentences GROUP BY unit)"
        )
        return float(shares["share"][0])

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
        if k < 1:
            raise ArgumentError(f"k must be at least 1, got {k}.")
        score, label = self._head_score(layer, head, by, match_length), LABELS.get(by)
        ascending = label is not None and not label.at_least
        return example_texts.strongest(self._database, score, k, ascending=ascending)

    def deciles(
        self,
        layer: int,
        head: int,
        by: str = "previous_token",
        k: int = 3,
        match_length: bool = True,
    ) -> pd.DataFrame:
        """Draw some texts of every decile of a head's score: the typical beside the extreme.

        A text's quantile is the share of texts that score less, plus half of those that score the
        same, among the texts of its class of length (see `examples`); its band is that of the
        tenths of [0, 1] in which the quantile lies. So texts of one class with equal scores share
        a band, and where few texts or few values differ some bands are empty. Of the m texts of a
        band, by quantile, those numbered (2i + 1) m / 2k, rounded down, are drawn.

        Args:
            layer: from 0.
            head: from 0.
            by: key of a metric, or of a label: then its metric.
            k: how many texts of each band; all of a band that has no more.
            match_length: False ranks all texts together, of any length.

        Returns:
            DataFrame with a row for each text: band, 1 to 10 (10 has the highest scores);
            band_from and band_to, the lowest and highest score in it; n_texts in it; text_id,
            value, quantile, n_tokens, place, text. By band, then by quantile. With match_length the
            scores of two bands overlap where scores go with length. Texts that differ in capitals
            and spaces only are one, with the lowest of their scores.

        Raises:
            ArgumentError: no such head or metric, k below 1.
            StudyError: no rows by text were kept.
        """
        if k < 1:
            raise ArgumentError(f"k must be at least 1, got {k}.")
        score = self._head_score(layer, head, by, match_length)
        return example_texts.deciles(self._database, score, k)

    def decile_of(
        self,
        value: float,
        n_tokens: int,
        layer: int,
        head: int,
        by: str = "previous_token",
        match_length: bool = True,
    ) -> DecilePlace:
        """Find the decile in which a score of another text lies, as `deciles` has them.

        Args:
            value: what the head scores on that text.
            n_tokens: how long the text is; it is compared with the class of the nearest length.
            layer: from 0.
            head: from 0.
            by: as in `deciles`.
            match_length: as in `deciles`.

        Returns:
            DecilePlace: band, quantile, and the number of texts that it was compared with.

        Raises:
            ArgumentError: no such head or metric; a value that is no number, or none in the study.
            StudyError: no rows by text were kept.
        """
        if not np.isfinite(value):
            raise ArgumentError(f"value must be a number, got {value}.")
        score = self._head_score(layer, head, by, match_length)
        return example_texts.decile_of(self._database, score, float(value), n_tokens)

    def _head_score(self, layer: int, head: int, by: str, match_length: bool) -> HeadScore:
        """Return the score of a head by a metric or label, checked."""
        self.check_head(layer, head)
        self._check_texts()
        metric = LABELS[by].metric if by in LABELS else by
        # a name becomes part of the query only once it is known to be a column
        columns = self._database.query("SELECT column_name FROM (DESCRIBE texts)")["column_name"]
        metrics = [name for name in columns if name not in INDEX]
        if metric not in metrics:
            raise ArgumentError(
                f"There is no metric {by!r} in this study; there are: {', '.join(metrics)}."
            )
        return HeadScore(layer, head, metric, match_length)

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
        for name, number, n in (("layer", layer, self.n_layers), ("head", head, self.n_heads)):
            if number is not None and not 0 <= number < n:
                raise ArgumentError(f"{name} must be from 0 to {n - 1}, got {number}.")
