"""Heads in words: sentences that are made of numbers, each beside its baseline."""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.amounts import format_number
from mha_viz.core.layer_numbers import head_name
from mha_viz.core.metrics import LABELS, METRICS, EarnedLabel
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.core.record.checks import Place
from mha_viz.core.record.chosen import place_of
from mha_viz.core.reprs import count
from mha_viz.reports.report import Report
from mha_viz.reports.report import report as make_report

LEAST = 3  # heads; of fewer, none is unusual
MAX_NAMED = 3  # kinds of heads in a sentence about all, and heads of each kind
AMOUNTS = {"probability": "of the weight", "tokens": "tokens away", "share": "of the most entropy"}
_ROUNDING = 1e-6  # of a metric in float32
_WITHOUT = "heads without a label"
_FIRST = ("induction", "duplicate")  # labels that are about words are named before all others
# From the labels that say most about the words of a text to those that say least.
CLEAREST = (
    "duplicate previous_token next_token self separator first_token long_range local broad "
    "induction"
).split()
_ORDER = (*_FIRST, *(key for key in LABELS if key not in _FIRST))


class Number(NamedTuple):
    """A number of a sentence, and the baseline beside it."""

    value: float
    baseline: float


@dataclass(frozen=True)
class Sentence:
    """A sentence, and the numbers that it rests on by their names."""

    text: str
    numbers: Mapping[str, Number] = field(default_factory=dict)


@dataclass(frozen=True)
class Description:
    """Sentences about heads; `str` gives their text. `notes` are those of the report."""

    sentences: tuple[Sentence, ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join(sentence.text for sentence in self.sentences)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)[:120]!r})"

    def _repr_html_(self) -> str:
        return "".join(f"<p>{html.escape(text)}</p>" for text in (str(self), *self.notes))


class Finding(NamedTuple):
    """A head's best label in the parts of a sentence; without a label, `head` is None."""

    head: tuple[int, int] | None
    text: str  # as it follows the head's name
    amount: str
    chance: str  # what the hardest baseline scores; "" where there is none
    baseline_name: str


def clearest(report: Report) -> Finding:
    """Return the label that says most about a text, of the head with the highest score.

    Labels that words earn come before those of sinks, and these before near and far. Induction
    comes last: it is measured on random text, not on this one.

    >>> import mha_viz as mv
    >>> record = mv.load("tiny-gpt2").trace("The cat sat on the mat and the dog sat on the rug.")
    >>> clearest(make_report(record))[:4]
    ((0, 7), 'looks at the previous token', '1.00 of its weight', '0.17')
    """
    earned = [
        ((layer, head), label)
        for layer, row in enumerate(report.labels)
        for head, labels in enumerate(row)
        for label in labels
    ]
    if not earned:
        total = int(_unlabelled(report).baseline)
        return Finding(None, f"No head of {total:,} earns a label on this text.", "", "", "")

    def clarity(candidate: tuple[tuple[int, int], EarnedLabel]) -> tuple[int, float]:
        label, score = candidate[1].label, candidate[1].score
        return CLEAREST.index(label.key), -score if label.at_least else score

    head, best = min(earned, key=clarity)
    verb, object_words = best.label.does.split(" ", 1)
    unit = METRICS[best.label.metric].unit
    written = "{:.2f}".format if unit == "probability" else format_number
    has_baseline = best.baseline_name != "no baseline"
    chance = written(best.baseline) if has_baseline else ""
    amount = f"{written(best.score)} {AMOUNTS[unit].replace('the weight', 'its weight')}"
    return Finding(head, f"{verb}s {object_words}", amount, chance, best.baseline_name)


