"""The commands of `mha-viz circuits` that patch: path, paths, faithfulness, edges."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mha_viz.cli import options
from mha_viz.cli.format import TableFormat
from mha_viz.errors import ArgumentError

if TYPE_CHECKING:
    from mha_viz.circuits.patching.path_effect import Receiver

_ONE_END = "A path has one head at each end, such as 0.3"
_Corrupt = Annotated[str, typer.Argument(help="A text of as many tokens that asks for another.")]
_Metric = Annotated[str, typer.Option(help="logit_difference, logit, loss or kl.")]


def path(
    clean: options.Text,
    corrupt: _Corrupt,
    sender: Annotated[str, typer.Option(help="layer.head, as 0.3; counted from 0.")],
    receiver: Annotated[
        str, typer.Option(help="layer.head.input, as 2.1.key (query, key or value), or logits.")
    ] = "logits",
    model: options.Model = "tiny-gpt2",
    device: options.Device = "auto",
    dtype: options.Precision = "float32",
    metric: _Metric = "logit_difference",
    target: options.Target = None,
    against: options.Against = None,
    position: options.Position = None,
    file_format: options.TableAs = TableFormat.table,
    out: options.Out = None,
) -> None:
    """Measure what changes when one head reads another's output from a corrupted text."""
    given, ends = options.read(clean, corrupt), _parse_receiver(receiver)
    start = options.parse_head(sender, _ONE_END)
    from mha_viz.circuits.patching.path_effect import path_effect, receiver_name

    loaded = options.load(model, device, dtype)
    tracked: dict[str, Any] = dict(target=target, against=against, position=position)
    found = path_effect(loaded, given, corrupt, start, ends, metric, **tracked)
    options.print_notes(found.notes)
    title = f"{loaded.name}: L{start[0]} H{start[1]} -> {receiver_name(ends)}, change of {metric}"
    tokens = _token_names(found.target, found.against)
    options.deliver_table(found.table(), file_format, out, title, clean=found.clean, **tokens)


def paths(
    clean: options.Text,
    corrupt: _Corrupt,
    model: options.Model = "tiny-gpt2",
    device: options.Device = "auto",
    dtype: options.Precision = "float32",
    metric: _Metric = "logit_difference",
    way: Annotated[str, typer.Option(help="direct or total.")] = "direct",
    exact: Annotated[bool, typer.Option("--exact", help="Measure every path.")] = False,
    target: options.Target = None,
    against: options.Against = None,
    position: options.Position = None,
    file_format: options.TableAs = TableFormat.table,
    out: options.Out = None,
) -> None:
    """Estimate all paths from head to head and measure the strongest; the largest first."""
    given = options.read(clean, corrupt)
    if metric == "kl" and not exact:
        refusal = "KL has no estimates, for its slope at the clean run is 0: add --exact."
        raise ArgumentError(refusal)
    from mha_viz.circuits.patching.path_effects import path_effects

    loaded = options.load(model, device, dtype)
    tracked: dict[str, Any] = dict(target=target, against=against, position=position)
    found = path_effects(loaded, given, corrupt, metric, way, **tracked)
    if exact:
        found.measure(options.progress("paths"))
    options.print_notes(found.notes)
    table = found.table().sort_values("effect", key=abs, ascending=False, kind="stable")
    table = table.dropna(axis="columns", how="all")
    numbers: dict[str, object] = {"clean": found.clean, **_token_names(found.target, found.against)}
    if isfinite(found.recall()):  # all paths are measured: of a part both numbers would mislead
        numbers |= {"rank_correlation": found.agreement, "recall_20": found.recall()}
    if file_format is TableFormat.table:
        table = table.head(options.SHOWN)
    n_estimated = found.n_paths - found.n_measured
    title = (
        f"{loaded.name}: {way} paths, change of {metric}; {found.n_measured:,} measured, "
        f"{n_estimated:,} estimated"
    )
    options.deliver_table(table, file_format, out, title, **numbers)


_Task = Annotated[str, typer.Argument(help="induction, phrase, agreement or closing.")]
_Seed = Annotated[int, typer.Option(help="Of the texts.")]


