"""Two heads in words: where they differ beyond noise, and how alike they are."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.amounts import format_number
from mha_viz.core.compare.alignment import align, equal_places, pattern_change
from mha_viz.core.compare.chance import permuted_pairs
from mha_viz.core.compare.exchange import MOST_BLOCKS, Exchange, exchange_test
from mha_viz.core.layer_numbers import head_name
from mha_viz.core.measure import as_distances, head_similarity
from mha_viz.core.metrics import METRICS
from mha_viz.core.metrics.baselines import uniform_rows
from mha_viz.core.metrics.chance import RATE
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.core.record.checks import Place
from mha_viz.core.record.chosen import chosen_heads, place_of
from mha_viz.core.record.visible import visible_keys
from mha_viz.core.reprs import count, table_html
from mha_viz.reports.description import (
    LEAST,
    Description,
    Number,
    Sentence,
    amount,
    defined,
    labels_of,
    rank_among,
    unusual,
)
from mha_viz.reports.head_pair import HeadPair, metric_table, token_pairs
from mha_viz.reports.report import TWIN_MEASURES, Report
from mha_viz.reports.report import report as make_report

MOST_NAMED = 3  # metrics that a sentence names
MOST_ROWS = 256  # that the chance level of a pair is measured on
MOST_ALIGNED = 2**24  # places of one text times those of the other
_SHARE, _CHANGE = ", share of pairs", "change"  # names of numbers
_ALIKE = {"hellinger": "attention", "cka": "output"}
_NAMES = {"hellinger": "Hellinger distance", "cka": "CKA"}
Likeness = Mapping[str, Float[np.ndarray | Tensor, "head2 head2"]]


@dataclass(frozen=True, eq=False, repr=False)
class Difference(Description):
    """Sentences about two heads, and the tables behind them.

    Args:
        metrics: a row for each metric by its key, the most unusual difference first: title, unit;
            a and b, the values; uniform_a and uniform_b, those of uniform attention; difference,
            b - a; spreads, that over the standard deviation of all heads; unusual, the share of
            pairs of heads that differ less; noise, what 95 % of exchanges of rows do not exceed;
            p, how often an exchange differs as much; beyond_noise. NaN is "not defined", or not
            tested.
        pairs: a row for each pair of tokens whose weights differ most: query, key, query_token,
            key_token, a, b, difference; empty where the heads are on different tokens.
        verdict: how far they differ, in one sentence of at most 120 letters.
    """

    metrics: pd.DataFrame = field(default_factory=pd.DataFrame)
    pairs: pd.DataFrame = field(default_factory=pd.DataFrame)
    verdict: str = ""

    def _repr_html_(self) -> str:
        shown = self.metrics[["title", "a", "b", "difference", "spreads", "unusual", "noise"]]
        return super()._repr_html_() + table_html("The metrics of both heads.", shown)


def describe_difference(
    record: AttentionRecord,
    a: Place,
    b: Place,
    *,
    other: AttentionRecord | None = None,
    report: Report | None = None,
    other_report: Report | None = None,
    likeness: Likeness | None = None,
) -> Difference:
    """Describe in sentences how two heads differ and how alike they are.

    They say what each head does, in which metrics the heads differ beyond noise, where both stand
    among all heads, and how alike their attention and their outputs are, beside chance. Noise is
    what exchanges of their rows give, see `exchange_test`; the false-discovery rate is 5 %. It
    knows one text. Chance is what the same rows give with their weights, or their outputs, in
    random order, see `permuted_pairs`; of a long text 256 rows are taken.

    Args:
        record: any record.
        a: layer, by the model's own number, and head; negative numbers count from the end.
        b: those of the other head.
        other: the record that b is of, where that is another one: of another text, or of another
            model, such as the untrained copy.
        report: of `record`, where it is at hand; see `describe`.
        other_report: of `other`, likewise.
        likeness: "hellinger", "cka" -> `head_similarity(record, measure)`, where they are at hand.

    Returns:
        Difference: four to six sentences, and tables of the metrics and of the pairs of tokens.
        With `other`, the heads are called A and B.

    Raises:
        ArgumentError: no such head.

    Source: the false-discovery rate is that of Benjamini and Hochberg 1995.

    >>> import mha_viz as mv
    >>> record = mv.load("tiny-gpt2").trace("The cat sat on the mat and the dog sat on the rug.")
    >>> difference = describe_difference(record, (0, 2), (1, 5))
    >>> difference.metrics.unusual.is_monotonic_decreasing, len(difference.pairs)
    (True, 8)
    """
    second = record if other is None else other
    report = make_report(record) if report is None else report
    if other_report is None:
        other_report = report if second is record else make_report(second)
    heads = (record, place_of(record, a)), (second, place_of(second, b))
    name_a, name_b = (head_name(*layer_head, numbers=of.layer_numbers) for of, layer_head in heads)
    names = (name_a, name_b) if other is None else (f"A {name_a}", f"B {name_b}")
    return describe_pair(HeadPair(heads, (report, other_report), names), likeness)


def describe_pair(pair: HeadPair, likeness: Likeness | None = None) -> Difference:
    """Describe two heads as `describe_difference` does, by the names that they have in `pair`."""
    on_same, (report, other_report) = pair.on_same_tokens, pair.reports
    tested = exchange_test(*map(chosen_heads, pair.heads), paired=on_same)
    metrics = metric_table(pair, tested)
    sentences = [_does(pair, 0)]
    if pair.is_one_head:
        sentences.append(Sentence("Both are the same head: no number differs."))
    else:
        sentences += [_does(pair, 1), *_noise(pair, metrics, tested), *_standing(pair, metrics)]
        sentences += _alike(pair, likeness) if on_same else _moved(pair)
    notes = tuple(dict.fromkeys((*report.notes, *other_report.notes)))
    verdict = _verdict(pair, metrics, tested, sentences)
    return Difference(tuple(sentences), notes, metrics, token_pairs(pair), verdict)


def _verdict(
    pair: HeadPair, metrics: pd.DataFrame, tested: Exchange, sentences: list[Sentence]
) -> str:
    """Return how far two heads differ, in one sentence."""
    if pair.is_one_head:
        return "Both are the same head."
    tested_metrics = metrics[metrics["p"].notna()]
    numbers = {name: number for sentence in sentences for name, number in sentence.numbers.items()}
    clauses = []
    if len(tested_metrics) and tested.conclusive(len(tested_metrics)):
        beyond = f"{int(tested_metrics['beyond_noise'].sum()):,} of {len(tested_metrics):,} metrics"
        clauses.append(f"{' and '.join(pair.names)} differ beyond noise in {beyond}")
    if rank := numbers.get(f"hellinger{_SHARE}"):
        clauses.append(f"their attention is closer than {_percent(rank.value)} of pairs")
    if moved := numbers.get(_CHANGE):
        uniform = format_number(moved.baseline)
        clauses.append(
            f"{format_number(moved.value)} of the weight lies elsewhere (uniform: {uniform})"
        )
    text = "; ".join(clauses) or "the text is too short to tell how they differ"
    return f"{text[0].upper()}{text[1:]}."


def _does(pair: HeadPair, side: int) -> Sentence:
    """Return what one head does: its labels, or that it has none and what is most unusual."""
    of, layer_head, name = pair.reports[side], pair.heads[side][1], pair.names[side]
    sentences = labels_of(of, layer_head, name)
    if not of.labels[layer_head[0]][layer_head[1]]:
        sentences.append(unusual(of, layer_head, name))
    numbers = {key: number for sentence in sentences for key, number in sentence.numbers.items()}
    return Sentence(" ".join(sentence.text for sentence in sentences), numbers)


def _noise(pair: HeadPair, metrics: pd.DataFrame, tested: Exchange) -> Iterator[Sentence]:
    """Yield in which metrics the heads differ beyond noise, or why nobody can tell."""
    tested_metrics = metrics[metrics["p"].notna()]
    n, rows = len(tested_metrics), min(tested.rows)
    if not n:
        return
    if not tested.conclusive(n):
        needed = tested.rows_needed(n)
        text = (
            f"The text is too short to tell in which of {count(n, 'metric')} they differ: rows "
            f"with a choice of keys are {rows:,}, at least {needed:,} are needed."
        )
        yield Sentence(text, {"rows": Number(rows, needed)})
        return
    differing = tested_metrics[tested_metrics["beyond_noise"]]
    named = differing.head(MOST_NAMED) if len(differing) else tested_metrics.head(1)
    lines = {str(key): row for key, row in named.to_dict("index").items()}
    clauses = [
        f"{row['title']} ({amount(key, row['a'])} and {amount(key, row['b'])}; noise "
        f"{format_number(row['noise'])}; more than {_percent(row['unusual'])} of {_compared(pair)})"
        for key, row in lines.items()
    ]
    order = "most unusually in" if len(differing) else "the most unusual difference is"
    blocks = "rows" if pair.heads[0][0].shape[2] <= MOST_BLOCKS else "blocks of rows"
    yield Sentence(
        f"They differ beyond noise in {len(differing):,} of {count(n, 'metric')}, {order} "
        f"{', '.join(clauses)}. Noise is what exchanges of their {rows:,} {blocks} give.",
        {key: Number(row["difference"], row["noise"]) for key, row in lines.items()},
    )


def _standing(pair: HeadPair, metrics: pd.DataFrame) -> Iterator[Sentence]:
    """Yield where both heads stand among all in the metric of the most unusual difference."""
    beyond = metrics[metrics["beyond_noise"]]
    candidates = metrics[metrics["difference"].notna()] if beyond.empty else beyond
    if (
        candidates.empty
        or min(record.n_layers * record.n_heads for record, _ in pair.heads) < LEAST
    ):
        return
    key = str(candidates.index[0])
    clauses, numbers = [], {}
    for of, name, value in zip(pair.reports, pair.names, pair.values(key), strict=True):
        values = defined(of.scores[key])
        middle = float(np.median(values))
        clauses.append(
            f"{name} is the {rank_among(values, value)} (median {format_number(middle)})"
        )
        numbers[f"{name} {key}"] = Number(value, middle)
    yield Sentence(f"In {METRICS[key].title}, {' and '.join(clauses)}.", numbers)


def _alike(pair: HeadPair, likeness: Likeness | None) -> Iterator[Sentence]:
    """Yield how alike attention and outputs are, beside chance and all other pairs."""
    both = chosen_heads(*pair.heads)
    sampled = chosen_heads(*pair.heads, most=MOST_ROWS)
    for measure in TWIN_MEASURES.values():
        if measure == "cka" and both.z is None:
            continue
        value, rank = _among_pairs(pair, both, measure, likeness)
        if not np.isfinite(value):
            continue
        text = f"Their {_ALIKE[measure]} has a {_NAMES[measure]} of {format_number(value)}"
        numbers = {}
        if rank is not None:
            text += f", closer than {_percent(rank)} of {_compared(pair)}"
            numbers[f"{measure}{_SHARE}"] = Number(rank, 0.5)
        chance = permuted_pairs(sampled, measure)
        if chance is None:
            text += "; the text is too short for a chance level"
        else:
            low, high = chance.band
            verdict = "closer" if chance.p_pairs[0] <= RATE else "no closer"
            span = f"{format_number(low)} to {format_number(high)}"
            text += f"; chance gives {span}: {verdict} than chance"
            numbers[measure] = Number(value, (low + high) / 2)
        if numbers:
            yield Sentence(f"{text}.", numbers)


def _among_pairs(
    pair: HeadPair, both: AttentionRecord, measure: str, likeness: Likeness | None
) -> tuple[float, float | None]:
    """Return the likeness of the two heads, and the share of all pairs that are less alike."""
    (record, a), (_, b) = pair.heads
    if not pair.in_one_record:
        return float(head_similarity(both, measure)[0, 1]), None
    stored = (likeness or {}).get(measure)
    matrix = head_similarity(record, measure) if stored is None else torch.as_tensor(stored)
    i, j = (layer * record.n_heads + head for layer, head in (a, b))
    apart = as_distances(matrix, measure).cpu().numpy()
    each = apart[np.triu_indices(len(apart), 1)]
    farther = each[np.isfinite(each)] > apart[i, j]
    return float(matrix[i, j]), float(farther.mean()) if len(farther) else None


def _moved(pair: HeadPair) -> Iterator[Sentence]:
    """Yield how much weight lies elsewhere in the other text, beside uniform attention."""
    (first_record, a), (second_record, b) = pair.heads
    if (
        first_record.is_cross
        or second_record.is_cross
        or first_record.shape[2] * second_record.shape[2] > MOST_ALIGNED
    ):
        return
    positions = align(first_record.labels, second_record.labels)
    common = equal_places(first_record.labels, second_record.labels, positions)
    if all(first_record.tokens[i].is_special for i, _ in common):
        text = (
            f"No row can be compared: B has no token of A, which has {len(first_record.tokens):,}."
        )
        yield Sentence(text, {"common tokens": Number(0, len(first_record.tokens))})
        return
    uniform_patterns = [
        uniform_rows(visible_keys(of, layer_head[0])) for of, layer_head in pair.heads
    ]
    change, uniform = (
        float(pattern_change(first[None, None], second[None, None], positions, common))
        for first, second in ((first_record.head(*a), second_record.head(*b)), uniform_patterns)
    )
    yield Sentence(
        f"On the {count(len(common), 'token')} that both texts share, {format_number(change)} of "
        f"the weight lies elsewhere; uniform attention gives {format_number(uniform)}.",
        {_CHANGE: Number(change, uniform)},
    )


def _compared(pair: HeadPair) -> str:
    """Name what a difference is compared with."""
    n, n_other = (record.n_layers * record.n_heads for record, _ in pair.heads)
    if pair.compares_changes:
        return f"the changes of {count(n, 'head')}"
    n_pairs = n * (n - 1) // 2 if pair.in_one_record else n * n_other
    return f"{count(n_pairs, 'pair')} of heads"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
