"""All paths from head to head over a task's pairs."""

import torch

from mha_viz.circuits.decompose.behaviour import Behaviour
from mha_viz.circuits.patching.experiment import PatchingExperiment, metric_of
from mha_viz.circuits.patching.patching import PathRuns
from mha_viz.circuits.patching.path_effects import N_MEASURED, PathEffects
from mha_viz.circuits.tasks.faithfulness import task_of
from mha_viz.circuits.tasks.task_runs import targets_of, z_of
from mha_viz.circuits.tasks.tasks import Example, Task
from mha_viz.engine.head_changes import part_size
from mha_viz.engine.model import AttentionModel
from mha_viz.prediction.loss import OnProgress


@torch.inference_mode(False)
def task_paths(
    model: AttentionModel,
    task: Task | str,
    metric: str = "logit_difference",
    way: str = "direct",
    on_progress: OnProgress | None = None,
    *,
    n_measured: int = N_MEASURED,
) -> PathEffects:
    """Estimate the effects of all paths over a task's pairs, and measure the strongest.

    It is `path_effects` of each pair's clean and corrupt text, as means over the pairs, with a 95 %
    interval over them where a path is measured. A direct path of a family that `edge_effects`
    takes is an edge there, with the same effect and the same estimate as its method "eap".

    Args:
        model: the one that the task was made for.
        task: of `make_task`, or its name. Paths see `task.to_choose_on` alone.
        metric: as for `path_effects`; the right answer less the wrong one, at the answer's place.
        way: "direct" or "total".
        on_progress: called with how many pairs' paths are estimated, and of how many.
        n_measured: how many paths to measure at once, those with the largest estimates.

    Returns:
        PathEffects, means over pairs: (layer, head, layer, head, input).

    Raises:
        ArgumentError: a task of another model, and what `path_effects` raises.
        AttentionUnavailableError: as `path_effects`.

    Source: as of `path_effect`.

    >>> import mha_viz as mv
    >>> model = mv.load("tiny-gpt2")
    >>> task_paths(model, mv.make_task(model, "induction", n_examples=4))
    PathEffects(direct, logit_difference ..., mean over 2 pairs, 20 of 1,152 paths measured)
    """
    metric_of(metric)
    part_size(model, model.parts[0])
    pairs = task_of(model, task).to_choose_on
    experiments = [_experiment(model, pair, metric) for pair in pairs]
    return PathEffects(experiments, way, n_measured, on_progress)


def _experiment(model: AttentionModel, pair: Example, metric: str) -> PatchingExperiment:
    """Make both runs of a pair, and the behaviour at its answer."""
    known = metric_of(metric)
    with torch.no_grad():
        other = z_of(model, [pair.corrupt])
    runs = PathRuns(model, targets_of([pair]), torch.cat(other), with_graph=known != "kl")
    wrong = torch.tensor([pair.wrong]) if known == "logit_difference" else None
    clean = runs.logits if known == "kl" else None
    behaviour = Behaviour(known, torch.tensor([pair.right]), wrong, clean)
    return PatchingExperiment(runs, behaviour, "", "", ())
