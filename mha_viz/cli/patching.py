"""The commands of `mha-viz circuits` that patch and replace: path, paths, patch, faithfulness."""

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


def patch(
    clean: options.Text,
    corrupt: _Corrupt,
    model: options.Model = "tiny-gpt2",
    device: options.Device = "auto",
    dtype: options.Precision = "float32",
    metric: _Metric = "logit_difference",
    part: Annotated[
        str, typer.Option(help="residual, attention, mlp, heads or heads_by_position.")
    ] = "residual",
    direction: Annotated[
        str, typer.Option(help="denoise (clean into corrupted) or noise (corrupted into clean).")
    ] = "denoise",
    target: options.Target = None,
    against: options.Against = None,
    position: options.Position = None,
    file_format: options.TableAs = TableFormat.table,
    out: options.Out = None,
) -> None:
    """Measure where a behaviour is carried: each layer's part patched at each position."""
    given = options.read(clean, corrupt)
    from mha_viz.circuits.patching.patching_map import patching_map

    loaded = options.load(model, device, dtype)
    tracked: dict[str, Any] = dict(target=target, against=against, position=position)
    tracked["on_progress"] = options.progress("runs")
    found = patching_map(loaded, given, corrupt, metric, part, direction, **tracked)
    options.print_notes([*found.notes, *([found.refusal] if found.refusal else [])])
    table = found.table()
    if file_format is TableFormat.table:
        strongest = table.sort_values("effect", key=abs, ascending=False, kind="stable")
        table = strongest.head(options.SHOWN)
    title = f"{loaded.name}: {part.replace('_', ' ')} patched to {direction}, change of {metric}"
    numbers = {"clean": found.clean, "corrupt": found.corrupt}
    tokens = _token_names(found.target, found.against)
    options.deliver_table(table, file_format, out, title, **numbers, **tokens)


def faithfulness(
    task: Annotated[str, typer.Argument(help="induction, phrase, agreement or closing.")],
    heads: Annotated[
        str | None, typer.Option(help="layer.head, as 3.7,2.1; else a search proposes some.")
    ] = None,
    model: options.Model = "tiny-gpt2",
    device: options.Device = "auto",
    dtype: options.Precision = "float32",
    examples: Annotated[
        int, typer.Option(help="How many texts; one half is to choose heads on, one to test them.")
    ] = 32,
    seed: Annotated[int, typer.Option(help="Of the texts.")] = 0,
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
