"""The commands of `mha-viz circuits` that patch and replace: path, paths, faithfulness."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Annotated

import typer

from mha_viz.cli.format import TableFormat
from mha_viz.cli.options import (
    SHOWN,
    Against,
    JsonOut,
    Model,
    Out,
    Position,
    TableAs,
    Target,
    Text,
    deliver_table,
    load,
    parse_head,
    parse_heads,
    print_notes,
    progress,
    read,
)
from mha_viz.errors import ArgumentError

if TYPE_CHECKING:
    from mha_viz.circuits.patching.path_effect import Receiver

_ONE_END = "A path has one head at each end, such as 0.3"
_Corrupt = Annotated[str, typer.Argument(help="A text of as many tokens that asks for another.")]
_Metric = Annotated[str, typer.Option(help="logit_difference, logit, loss or kl.")]


def path(
    clean: Text,
    corrupt: _Corrupt,
    sender: Annotated[str, typer.Option(help="layer.head, as 0.3; counted from 0.")],
    receiver: Annotated[
        str, typer.Option(help="layer.head.input, as 2.1.key (query, key or value), or logits.")
    ] = "logits",
    model: Model = "tiny-gpt2",
    metric: _Metric = "logit_difference",
    target: Target = None,
    against: Against = None,
    position: Position = None,
    file_format: TableAs = TableFormat.table,
    out: Out = None,
) -> None:
    """Measure what changes when one head reads another's output from a corrupted text."""
    given, one, ends = read(clean, corrupt), parse_head(sender, _ONE_END), _receiver(receiver)
    from mha_viz.circuits.patching.path_effect import path_effect, receiver_name

    loaded = load(model)
    found = path_effect(
        *(loaded, given, corrupt, one, ends, metric),
        target=target,
        against=against,
        position=position,
    )
    print_notes(found.notes)
    title = f"{loaded.name}: L{one[0]} H{one[1]} -> {receiver_name(ends)}, change of {metric}"
    tokens = _tokens(found.target, found.against)
    deliver_table(found.table(), file_format, out, title, clean=found.clean, **tokens)


def paths(
    clean: Text,
    corrupt: _Corrupt,
    model: Model = "tiny-gpt2",
    metric: _Metric = "logit_difference",
    way: Annotated[str, typer.Option(help="direct or total.")] = "direct",
    exact: Annotated[bool, typer.Option("--exact", help="Measure every path.")] = False,
    target: Target = None,
    against: Against = None,
    position: Position = None,
    file_format: TableAs = TableFormat.table,
    out: Out = None,
) -> None:
    """Estimate all paths from head to head and measure the strongest; the largest first."""
    given = read(clean, corrupt)
    if metric == "kl" and not exact:
        raise ArgumentError(
            "KL has no estimates, for its slope at the clean run is 0: add --exact."
        )
    from mha_viz.circuits.patching.path_effects import path_effects

    loaded = load(model)
    found = path_effects(
        *(loaded, given, corrupt, metric, way), target=target, against=against, position=position
    )
    if exact:
        found.measure(progress("paths"))
    print_notes(found.notes)
    table = found.table().sort_values("effect", key=abs, ascending=False, kind="stable")
    table = table.dropna(axis="columns", how="all")
    numbers: dict[str, object] = {"clean": found.clean, **_tokens(found.target, found.against)}
    if isfinite(found.recall()):  # all paths are measured: of a part both numbers would mislead
        numbers |= {"rank_correlation": found.agreement, "recall_20": found.recall()}
    if file_format is TableFormat.table:
        table = table.head(SHOWN)
    n_estimated = found.n_paths - found.n_measured
    title = (
        f"{loaded.name}: {way} paths, change of {metric}; {found.n_measured:,} measured, "
        f"{n_estimated:,} estimated"
    )
    deliver_table(table, file_format, out, title, **numbers)


def faithfulness(
    task: Annotated[str, typer.Argument(help="induction, phrase, agreement or closing.")],
    heads: Annotated[
        str | None, typer.Option(help="layer.head, as 3.7,2.1; else a search proposes some.")
    ] = None,
    model: Model = "tiny-gpt2",
    examples: Annotated[
        int, typer.Option(help="How many texts; one half is to choose heads on, one to test them.")
    ] = 32,
    seed: Annotated[int, typer.Option(help="Of the texts.")] = 0,
    save: JsonOut = None,
    file_format: TableAs = TableFormat.table,
    out: Out = None,
) -> None:
    """Measure how much of a behaviour some heads carry, alone and when they alone are missing.

    Shares are those on held-out texts: a search chooses heads on the other half of the texts.
    """
    chosen = None if heads is None else parse_heads(heads)
    from mha_viz.circuits.tasks.faithfulness import faithfulness, find_heads
    from mha_viz.circuits.tasks.tasks import make_task

    loaded = load(model)
    asked = make_task(loaded, task, examples, seed)
    if chosen is None:
        chosen = list(find_heads(loaded, asked, on_progress=progress("search")).heads)
    found = faithfulness(loaded, asked, chosen, progress("test"))
    if save is not None:
        found.save(save)
        typer.echo(f"wrote {save}", err=True)
    if found.held_out.refusal:
        print_notes([found.held_out.refusal])
    names = ", ".join(f"L{layer} H{head}" for layer, head in found.heads)
    numbers = {"held_out": len(asked.held_out), "chosen_on": len(asked.to_choose_on)}
    title = f"{loaded.name}, {task}: {names}. {found.beside_random}"
    deliver_table(found.table(), file_format, out, title, **numbers)


# -- inside ----------------------------------------------------------------------------------------


def _receiver(given: str) -> Receiver:
    """Read "2.1.key" as (2, 1, "key"); "logits" as it is."""
    if given == "logits":
        return given
    place, _, name = given.rpartition(".")
    for known in ("query", "key", "value"):
        if name == known:
            return (*parse_head(place, _ONE_END), known)
    raise ArgumentError(
        f'--receiver is "logits" or layer.head.input, such as 2.1.key; got {given!r}.'
    )


def _tokens(target: str, against: str) -> dict[str, str]:
    return {k: v for k, v in (("target", target), ("against", against)) if v}
