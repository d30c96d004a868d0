"""The commands that change heads, patch activations and replace edges."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mha_viz.cli import options
from mha_viz.cli.notes import print_notes, progress, tell
from mha_viz.errors import ArgumentError

if TYPE_CHECKING:
    from mha_viz.circuits.effects.path_effect import Receiver

from enum import StrEnum
from typing import Any

from mha_viz.cli.texts import read_texts
from mha_viz.core.names import ORDERS, How, Method

OrderChoice = StrEnum("OrderChoice", ["ablation", "gradient", "redundancy", "random"])
UNIT = "nats per token"


def ablate(
    text: options.Text,
    heads: str,
    checkpoint: options.Checkpoint,
    tracked: options.Tracked,
    output: options.TableOutput,
    how: How = "zero",
    factor: float | None = None,
    source: str | None = None,
    top: int = 10,
    pair: options.Pair = None,
) -> None:
    """Change heads and show what the model predicts then."""
    chosen = options.parse_heads(heads)
    if (how == "scale") != (factor is not None):
        raise ArgumentError("--how scale and --factor belong together: give both, or neither.")
    from mha_viz.interventions.ablation import ablate

    loaded = checkpoint.load()
    change: dict[str, Any] = dict(factor=factor or 0.0, source=source, text_pair=pair, top_k=top)
    ablation = ablate(loaded, text, chosen, how, **change, **vars(tracked))
    numbers: dict[str, object] = {
        "value_before": ablation.before.value,
        "value_after": ablation.after.value,
        "kl_nats": ablation.kl if ablation.value_change is None else None,
        "entropy_before": ablation.before.entropy,
        "entropy_after": ablation.after.entropy,
        "loss_before": ablation.before.loss,
        "loss_after": ablation.after.loss,
        "logit_difference_before": ablation.logit_difference_before,
        "logit_difference_after": ablation.logit_difference_after,
    }
    for name, token in (("target", ablation.target), ("against", ablation.against)):
        if token is not None:
            numbers |= {
                name: token.text,
                f"{name}_log_probability_before": token.before,
                f"{name}_log_probability_after": token.after,
            }
    defined = {key: value for key, value in numbers.items() if value is not None}
    names = ", ".join(f"L{i} H{j}" for i, j in ablation.intervention.heads)
    over = f" (mean over {ablation.averaged})" if ablation.averaged else ""
    title = f"{loaded.name}, {how}: {names}{over}"
    output.deliver(ablation.table(), title, **defined)


def importance(
    texts: str,
    checkpoint: options.Checkpoint,
    output: options.TableOutput,
    method: Method = "ablation",
    label: str | None = None,
    pair: options.Pair = None,
) -> None:
    """Measure how much the loss depends on each head, over one text or several."""
    measured_texts = read_texts(texts)
    from mha_viz.interventions.importance import head_importance

    loaded = checkpoint.load()
    target: dict[str, Any] = dict(labels=label, text_pair=pair)
    on_progress = progress("heads")
    scores = head_importance(loaded, measured_texts, method, on_progress, **target)
    print_notes(scores.notes)
    table = scores.table().sort_values("importance", ascending=False, kind="stable")
    title = f"{loaded.name}: importance by {method}, {scores.unit}, {scores.n_texts} text(s)"
    loss = float(scores.loss.mean())
    output.deliver(table, title, loss=loss, method=method)


def prune(
    texts: str,
    checkpoint: options.Checkpoint,
    output: options.TableOutput,
    order: list[OrderChoice] | None = None,
    steps: int = 8,
    seeds: int = 5,
) -> None:
    """Remove heads one by one and follow the loss."""
    measured_texts = read_texts(texts)  # before anything heavy is imported
    import pandas as pd

    from mha_viz.interventions.pruning import pruning_curve

    loaded = checkpoint.load()
    curves = []
    points: dict[str, Any] = dict(steps=steps, n_seeds=seeds)
    for name in order or ORDERS:
        on_progress = progress(name)
        curve = pruning_curve(loaded, measured_texts, name, on_progress=on_progress, **points)
        print_notes(f"{name}: {note}" for note in curve.notes)
        curves.append(curve.table().assign(order=name))
    table = pd.concat(curves, ignore_index=True)
    table = table[["order", *(column for column in table if column != "order")]]
    title = f"{loaded.name}: loss while heads are taken away, {UNIT}, {len(measured_texts)} text(s)"
    output.deliver(table, title)


_ONE_END = "A path has one head at each end, such as 0.3"
_Metric = Literal["logit_difference", "logit", "loss", "kl"]


def path(
    clean: options.Text,
    corrupt: options.Corrupt,
    sender: str,
    checkpoint: options.Checkpoint,
    tracked: options.Tracked,
    output: options.TableOutput,
    receiver: str = "logits",
    metric: _Metric = "logit_difference",
) -> None:
    """Measure what changes when one head reads another's output from a corrupted text."""
    start, ends = options.parse_head(sender, _ONE_END), _parse_receiver(receiver)
    from mha_viz.circuits.effects.path_effect import path_effect, receiver_name

    loaded = checkpoint.load()
    effect = path_effect(loaded, clean, corrupt, start, ends, metric, **vars(tracked))
    print_notes(effect.notes)
    title = f"{loaded.name}: L{start[0]} H{start[1]} -> {receiver_name(ends)}, change of {metric}"
    tokens = _token_names(effect.target, effect.against)
    output.deliver(effect.table(), title, clean=effect.clean, **tokens)


