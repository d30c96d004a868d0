"""The graph of a prediction over a task's pairs."""

from collections.abc import Sequence

import torch

from mha_viz.circuits.decompose.readout import readout
from mha_viz.circuits.flow.prediction import SHARE, PathsToLogit, checked, graph_of
from mha_viz.circuits.flow.signed_graph import PredictionGraph
from mha_viz.circuits.tasks.tasks import Example, Task
from mha_viz.core.attention.checks import Given, Number
from mha_viz.core.record.token import Token
from mha_viz.core.reprs import count
from mha_viz.engine.model import AttentionModel
from mha_viz.prediction.loss import OnProgress, Progress


@torch.no_grad()
def task_graph(
    model: AttentionModel,
    task: Task,
    on_progress: OnProgress | None = None,
    *,
    share: Given[Number] = SHARE,
    pins: Given[Sequence[str]] = (),
) -> PredictionGraph:
    """Draw the right answer of a task less the wrong one as a sum over paths, a mean over pairs.

    It is `prediction_graph` of each clean text at the answer's place. Edges carry means, and their
    contributions have a 95 % t-interval over pairs in the columns low and high. Pairs of one length
    that are answered at one place share positions; others are pooled, so that the graph tells
    layers and heads apart and has one position for all tokens. A flow is the mean of the pairs'
    flows within the edges kept.

    Args:
        model: the one that the task was made for.
        task: of `make_task`.
        on_progress: called with how many pairs are run, and of how many; an exception stops it.
        share: as for `prediction_graph`, of the mean contributions.
        pins: likewise; of pooled pairs only those at any token, such as "L2 H3 @*".

    Returns:
        PredictionGraph, in logits, with a row for each edge.

    Raises:
        ArgumentError: a task of another model, and what `prediction_graph` raises.
        AttentionUnavailableError: as `prediction_graph`.

    Source: as of `prediction_graph`.

    >>> import mha_viz as mv
    >>> model = mv.load("tiny-gpt2")
    >>> graph = task_graph(model, mv.make_task(model, "induction", n_examples=4), share=1)
    >>> abs(graph.held + graph.rest - graph.value) < 1e-3
    True
    """
    task.check_model(model)
    chosen_pins = checked(share, pins)
    progress, runs = Progress(on_progress, len(task.examples)), list[PathsToLogit]()
    for pair in task.examples:
        made = readout(model, pair.clean, pair.place)
        runs.append(PathsToLogit(model, made, pair.place, pair.right, pair.wrong))
        progress.add(1)
    pairs = count(len(runs), "pair")
    return graph_of(
        model,
        runs,
        float(share),
        chosen_pins,
        token="right answer",
        versus="wrong answer",
        tokens=shared_tokens(task.examples),
        text=f"{task.name}, mean over {pairs}",
        notes=tuple(model.notes),
    )


def shared_tokens(pairs: Sequence[Example]) -> tuple[Token, ...]:
    """Label each position by its token, or the first of several; one for all of several lengths."""
    if len({(len(pair.clean.tokens), pair.place) for pair in pairs}) > 1:
        return (Token("all tokens", -1),)
    found = []
    for column in zip(*(pair.clean.tokens for pair in pairs), strict=True):
        same = len({token.id for token in column}) == 1
        text = column[0].text if same else f"{column[0].text} …"
        found.append(Token(text, -1, is_special=column[0].is_special))
    return tuple(found)
