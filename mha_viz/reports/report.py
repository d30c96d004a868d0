"""The report of every head: scores, baselines, labels and nearest twins, as one table."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from jaxtyping import Num
from torch import Tensor

from mha_viz.core.compare.twins import nearest_others
from mha_viz.core.layer_numbers import head_name
from mha_viz.core.measure import distances, measure, rotation_null, text_baselines
from mha_viz.core.metrics import METRICS, Baseline, EarnedLabel, Label, head_labels, too_short
from mha_viz.core.names import LIKENESS, PAIR_MEASURES
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.core.reprs import table_html
from mha_viz.errors import ArgumentError

if TYPE_CHECKING:
    from mha_viz.engine.model import AttentionModel
    from mha_viz.reports.induction_scores import InductionScores

_NOTES = tomllib.loads((files(__package__) / "report.toml").read_text("utf-8"))["notes"]
TWIN_MEASURES = {"twin": "hellinger", "output_twin": "cka"}  # looks alike; does alike
KEEP = ("pattern", "z", "value")  # what a record must hold for every number of the report
_MAIN = (
    "layer head labels entropy distance previous_token self_token first_token induction "
    "output_share twin"
).split()  # columns that are shown
# What a head does that looks at places and not at words.
PLACES = ("previous_token", "next_token", "self_token", "first_token", "special_token")


Earned = list[list[tuple[EarnedLabel, ...]]]  # [layer][head]


class HeadReport(pd.DataFrame):
    """A DataFrame that shows its main columns; operations on it give plain DataFrames."""

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return pd.DataFrame

    @property
    def _main(self) -> pd.DataFrame:
        return pd.DataFrame(self[[name for name in _MAIN if name in self]])

    @property
    def _line(self) -> str:
        return f"{len(self)} heads, {self.shape[1]} columns; shown are {self._main.shape[1]}."

    def __repr__(self) -> str:
        return f"{self._main.to_string(index=False, max_rows=60)}\n{self._line}"

    def _repr_html_(self) -> str:
        notes = " ".join(["All are in .columns.", *map(str, self.attrs.get("notes", ()))])
        return table_html(self._line, self._main, notes)


@dataclass(frozen=True)
class Report:
    """The numbers of every head of one record; it does not hold the record.

    Args:
        scores: metric key -> (layer, head), "induction" among them where it was probed.
        baselines: metric key -> what heads that learned nothing score on this text.
        labels: [layer][head] -> the labels it has earned.
        induction: the probe's mean and interval, where a model was at hand.
        notes: what a reader should know about these numbers.
        withheld: [layer][head] -> the labels it reaches as chance does, and does not hold.
    """

    scores: Mapping[str, Tensor]
    baselines: Mapping[str, Baseline]
    labels: Earned
    induction: InductionScores | None = None
    notes: tuple[str, ...] = field(default=())
    withheld: list[list[tuple[Label, ...]]] = field(default_factory=list)

    def __repr__(self) -> str:
        layers, heads = next(iter(self.scores.values())).shape
        return f"Report({layers} layers × {heads} heads, {len(self.scores)} metrics)"

    def too_short(self, layer: int) -> tuple[Label, ...]:
        """Return the labels that this text is too short to give to a head of that layer."""
        return tuple(
            label for label in too_short(self.baselines, layer) if label.metric in self.scores
        )

    def table(self, record: AttentionRecord) -> pd.DataFrame:
        """Return a row for each head of the record; columns as `head_report` describes them."""
        layers, heads = record.n_layers, record.n_heads
        layer_heads = [(i, j) for i in range(layers) for j in range(heads)]
        columns: dict[str, object] = {
            "layer": [record.layer_numbers[i] for i, _ in layer_heads],
            "head": [j for _, j in layer_heads],
            "labels": ["; ".join(f.label.title for f in self.labels[i][j]) for i, j in layer_heads],
            "why": ["; ".join(f.why for f in self.labels[i][j]) for i, j in layer_heads],
        }
        for key, values in self.scores.items():
            columns[key] = values.flatten().numpy()
        if self.induction is not None:
            columns["induction_low"] = self.induction.low.flatten().numpy()
            columns["induction_high"] = self.induction.high.flatten().numpy()
        columns |= dict(_twins(record))
        for key, baseline in self.baselines.items():
            for name in ("uniform", "offset", "random"):
                if getattr(baseline, name) is not None and key in self.scores:
                    of_heads = [
                        getattr(baseline.at(*layer_head), name) for layer_head in layer_heads
                    ]
                    columns[f"{key}_{name}"] = np.array(of_heads, float)
        table = HeadReport(columns)
        table.attrs["notes"] = list(self.notes)
        return table


def report(
    record: AttentionRecord,
    model: AttentionModel | None = None,
    *,
    untrained: bool = True,
    random: AttentionModel | None = None,
    induction: InductionScores | None = None,
    random_induction: InductionScores | None = None,
    random_scores: Mapping[str, Tensor] | None = None,
) -> Report:
    """Measure every head of a record.

    `record` is traced with `keep=KEEP` for every number; what is missing is left out. The `model`
    that it comes from adds the induction probe and, if `untrained`, the baseline of the same
    architecture with random weights, which is built and run. What is at hand already may be given:
    `random`, that second model; the probe's scores on either; and `random_scores`, what
    `scores_of_random` gives. It can be abandoned between its blocks, see `core.cancellation`.
    """
    notes: list[str] = []
    if model is not None and record.part != "cross":
        from mha_viz.checkpoints.untrained_copy import untrained_copy

        induction = induction or _probed(model, record.part, notes)
        if untrained:
            random = untrained_copy(model) if random is None else random
            random_induction = random_induction or _probed(random, record.part, [])
    scores = measure(record)
    if induction is not None:
        scores["induction"] = induction.mean
    random_head_scores = random_scores
    if random is not None:
        random_head_scores = scores_of_random(record, random, random_induction)
        if random_head_scores is None:
            notes.append(_NOTES["no_random"])
    baselines = text_baselines(record, random_head_scores)
    if induction is not None:  # its texts are the probe's, not this one
        baselines["induction"] = replace(
            baselines.get("induction", Baseline()),
            uniform=induction.uniform,
            offset=induction.offset,
        )
    scores = {key: scores[key] for key in METRICS if key in scores}
    earned = head_labels(scores, baselines, rotation_null(record))
    withheld = _withheld(head_labels(scores, baselines), earned)
    result = Report(scores, baselines, earned, induction, withheld=withheld)
    messages = [*_too_short(result, record.n_layers), *_by_chance(result)]
    return replace(result, notes=(*record.notes, *_missing(record), *messages, *notes))


def head_report(record: AttentionRecord, model: AttentionModel | None = None) -> pd.DataFrame:
    """Measure everything about every head of a record, a row per head.

    Args:
        record: traced with `keep=("pattern", "z", "value")` for every number.
        model: where it comes from; adds the induction probe (random repeated tokens, several
            seeds) and the baseline of the same architecture with random weights.

    Returns:
        DataFrame with the columns layer (the model's own number) and head; labels and why (score,
        threshold, baseline beaten); one for each metric by its key (sink only where heads have
        learned one); induction_low and _high (95 % interval over seeds); twin and output_twin (the
        nearest head by Hellinger distance of patterns and by CKA of outputs) with those numbers;
        and for each metric key_uniform, key_offset and key_random: what uniform attention, a fixed
        offset of -1 and random weights score on this text; of a head's output, that head with such
        attention. NaN is "not defined". `attrs["notes"]` says what a reader should know. Displayed,
        it shows its main columns; all are there.

    Source: that of each metric, `METRICS[key].source`.

    >>> import mha_viz as mv
    >>> table = mv.head_report(mv.load("tiny-bert").trace("The cat sat on the mat"))
    >>> len(table), "entropy_uniform" in table
    (32, True)
    """
    return report(record, model).table(record)


def _missing(record: AttentionRecord) -> Iterator[str]:
    """Yield what a reader should know about the record, and why a number may be missing."""
    mass = record.patterns.row_sums()
    nothing = mass == 0
    if record.removed is not None:
        yield _NOTES["scaled" if ((mass > 0.99) | nothing).all() else "not_scaled"]
    if record.merged:
        yield _NOTES["merged"]
    if record.sink_mass is not None:
        low, high = record.sink_mass.aminmax()
        yield _NOTES["sink"].format(low=low, high=high)
    if idle := int(nothing.all(-1).sum()):
        yield _NOTES["idle"].format(idle=idle)
    if (nothing.any(-1) & ~nothing.all(-1)).any():
        yield _NOTES["nothing"]
    if record.is_cross:
        yield _NOTES["cross"]
    elif len(record.tokens) == 1:
        yield _NOTES["single_token"]
    if record.z is None:
        yield _NOTES["no_z"]
    elif not record.W_O:
        yield _NOTES["no_W_O"]
    if record.n_layers * record.n_heads == 1:
        yield _NOTES["single_head"]


def _too_short(head_report: Report, n_layers: int) -> Iterator[str]:
    """Name the labels that no head could have earned on this text, in some layer at least."""
    of_layers = [head_report.too_short(layer) for layer in range(n_layers)]
    titles = list(dict.fromkeys(label.title for labels in of_layers for label in labels))
    if titles:
        some = " in some layers" * (len(set(of_layers)) > 1)
        yield _NOTES["too_short"].format(some=some, titles=", ".join(titles))


def _withheld(reached: Earned, earned: Earned) -> list[list[tuple[Label, ...]]]:
    """Return the labels of each head that stand in the first list alone."""
    return [
        [
            tuple(entry.label for entry in first if entry not in second)
            for first, second in zip(*rows, strict=True)
        ]
        for rows in zip(reached, earned, strict=True)
    ]


def _by_chance(head_report: Report) -> Iterator[str]:
    """Name the labels that some heads reach and do not hold, since chance explains as many."""
    if withheld := Counter(
        label.title for row in head_report.withheld for head in row for label in head
    ):
        counts = ", ".join(f"{title} ({n})" for title, n in withheld.items())
        yield _NOTES["by_chance"].format(counts=counts)


def _probed(model: AttentionModel, part: str, notes: list[str]) -> InductionScores | None:
    """Run the induction probe, or note why it cannot be run on this model."""
    from mha_viz.reports.induction import induction_scores

    try:
        return induction_scores(model, part=part)
    except ArgumentError as error:
        notes.append(f"Induction was not probed: {error}")
        return None


def scores_of_random(
    record: AttentionRecord, random: AttentionModel, induction: InductionScores | None = None
) -> dict[str, Tensor] | None:
    """Score heads with random weights on the text of a record, seen as the record is.

    Returns metric key -> (layer, head); None where tokens were left out of the record.
    """
    if record.removed is not None:
        return None
    keep = KEEP if random.backend == "mha_viz" else ("pattern",)
    traced = random.trace(record.text, record.text_pair, part=record.part, keep=keep)
    scores = measure(traced.merge_words() if record.merged else traced)
    return scores if induction is None else {**scores, "induction": induction.mean}


def _twins(record: AttentionRecord) -> Iterator[tuple[str, object]]:
    """Yield each head's most similar other head, by attention and by output."""
    for name, key in TWIN_MEASURES.items():
        made_of = PAIR_MEASURES[key]
        if made_of != "pattern" and getattr(record, made_of) is None:
            continue
        twins, twin_distances = nearest_others(distances(record, key))
        layer_heads = (divmod(twin, record.n_heads) for twin in twins.tolist())
        numbers = record.layer_numbers
        yield name, [None if i < 0 else head_name(i, j, numbers=numbers) for i, j in layer_heads]
        yield f"{name}_{key}", 1 - twin_distances if key in LIKENESS else twin_distances


def most_informative_head(
    scores: Mapping[str, Num[np.ndarray | Tensor, "layer head"]],
) -> tuple[int, int]:
    """Choose the head that says most about the words of a text, by its scores alone.

    That is the largest `mutual_information` (the head picks different keys for different tokens,
    and is sure of them), times the shares of its weight that lie elsewhere than where heads look
    whatever the words are: at the token before, after, itself, the first, special ones. A rule of
    thumb for opening a page, not a finding.

    Returns its layer and head; (0, 0) where the scores of all heads are equal. Keys of `METRICS`
    that are missing are passed over.

    >>> scores = {"mutual_information": np.array([[0.9, 1.0]]),
    ...           "previous_token": np.array([[0.1, 0.9]])}
    >>> most_informative_head(scores)
    (0, 0)
    """
    if "mutual_information" not in scores:
        return 0, 0
    worth = np.nan_to_num(np.asarray(scores["mutual_information"], dtype=np.float64))
    for key in PLACES:
        if key in scores:
            worth = worth * (1 - np.nan_to_num(np.asarray(scores[key], dtype=np.float64)))
    layer, head = np.unravel_index(int(worth.argmax()), worth.shape)
    return int(layer), int(head)
