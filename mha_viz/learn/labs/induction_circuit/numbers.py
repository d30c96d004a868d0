"""Lab 13: an induction circuit of a trained model, found, explained and tested.

All numbers are those of `circuits`: of its task of repeated tokens, and of one text that shows it.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd
from jaxtyping import Float, Float64
from torch import Tensor

from mha_viz.checkpoints.loading import load
from mha_viz.circuits.attribution.score_attribution import ScoreAttribution, score_attribution
from mha_viz.circuits.composition.head_pairs import Composition, composition
from mha_viz.circuits.effects.edge_circuit import edge_faithfulness
from mha_viz.circuits.effects.edge_effects import edge_effects
from mha_viz.circuits.effects.experiment import PatchingExperiment, patching_experiment
from mha_viz.circuits.effects.faithfulness import faithfulness, find_heads
from mha_viz.circuits.effects.over_pairs import TaskAttribution, task_attribution
from mha_viz.circuits.effects.tested_heads import Faithfulness
from mha_viz.circuits.tasks.accuracy import task_accuracy
from mha_viz.circuits.tasks.make_task import INDUCTION, make_task
from mha_viz.core.metrics.position import previous_token
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.core.stored_runs import StoredRun
from mha_viz.engine.model import AttentionModel
from mha_viz.reports.induction import induction_scores

MODEL = "tiny-gpt2"
# One token each for that model, with a space before them.
WORDS = (
    "cat", "dog", "bird", "house", "tree", "water", "boy", "girl", "king", "book", "door", "box",
    "ball", "car", "hat", "sun", "rain", "bed",
)  # fmt: skip
N_WORDS = (6, 8, 10, 12)
N_OTHERS = 8  # texts over which the mean is taken that stands in for a head
FOUND = 0.5  # the score from which a head is called an induction head or a previous-token head
Head = tuple[int, int]
N_STEPS, N_RANDOM = 5, 5  # of `explain`: its steps, and random circuits of each size


class Findings(NamedTuple):
    """The task, heads and edges of induction in one model; chosen and tested on different pairs.

    Args:
        accuracy: a sentence on how often the model does the task.
        writes: what each component adds to the right answer.
        tested: the heads that were chosen, tested on held-out pairs.
        curve: faithfulness by the number of edges on held-out pairs, as `EdgeCurve.table`.
        size: edges of the smallest circuit that carries enough; None where none does.
        n_edges: all that there are.
    """

    accuracy: str
    writes: TaskAttribution
    tested: Faithfulness
    curve: pd.DataFrame
    size: int | None
    n_edges: int


def explain(
    model: AttentionModel, *, on_step: Callable[[int], None] = lambda done: None
) -> Findings:
    """Find the heads and edges that continue repeated tokens, and test them on unseen pairs."""
    task = make_task(model, INDUCTION)
    accuracy = task_accuracy(model, task).sentence
    writes = task_attribution(model, task)
    on_step(1)
    heads = find_heads(model, task).heads
    on_step(2)
    tested = faithfulness(model, task, heads)
    on_step(3)
    scores = edge_effects(model, task)
    on_step(4)
    curve = edge_faithfulness(scores, n_random=N_RANDOM)
    return Findings(accuracy, writes, tested, curve.table(), curve.size_for(), scores.n_edges)


CHECKPOINT = (MODEL, "cpu", "float32")
STORED = (StoredRun("induction-circuit", CHECKPOINT, Findings, lambda: explain(load(MODEL))),)


@dataclass(frozen=True, eq=False)
class Circuit:
    """A text of words repeated once, its losses, and the heads that predict the second copy.

    Args:
        text: the words, twice.
        record: of the text.
        n_words: in one copy.
        losses: nats, of each token but the first, given those before it.
        previous: (layer, head), the weight on the token before, on this text.
        induction: (layer, head), of random tokens repeated once, as the report has it.
        writers: heads that look at the token before, in a layer before the reader's; best first.
        readers: the induction heads of the layer that has the best; best first.
        experiment: the run, and the mean over other orders of the same words.
    """

    text: str
    record: AttentionRecord
    n_words: int
    losses: Float64[Tensor, " target"]
    previous: Float[Tensor, "layer head"]
    induction: Float[Tensor, "layer head"]
    writers: tuple[Head, ...]
    readers: tuple[Head, ...]
    experiment: PatchingExperiment

    @property
    def start(self) -> int:
        """The place of the first word: behind a token that the model puts before a text, if any."""
        return len(self.record.tokens) - 2 * self.n_words

    @property
    def predictable(self) -> slice:
        """The part of `losses` whose word can be predicted: the word before it occurred before."""
        return slice(self.start + self.n_words, None)

    @property
    def first_loss(self) -> float:
        """Mean loss of the first copy without its first word, nats."""
        return float(self.losses[self.start : self.start + self.n_words - 1].mean())

    @property
    def second_loss(self) -> float:
        """Mean loss of the second copy without its first word, nats."""
        return float(self.losses[self.predictable].mean())


def find_circuit(model: AttentionModel, n_words: int, seed: int) -> Circuit:
    """Run repeated words, and find the heads that know what came after a word.

    >>> import mha_viz as mv
    >>> found = find_circuit(mv.load(MODEL), 8, 0)
    >>> found.writers[0], found.second_loss < found.first_loss / 4
    ((0, 7), True)
    """
    draw = random.Random(seed)
    words = draw.sample(WORDS, n_words)
    other_texts = [_repeat_words(draw.sample(words, n_words)) for _ in range(N_OTHERS)]
    text = _repeat_words(words)
    experiment = patching_experiment(model, text, other_texts, "loss", None, None, None)
    record = model.trace(text)
    previous = previous_token(record.pattern)
    induction = induction_scores(model).mean
    losses = experiment.behaviour.each(experiment.runs.logits[None])[0].cpu()
    best = _best(induction)
    layer = best[0][0]
    writers = tuple(head for head in _best(previous) if head[0] < layer)
    readers = tuple(head for head in best if head[0] == layer)
    heads = previous, induction, writers, readers
    return Circuit(text, record, n_words, losses, *heads, experiment)


class Ranked(NamedTuple):
    """A pair's rank by the z-score of its K-composition, from 1: of all, and of its two layers."""

    composition: Composition
    rank: int
    rank_between: int
    total: int


