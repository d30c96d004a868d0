"""The payloads of the Heads page: all heads, one head's exact weights, and what follows them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

from mha_viz.core.compare.twins import nearest_others
from mha_viz.core.metrics import METRICS
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.reports.description import clearest, describe_heads
from mha_viz.reports.report import Report
from mha_viz.ui.heads import card
from mha_viz.ui.run import memory, reporting
from mha_viz.ui.run.scene import Facts, Scene, displayed_record
from mha_viz.ui.state import allowed
from mha_viz.ui.state.session import session
from mha_viz.ui.state.views import HeadsView, ManyTexts, Shared
from mha_viz.ui.widgets.exports import downloads
from mha_viz.web.head_details import has_values, has_vectors, scores_payload, shares_payload
from mha_viz.web.payload import (
    MAX_SIDE,
    finite,
    grid_payload,
    head_payload,
    notes_payload,
    pack,
    row_payload,
    unpack,
)

MAX_CELLS = 2**22  # exact weights of one head that travel at once, 16 MiB: all of 2,048 tokens


def grid(scene: Scene, view: HeadsView, urls: downloads.Urls) -> bytes:
    """Pack all heads and metrics; the browser derives other axes, if it has all cells."""
    record = scene.record
    if is_pooled(record):
        record = displayed_record(scene, view)
    axes = view.axes if is_pooled(scene.record) else ()
    url = downloads.exact_url(record, urls)
    make = partial(explored, scene, record, url, with_facts=not scene.is_long)
    return memory.cache().get((scene.key, "grid", axes, url), make, len)


def explored(
    scene: Scene, record: AttentionRecord, url: str | None = None, with_facts: bool = True
) -> bytes:
    """Pack all heads of a record, with the scene's metrics unless they come later."""
    measured = scene.facts if with_facts else {}
    facts = {METRICS[key].title: scores for key, scores in measured.items()}
    return grid_payload(record, facts, exact_url=url)


def part_to_send(
    payload: bytes, record: AttentionRecord, view: HeadsView
) -> tuple[range, range] | None:
    """Return which exact weights of the chosen head the browser needs; None where too many.

    What is shown is widened to full blocks, so that a small step needs nothing new. While the part
    that was sent last holds what is shown, it stays: it does not travel again.
    """
    queries, keys = record.shape[2:]
    everything = range(queries), range(keys)
    if not is_pooled(record):
        return everything
    shown = view.shown(queries, keys)
    head = (unpack(payload)[0]["id"], view.chosen)
    last, part = session().sent_part or (None, everything)
    if last == head and all(shown[i][0] in part[i] and shown[i][-1] in part[i] for i in (0, 1)):
        return part
    rows, columns = (
        axis[span.start // MAX_SIDE * MAX_SIDE : span.stop + -span.stop % MAX_SIDE]
        for axis, span in zip(everything, shown, strict=True)
    )
    fitting = [part for part in ((rows, columns), shown) if math.prod(map(len, part)) <= MAX_CELLS]
    if fitting:
        session().sent_part = head, fitting[0]
    return fitting[0] if fitting else None


def is_pooled(record: AttentionRecord) -> bool:
    """Return whether a cell of the grid stands for several weights."""
    return max(record.shape[2:]) > MAX_SIDE


def exact(payload: bytes, record: AttentionRecord, view: HeadsView) -> Iterator[bytes]:
    """Yield the chosen head's exact weights, and of a long text those of all from a chosen token.

    With them come the weights times values where they are shown, and how the scores arise.
    """
    in_cells, has_row = is_pooled(record), 0 <= view.query < record.shape[2]
    if (part := part_to_send(payload, record, view)) is not None:
        yield head_payload(payload, record, view.chosen, part)
        if view.weighted and has_values(record):
            yield shares_payload(payload, record, view.chosen, part)
    if has_vectors(record) and (has_row or not in_cells):
        yield scores_payload(payload, record, view.chosen, view.query, view.key)
    if in_cells and has_row:
        yield row_payload(payload, record, view.query)


def numbers(scene: Scene, payload: bytes, view: HeadsView, corpus: ManyTexts) -> bytes:
    """Pack every number of the chosen head, and its place among the texts of a study."""
    name, number = unpack(payload)[0]["id"], view.layer * scene.record.n_heads + view.head
    report = reporting.report(scene, view)
    header = {"kind": "numbers", "of": name, "head": number, "id": f"{name} numbers {number}"}
    if reporting.has_random(view):
        header["id"] += " random"
    numbers = card.head_numbers(scene, report, view.chosen, corpus)
    return pack(header | numbers | {"random": not reporting.has_random(view)}, b"")


def metrics(scene: Scene, payload: bytes) -> bytes:
    """Pack the metrics of a long text, which come after its weights."""
    facts = {METRICS[key].title: finite(values) for key, values in scene.facts.items()}
    titles = sort_titles(scene, scene.facts)
    return notes_payload(payload, "facts", {"facts": facts, "titles": titles})


def sort_titles(scene: Scene, measured: Facts) -> dict[str, str]:
    """Return the titles of what heads can be sorted by."""
    probed = set() if scene.record.part == "cross" else {"induction"}
    return {key: metric.title for key, metric in METRICS.items() if key in {*measured, *probed}}


def labels(scene: Scene, payload: bytes, view: Shared) -> bytes:
    """Pack the labels, which take longer than the weights."""
    report = reporting.report(scene, view)
    heads = [head for layer in report.labels for head in layer]
    notes = {
        "labels": [[earned.label.title for earned in head] for head in heads],
        "kinds": [[earned.label.key for earned in head] for head in heads],
        "badges": [head[0].label.badge if head else "" for head in heads],
        "sentence": str(describe_heads(scene.record, report=report)),
        "finding": _finding(scene, report),
        "hint": allowed.example_hint(scene.model, scene.text, scene.pair or ""),
    }
    return notes_payload(payload, "notes", notes)


def _finding(scene: Scene, report: Report) -> dict[str, Any]:
    """Return the clearest finding on this text; `head` is layer * n_heads + head."""
    finding = clearest(report)
    number = (
        None if finding.head is None else finding.head[0] * scene.record.n_heads + finding.head[1]
    )
    return finding._asdict() | {"head": number}


def nearest(scene: Scene, payload: bytes) -> bytes:
    """Pack each head's nearest other one, its Hellinger distance, and whether it beats chance.

    Chance takes more time than all labels, so this comes last.
    """
    twins, apart = nearest_others(reporting.likeness(scene, "hellinger"))
    chance = reporting.chance(scene, "hellinger")
    beyond = chance.twins.tolist() if chance.band else [None] * len(twins)
    nearest_heads = list(zip(twins.tolist(), finite(apart), beyond, strict=True))
    return notes_payload(payload, "twins", {"twins": nearest_heads})
