"""The commands of `mha-viz circuits` that patch and replace."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mha_viz.cli import options
from mha_viz.cli.format import TableFormat
from mha_viz.errors import ArgumentError

if TYPE_CHECKING:
    from mha_viz.circuits.patching.path_effect import Receiver

_ONE_END = "A path has one head at each end, such as 0.3"
_Corrupt = Annotated[str, typer.Argument(help="Text of as many tokens with another answer.")]
_Metric = Annotated[
    Literal["logit_difference", "logit", "loss", "kl"], typer.Option(help="Behaviour to measure.")
]
_Task = Annotated[str | None, typer.Argument(help="induction, phrase, agreement, closing or ioi.")]
_Pairs = Annotated[
    Path | None,
    typer.Option(help="CSV or TSV with columns clean, corrupt, answer, wrong, as the task."),
]
_Template = Annotated[
    str | None,
    typer.Option(help='"clean | corrupt | answer | wrong" with {slots}, as the task.'),
]
_Examples = Annotated[
    int | None,
    typer.Option(
        help="How many texts, half of them to choose heads on and half to test them; 32 are "
        "drawn, and of --pairs all are read, if not given."
    ),
]
_Seed = Annotated[int, typer.Option(help="Seed of the random texts.")]


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
    way: Annotated[Literal["direct", "total"], typer.Option(help="Kind of effect.")] = "direct",
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
        Literal["residual", "attention", "mlp", "heads", "heads_by_position"],
        typer.Option(help="Activation to patch."),
    ] = "residual",
    direction: Annotated[
        Literal["denoise", "noise"],
        typer.Option(help="denoise: clean into corrupted; noise: corrupted into clean."),
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
    task: _Task = None,
    heads: Annotated[
        str | None, typer.Option(help="layer.head, as 3.7,2.1; else a search proposes some.")
    ] = None,
    model: options.Model = "tiny-gpt2",
    device: options.Device = "auto",
    dtype: options.Precision = "float32",
    pairs: _Pairs = None,
    template: _Template = None,
    examples: _Examples = None,
    seed: _Seed = 0,
    save: options.JsonOut = None,
    file_format: options.TableAs = TableFormat.table,
    out: options.Out = None,
) -> None:
    """Measure how much of a behaviour some heads carry, alone and when they alone are missing.

    Shares are those on held-out texts: a search chooses heads on the other half of the texts.
    """
    chosen = None if heads is None else options.parse_heads(heads)
    source = _source(task, pairs, template)
    from mha_viz.circuits.tasks.faithfulness import faithfulness, find_heads
    from mha_viz.circuits.tasks.task_runs import task_accuracy
    from mha_viz.circuits.tasks.tasks import make_task
    from mha_viz.engine.head_changes import check_head

    loaded = options.load(model, device, dtype)
    for head in chosen or ():
        check_head(loaded, *head)
    behaviour = make_task(loaded, source, examples, seed)
    accuracy = task_accuracy(loaded, behaviour)
    options.print_notes([*behaviour.left_out, accuracy.sentence])
    if chosen is None:
        chosen = list(find_heads(loaded, behaviour, on_progress=options.progress("search")).heads)
    found = faithfulness(loaded, behaviour, chosen, options.progress("test"))
    if save is not None:
        found.save(save)
        typer.echo(f"wrote {save}", err=True)
    if found.held_out.refusal:
        options.print_notes([found.held_out.refusal])
    names = ", ".join(f"L{layer} H{head}" for layer, head in found.heads)
    numbers = {
        "held_out": len(behaviour.held_out),
        "chosen_on": len(behaviour.to_choose_on),
        "prefers_right": accuracy.share,
        "stand_in": found.stand_in,
    }
    title = f"{loaded.name}, {behaviour.name}: {names}. {found.beside_random}"
    options.deliver_table(found.table(), file_format, out, title, **numbers)


def edges(
    task: _Task = None,
    model: options.Model = "tiny-gpt2",
    device: options.Device = "auto",
    dtype: options.Precision = "float32",
    method: Annotated[
        Literal["exact", "eap", "eap-ig"], typer.Option(help="How to score.")
    ] = "eap-ig",
    metric: Annotated[
        Literal["logit_difference", "log_probability", "kl"],
        typer.Option(help="Behaviour to measure."),
    ] = "logit_difference",
    measure: Annotated[int, typer.Option(help="Number of strongest edges to measure exactly.")] = 0,
    curve: Annotated[
        bool, typer.Option("--curve", help="Show faithfulness against size, not the edges.")
    ] = False,
    pairs: _Pairs = None,
    template: _Template = None,
    examples: _Examples = None,
    seed: _Seed = 0,
    file_format: options.TableAs = TableFormat.table,
    out: options.Out = None,
) -> None:
    """Show the edges from heads and MLPs to their readers that a behaviour depends on most.

    Edges are scored on one half of the texts, and the curve is measured on the other.
    """
    source = _source(task, pairs, template)
    from mha_viz.circuits.edges.edge_circuit import edge_faithfulness
    from mha_viz.circuits.edges.edge_effects import edge_effects
    from mha_viz.circuits.tasks.tasks import make_task

    loaded = options.load(model, device, dtype)
    behaviour = make_task(loaded, source, examples, seed)
    options.print_notes(behaviour.left_out)
    found = edge_effects(loaded, behaviour, method, metric, options.progress("edges"))
    if measure:
        found.measure(measure, options.progress("exact"))
    counts = f"{found.n_edges:,} edges by {method}, {found.n_measured} exact"
    title = f"{loaded.name}, {behaviour.name}: {counts}"
    table, numbers = found.table(), {}
    if curve:
        made = edge_faithfulness(found, on_progress=options.progress("curve"))
        table, numbers = made.table(), {"area": made.area, "distance": made.distance}
        title += f"; area {made.area:.3f} on {len(behaviour.held_out)} held-out pairs"
    elif file_format is TableFormat.table:
        table = table.head(options.SHOWN)[["sender", "receiver", "score", "known"]]
    options.deliver_table(table, file_format, out, title, **numbers)


def report(
    task: _Task = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of the report.")] = Path(
        "report"
    ),
    model: options.Model = "tiny-gpt2",
    device: options.Device = "auto",
    dtype: options.Precision = "float32",
    pairs: _Pairs = None,
    template: _Template = None,
    examples: _Examples = None,
    seed: _Seed = 0,
    enough: Annotated[float, typer.Option(help="Share of the behaviour to carry.")] = 0.9,
    column: options.Column = "single",
) -> None:
    """Explain a task from heads to edges, test it on held-out pairs, and write one page of it."""
    source = _source(task, pairs, template)
    from mha_viz.circuits.tasks.tasks import make_task
    from mha_viz.paper.circuit_report import circuit_report

    loaded = options.load(model, device, dtype)
    behaviour = make_task(loaded, source, examples, seed)
    options.print_notes(behaviour.left_out)
    step = options.progress("measured")
    page = circuit_report(loaded, behaviour, out, step, enough=enough, column=column)
    typer.echo(f"wrote {page}", err=True)


def _source(task: str | None, pairs: Path | None, template: str | None) -> str | Path:
    """Return the one of them that is given."""
    given = [one for one in (task, pairs, template) if one is not None]
    if len(given) != 1:
        raise ArgumentError("Give one task: its name, or --pairs FILE, or --template TEXT.")
    if pairs is not None and not pairs.is_file():
        raise ArgumentError(f"There is no file {pairs}: --pairs expects a CSV or TSV file.")
    return given[0]


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