def rank_pair(model: AttentionModel, writer: Head, reader: Head) -> Ranked:
    """Rank a writer and a reader by K-composition among all pairs of heads."""
    scores, n = composition(model, "K"), model.n_heads
    z = scores.zscore.unflatten(1, (-1, n)).unflatten(0, (-1, n))
    mine, block = z[(*writer, *reader)], z[writer[0], :, reader[0]]
    rank, between = (1 + int((pairs > mine).sum()) for pairs in (z, block))
    return Ranked(scores, rank, between, int(z.isfinite().sum()))


def score_difference(
    model: AttentionModel, circuit: Circuit, reader: Head, word: int
) -> ScoreAttribution:
    """Decompose why a word (of one copy, from 0) attends behind its first occurrence, not to it."""
    first = circuit.start + word
    again = first + circuit.n_words
    return score_attribution(model, circuit.text, *reader, query=again, key=first + 1, versus=first)


def by_key_component(attribution: ScoreAttribution) -> pd.DataFrame:
    """Sum what each part of the keys adds to the difference of two scores, largest first.

    Columns: component, share (of the score, all parts of the query together).
    """
    names = [component.name for component in attribution.key_components]
    table = pd.DataFrame({"component": names, "share": attribution.shares.double().sum(0).numpy()})
    return table.sort_values("share", key=abs, ascending=False, ignore_index=True)


def loss_with_cut(
    circuit: Circuit, senders: list[Head], readers: list[Head], name: str = "key"
) -> float:
    """Compute the second copy's loss where readers get the senders' mean over other texts.

    Everything else stays as it was, the senders' outputs to all others included. `name` is the
    readers' input that is patched: "query", "key" or "value".
    """
    layer = readers[0][0]
    runs = circuit.experiment.runs
    logits = runs.patch_paths(senders, layer, [head for _, head in readers], name)  # type: ignore[arg-type]
    return float(circuit.experiment.behaviour.each(logits)[0, circuit.predictable].mean())


def cuts(circuit: Circuit) -> pd.DataFrame:
    """Measure the loss with paths cut, beside paths that should not matter.

    Columns: cut (what was cut, in words), loss (nats, second copy), more (than with nothing cut).
    """
    writers, readers = list(circuit.writers), list(circuit.readers)
    best_writer, best_reader = writers[:1], readers[:1]
    layer = best_writer[0][0]
    other_heads = [(layer, head) for head in range(circuit.previous.shape[1])]
    other_heads = [head for head in other_heads if head not in writers]
    patched = {
        "Nothing": None,
        "Best writer → best reader, keys": (best_writer, best_reader, "key"),
        "Best writer → all readers, keys": (best_writer, readers, "key"),
        "All writers → all readers, keys": (writers, readers, "key"),
        "Best writer → all readers, queries": (best_writer, readers, "query"),
        "All others of that layer → all readers, keys": (other_heads, readers, "key"),
    }
    losses = [
        circuit.second_loss if paths is None else loss_with_cut(circuit, *paths)
        for paths in patched.values()
    ]
    table = pd.DataFrame({"cut": list(patched), "loss": losses})
    return table.assign(more=table.loss - circuit.second_loss)


def cut_by_sender(circuit: Circuit) -> pd.DataFrame:
    """Measure the loss with one head at a time of the writers' layer cut from all readers.

    Columns: layer, head, loss (nats, second copy), more (than with nothing cut).
    """
    layer, heads = circuit.writers[0][0], list(range(circuit.previous.shape[1]))
    losses = [loss_with_cut(circuit, [(layer, head)], list(circuit.readers)) for head in heads]
    table = pd.DataFrame({"layer": layer, "head": heads, "loss": losses})
    return table.assign(more=table.loss - circuit.second_loss)


def _repeat_words(words: list[str]) -> str:
    return " " + " ".join(words + words)


def _best(scores: Float[Tensor, "layer head"]) -> list[Head]:
    """Return heads with `FOUND` or more, and the best one in any case, highest first."""
    order = scores.flatten().argsort(descending=True).tolist()
    heads = [divmod(i, scores.shape[1]) for i in order]
    return [head for i, head in enumerate(heads) if i == 0 or scores[head] >= FOUND]