def describe(record: AttentionRecord, head: Place, *, report: Report | None = None) -> Description:
    """Describe one head by its labels and by its most unusual metric, in sentences.

    The most unusual metric is the one in which the head is furthest from the median of all heads,
    in median absolute deviations. Each number stands beside its baseline.

    Args:
        record: any record.
        head: its layer, by the model's own number, and head, counted from 0; negative numbers count
            from the end.
        report: `mha_viz.reports.report.report(record, model)`, where it is at hand; that of a model
            adds induction, and labels that need random weights.

    Returns:
        Description: a sentence for each label, or that there is none, and one for the metric.

    Raises:
        ArgumentError: no such head.

    >>> import mha_viz as mv
    >>> record = mv.load("tiny-gpt2").trace("The cat sat on the mat and the dog sat on the rug.")
    >>> print(describe(record, (0, 2)).sentences[0].text)
    L0 H2 looks at the previous token (0.972 of the weight; uniform attention gives 0.166).
    """
    layer_head = place_of(record, head)
    report = make_report(record) if report is None else report
    name = head_name(*layer_head, numbers=record.layer_numbers)
    sentences = (*labels_of(report, layer_head, name), unusual(report, layer_head, name))
    return Description(sentences, report.notes)


def describe_heads(record: AttentionRecord, *, report: Report | None = None) -> Description:
    """Describe all heads of a record by their labels, in one sentence.

    It names three kinds of heads at most and three heads of each, the highest scores first. A head
    with several labels is named once.

    Args:
        record: any record.
        report: as for `describe`.

    Returns:
        Description of one sentence; it says so where no head has earned a label.

    >>> import mha_viz as mv
    >>> record = mv.load("tiny-gpt2").trace("The cat sat on the mat and the dog sat on the rug.")
    >>> print(describe_heads(record))
    L0 H7 and L0 H2 look at the previous token (0.998, 0.972 of the weight; ...
    """
    report = make_report(record) if report is None else report
    kinds: dict[str, list[tuple[str, EarnedLabel]]] = {key: [] for key in _ORDER}
    for i, layer in enumerate(report.labels):
        for j, earned in enumerate(layer):
            if earned:
                first = min(earned, key=lambda entry: _ORDER.index(entry.label.key))
                name = head_name(i, j, numbers=record.layer_numbers)
                kinds[first.label.key].append((name, first))
    clauses = [_clause(same_label) for same_label in kinds.values() if same_label][:MAX_NAMED]
    if not clauses:
        without = _unlabelled(report)
        text = f"No head of {int(without.baseline):,} earns a label on this text."
        return Description((Sentence(text, {_WITHOUT: without}),), report.notes)
    numbers = {key: number for clause in clauses for key, number in clause.numbers.items()}
    text = "; ".join(clause.text for clause in clauses)
    return Description((Sentence(f"{text}.", numbers),), report.notes)


def labels_of(report: Report, layer_head: tuple[int, int], name: str) -> list[Sentence]:
    """Return a sentence for each label of a head, or one that says that it has none."""
    earned = report.labels[layer_head[0]][layer_head[1]]
    clauses = [_clause([(name, label)]) for label in earned]
    if not clauses:
        n, total = without = _unlabelled(report)
        text = f"{name} earns no label, as {n:,.0f} of {count(int(total), 'head')} on this text."
        return [Sentence(text, {_WITHOUT: without})]
    return [Sentence(f"{clause.text}.", clause.numbers) for clause in clauses]