def faithfulness(
    task: _Task,
    heads: Annotated[
        str | None, typer.Option(help="layer.head, as 3.7,2.1; else a search proposes some.")
    ] = None,
    model: options.Model = "tiny-gpt2",
    device: options.Device = "auto",
    dtype: options.Precision = "float32",
    examples: Annotated[
        int, typer.Option(help="How many texts; one half is to choose heads on, one to test them.")
    ] = 32,
    seed: _Seed = 0,
    save: options.JsonOut = None,
    file_format: options.TableAs = TableFormat.table,
    out: options.Out = None,
) -> None:
    """Measure how much of a behaviour some heads carry, alone and when they alone are missing.

    Shares are those on held-out texts: a search chooses heads on the other half of the texts.
    """
    chosen = None if heads is None else options.parse_heads(heads)
    from mha_viz.circuits.tasks.faithfulness import faithfulness, find_heads
    from mha_viz.circuits.tasks.tasks import make_task

    loaded = options.load(model, device, dtype)
    behaviour = make_task(loaded, task, examples, seed)
    if chosen is None:
        chosen = list(find_heads(loaded, behaviour, on_progress=options.progress("search")).heads)
    found = faithfulness(loaded, behaviour, chosen, options.progress("test"))
    if save is not None:
        found.save(save)
        typer.echo(f"wrote {save}", err=True)
    if found.held_out.refusal:
        options.print_notes([found.held_out.refusal])
    names = ", ".join(f"L{layer} H{head}" for layer, head in found.heads)
    numbers = {"held_out": len(behaviour.held_out), "chosen_on": len(behaviour.to_choose_on)}
    title = f"{loaded.name}, {task}: {names}. {found.beside_random}"
    options.deliver_table(found.table(), file_format, out, title, **numbers)


def edges(
    task: _Task,
    model: options.Model = "tiny-gpt2",
    device: options.Device = "auto",
    dtype: options.Precision = "float32",
    method: Annotated[str, typer.Option(help="exact, eap or eap-ig.")] = "eap-ig",
    metric: Annotated[
        str, typer.Option(help="logit_difference, log_probability or kl.")
    ] = "logit_difference",
    measure: Annotated[int, typer.Option(help="How many of the strongest to measure.")] = 0,
    curve: Annotated[
        bool, typer.Option("--curve", help="Faithfulness against size in place of the edges.")
    ] = False,
    examples: Annotated[
        int, typer.Option(help="How many pairs; one half is scored, one tests the circuits.")
    ] = 32,
    seed: _Seed = 0,
    file_format: options.TableAs = TableFormat.table,
    out: options.Out = None,
) -> None:
    """Show the edges from heads and MLPs to their readers that a behaviour depends on most."""
    from mha_viz.circuits.edges.edge_circuit import edge_faithfulness
    from mha_viz.circuits.edges.edge_effects import edge_effects
    from mha_viz.circuits.tasks.tasks import make_task

    loaded = options.load(model, device, dtype)
    behaviour = make_task(loaded, task, examples, seed)
    found = edge_effects(loaded, behaviour, method, metric, options.progress("edges"))
    if measure:
        found.measure(measure, options.progress("exact"))
    title = f"{loaded.name}, {task}: {found.n_edges:,} edges by {method}, {found.n_measured} exact"
    table, numbers = found.table(), {}
    if curve:
        made = edge_faithfulness(found, on_progress=options.progress("curve"))
        table, numbers = made.table(), {"area": made.area, "distance": made.distance}
        title += f"; area {made.area:.3f} on {len(behaviour.held_out)} held-out pairs"
    elif file_format is TableFormat.table:
        table = table.head(options.SHOWN)[["sender", "receiver", "score", "known"]]
    options.deliver_table(table, file_format, out, title, **numbers)


def _parse_receiver(given: str) -> Receiver:
    """Read "2.1.key" as (2, 1, "key"); "logits" as it is."""
    if given == "logits":
        return given
    head, _, name = given.rpartition(".")
    for known in ("query", "key", "value"):
        if name == known:
            return (*options.parse_head(head, _ONE_END), known)
    raise ArgumentError(
        f'--receiver is "logits" or layer.head.input, such as 2.1.key; got {given!r}.'
    )


def _token_names(target: str, against: str) -> dict[str, str]:
    return {k: v for k, v in (("target", target), ("against", against)) if v}