def paths(
    clean: options.Text,
    corrupt: options.Corrupt,
    checkpoint: options.Checkpoint,
    tracked: options.Tracked,
    output: options.TableOutput,
    metric: _Metric = "logit_difference",
    way: Literal["direct", "total"] = "direct",
    exact: bool = False,
) -> None:
    """Estimate all paths from head to head and measure the strongest; the largest first."""
    if metric == "kl" and not exact:
        refusal = "KL has no estimates, for its slope at the clean run is 0: add --exact."
        raise ArgumentError(refusal)
    from mha_viz.circuits.effects.path_effects import path_effects

    loaded = checkpoint.load()
    effects = path_effects(loaded, clean, corrupt, metric, way, **vars(tracked))
    if exact:
        effects.measure(progress("paths"))
    print_notes(effects.notes)
    table = effects.table().sort_values("effect", key=abs, ascending=False, kind="stable")
    table = table.dropna(axis="columns", how="all")
    numbers: dict[str, object] = {
        "clean": effects.clean,
        **_token_names(effects.target, effects.against),
    }
    if isfinite(effects.recall()):  # all paths are measured: of a part both numbers would mislead
        numbers |= {"rank_correlation": effects.agreement, "recall_20": effects.recall()}
    if output.to_read:
        table = table.head(options.SHOWN)
    n_estimated = effects.n_paths - effects.n_measured
    title = (
        f"{loaded.name}: {way} paths, change of {metric}; {effects.n_measured:,} measured, "
        f"{n_estimated:,} estimated"
    )
    output.deliver(table, title, **numbers)


def patch(
    clean: options.Text,
    corrupt: options.Corrupt,
    checkpoint: options.Checkpoint,
    tracked: options.Tracked,
    output: options.TableOutput,
    metric: _Metric = "logit_difference",
    part: Literal["residual", "attention", "mlp", "heads", "heads_by_position"] = "residual",
    direction: Literal["denoise", "noise"] = "denoise",
) -> None:
    """Measure where a behaviour is carried: each layer's part patched at each position."""
    from mha_viz.circuits.effects.patching_map import patching_map

    loaded = checkpoint.load()
    settings = vars(tracked) | {"on_progress": progress("runs")}
    patched = patching_map(loaded, clean, corrupt, metric, part, direction, **settings)
    print_notes([*patched.notes, *([patched.refusal] if patched.refusal else [])])
    table = patched.table()
    if output.to_read:
        strongest = table.sort_values("effect", key=abs, ascending=False, kind="stable")
        table = strongest.head(options.SHOWN)
    title = f"{loaded.name}: {part.replace('_', ' ')} patched to {direction}, change of {metric}"
    numbers = {"clean": patched.clean, "corrupt": patched.corrupt}
    tokens = _token_names(patched.target, patched.against)
    output.deliver(table, title, **numbers, **tokens)