def unusual(report: Report, layer_head: tuple[int, int], name: str) -> Sentence:
    """Return a sentence on the metric in which a head is furthest from the median of all heads."""
    far: dict[str, float] = {}
    for key, scores in report.scores.items():
        if (score := scores[layer_head]).isfinite():
            away = np.abs(defined(scores) - np.median(defined(scores)))
            apart, spread = abs(float(score) - np.median(defined(scores))), np.median(away)
            far[key] = apart / spread if spread else np.inf if apart > _ROUNDING else 0.0
    if not far:
        return Sentence(f"{name} attends to nothing on this text: no metric of it is defined.")
    best = max(far, key=far.__getitem__)
    values, value = defined(report.scores[best]), float(report.scores[best][layer_head])
    begin = f"{name}'s {METRICS[best].title} is {amount(best, value)}"
    baselines = {}
    if len(values) >= LEAST:
        title, baselines["median of all heads"] = METRICS[best].title, float(np.median(values))
        begin = f"{name}'s most unusual metric is {title}: {amount(best, value)}"
        begin += f", the {rank_among(values, value)}"
    if np.isfinite(uniform := uniform_of(report, best, layer_head)):
        baselines["uniform attention"] = uniform
    beside = ", ".join(f"{key} {format_number(baseline)}" for key, baseline in baselines.items())
    numbers = {f"{best}, {key}": Number(value, baseline) for key, baseline in baselines.items()}
    return Sentence(f"{begin} ({beside})." if beside else f"{begin}.", numbers)


def _clause(labelled: Sequence[tuple[str, EarnedLabel]]) -> Sentence:
    """Return what some heads with one label do, and the hardest baseline that one of them beat."""
    label = labelled[0][1].label
    sign = -1 if label.at_least else 1
    shown = sorted(labelled, key=lambda head: sign * head[1].score)[:MAX_NAMED]
    hidden = [f"{len(labelled) - MAX_NAMED:,} more"] if len(labelled) > MAX_NAMED else []
    *names, last = [name for name, _ in shown] + hidden
    subject = " and ".join([", ".join(names), last] if names else [last])
    verb, object_words = label.does.split(" ", 1)
    hardest = min((earned for _, earned in labelled), key=lambda earned: sign * earned.baseline)
    beaten = f"{hardest.baseline_name} gives {format_number(hardest.baseline)}"
    if hardest.baseline_name == "no baseline":  # then it had a threshold to reach, and that alone
        beaten = f"the threshold is {format_number(hardest.threshold)}"
    scores = ", ".join(format_number(earned.score) for _, earned in shown)
    return Sentence(
        f"{subject} {verb}{'' if names else 's'} {object_words} ({scores} "
        f"{AMOUNTS[METRICS[label.metric].unit]}; {beaten})",
        {f"{name} {label.metric}": Number(earned.score, earned.baseline) for name, earned in shown},
    )


def _unlabelled(report: Report) -> Number:
    """Return how many heads have no label, beside the number of all."""
    heads = [earned for layer in report.labels for earned in layer]
    return Number(sum(not earned for earned in heads), len(heads))


def amount(key: str, value: float) -> str:
    """Write a metric's value with its unit; shares and probabilities have none."""
    unit = METRICS[key].unit
    return format_number(value) + (f" {unit}" if unit not in ("", "probability", "share") else "")


def defined(scores: Float[Tensor, "layer head"]) -> Float[np.ndarray, "known"]:
    """Return a metric's values in order of layer, without those that are not defined."""
    values = scores.double().flatten().cpu().numpy()
    return values[np.isfinite(values)]


def rank_among(values: Float[np.ndarray, " value"], value: float) -> str:
    """Name a value's place among all, counted from the nearer end; equal values share one.

    >>> rank_among(np.array([5.0, 1, 2, 2]), 2.0), rank_among(np.array([5.0, 1, 2]), 5.0)
    ('2nd highest of 4 heads', 'highest of 3 heads')
    """
    above, below = int((values > value).sum()), int((values < value).sum())
    rank, end = (above + 1, "highest") if above <= below else (below + 1, "lowest")
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(rank % 10 if rank % 100 // 10 != 1 else 0, "th")
    return f"{'' if rank == 1 else f'{rank:,}{suffix} '}{end} of {count(len(values), 'head')}"


def uniform_of(report: Report, key: str, layer_head: tuple[int, int]) -> float:
    """Return what a head with uniform attention scores; NaN where it has no score."""
    uniform = report.baselines[key].at(*layer_head).uniform if key in report.baselines else None
    return np.nan if uniform is None else uniform