def faithfulness(
    task: options.TaskChoice,
    checkpoint: options.Checkpoint,
    output: options.TableOutput,
    heads: str | None = None,
    save: options.JsonOut = None,
) -> None:
    """Measure how much of a behaviour some heads carry, alone and when they alone are missing.

    Shares are those on held-out texts: a search chooses heads on the other half of the texts.
    """
    chosen = None if heads is None else options.parse_heads(heads)
    from mha_viz.circuits.effects.faithfulness import faithfulness, find_heads
    from mha_viz.circuits.tasks.accuracy import task_accuracy
    from mha_viz.engine.head_changes import head_place

    loaded = checkpoint.load()
    for head in chosen or ():
        head_place(loaded, *head)
    behaviour = task.make(loaded)
    accuracy = task_accuracy(loaded, behaviour)
    print_notes([accuracy.sentence])
    if chosen is None:
        chosen = list(find_heads(loaded, behaviour, on_progress=progress("search")).heads)
    curve = faithfulness(loaded, behaviour, chosen, progress("test"))
    if save is not None:
        curve.save(save)
        tell(f"wrote {save}")
    if curve.held_out.refusal:
        print_notes([curve.held_out.refusal])
    names = ", ".join(f"L{layer} H{head}" for layer, head in curve.heads)
    numbers = {
        "held_out": len(behaviour.held_out),
        "chosen_on": len(behaviour.to_choose_on),
        "prefers_right": accuracy.share,
        "stand_in": curve.stand_in,
    }
    title = f"{loaded.name}, {behaviour.name}: {names}. {curve.beside_random}"
    output.deliver(curve.table(), title, **numbers)


def edges(
    task: options.TaskChoice,
    checkpoint: options.Checkpoint,
    output: options.TableOutput,
    method: Literal["exact", "eap", "eap-ig"] = "eap-ig",
    metric: Literal["logit_difference", "log_probability", "kl"] = "logit_difference",
    measure: int = 0,
    curve: bool = False,
) -> None:
    """Show the edges from heads and MLPs to their readers that a behaviour depends on most.

    Edges are scored on one half of the texts, and the curve is measured on the other.
    """
    from mha_viz.circuits.effects.edge_circuit import edge_faithfulness
    from mha_viz.circuits.effects.edge_effects import edge_effects

    loaded = checkpoint.load()
    behaviour = task.make(loaded)
    effects = edge_effects(loaded, behaviour, method, metric, progress("edges"))
    if measure:
        effects.measure(measure, progress("exact"))
    counts = f"{effects.n_edges:,} edges by {method}, {effects.n_measured} exact"
    title = f"{loaded.name}, {behaviour.name}: {counts}"
    table, numbers = effects.table(), {}
    if curve:
        measured = edge_faithfulness(effects, on_progress=progress("curve"))
        table, numbers = measured.table(), {"area": measured.area, "distance": measured.distance}
        title += f"; area {measured.area:.3f} on {len(behaviour.held_out)} held-out pairs"
    elif output.to_read:
        table = table.head(options.SHOWN)[["sender", "receiver", "score", "known"]]
    output.deliver(table, title, **numbers)


def report(
    task: options.TaskChoice,
    checkpoint: options.Checkpoint,
    out: Path = Path("report"),
    enough: float = 0.9,
    column: options.Column = "single",
) -> None:
    """Explain a task from heads to edges, test it on held-out pairs, and write one page of it."""
    from mha_viz.paper.circuit_report import circuit_report

    loaded, step = checkpoint.load(), progress("measured")
    page = circuit_report(loaded, task.make(loaded), out, step, enough=enough, column=column)
    tell(f"wrote {page}")


def _parse_receiver(text: str) -> Receiver:
    """Read "2.1.key" as (2, 1, "key"); "logits" as it is."""
    if text == "logits":
        return text
    head, _, name = text.rpartition(".")
    for input_name in ("query", "key", "value"):
        if name == input_name:
            return (*options.parse_head(head, _ONE_END), input_name)
    raise ArgumentError(
        f'--receiver is "logits" or layer.head.input, such as 2.1.key; got {text!r}.'
    )


def _token_names(target: str, against: str) -> dict[str, str]:
    return {k: v for k, v in (("target", target), ("against", against)) if v}
