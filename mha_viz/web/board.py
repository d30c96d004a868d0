"""The payload of a board: several heads on one axis of tokens, so that equal tokens share a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mha_viz.core.compare.alignment import align_all, aligned
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.core.record.visible import visible_keys
from mha_viz.web.labels import clean
from mha_viz.web.payload import encode, pack

MAX_PLACES = 512  # of an axis; a longer one is pooled
Places = list[int | None]  # a text's token at each place of an axis


class BoardHead(NamedTuple):
    """A head on a board: its name, source and text; without a record, the reason why."""

    name: str
    source: str
    text: str
    record: AttentionRecord | None
    head: tuple[int, int] = (0, 0)
    problem: str = ""
    note: str = ""


class BoardAxes(NamedTuple):
    """Each drawn head's tokens at the places of both axes of a board."""

    queries: list[Places]
    keys: list[Places]

    @classmethod
    def of(cls, heads: Sequence[BoardHead]) -> BoardAxes:
        """Align the tokens of all heads; of several models, in spite of upper case."""
        records = [head.record for head in heads if head.record is not None]
        ignore_case = len({record.model for record in records}) > 1
        axes = [record.labels for record in records], [record.key_labels for record in records]
        queries, keys = (align_all(axis, ignore_case=ignore_case) if axis else [] for axis in axes)
        return cls(queries, keys)

    def weights(self, heads: Sequence[BoardHead]) -> list[NDArray[np.floating]]:
        """Return the weights of the drawn heads on these axes; NaN where a text has no token."""
        drawn = [(head.record, head.head) for head in heads if head.record is not None]
        return [
            aligned(record.head(*head), *axes)
            for (record, head), axes in zip(drawn, zip(*self, strict=True), strict=True)
        ]


def board_payload(heads: Sequence[BoardHead], axes: BoardAxes) -> bytes:
    """Pack heads on common axes: a header with a panel for each head, and one byte per cell.

    Codes are those of `grid_payload`: 1 to 255 for a weight, 0 for a key that the query cannot see
    and for a place that the text of that head does not have; the panel's labels are "" there. An
    axis of more than `MAX_PLACES` is pooled by maximum; the header's `pool` says so.
    """
    panels: list[dict[str, Any]] = []
    body: list[bytes] = []
    pool = max(1, *(-(-len(axis[0]) // MAX_PLACES) for axis in axes if axis))
    sides = iter(zip(axes.queries, axes.keys, strict=True))
    for head in heads:
        panel: dict[str, Any] = {
            name: clean(getattr(head, name) or " ", 400) for name in ("name", "source", "text")
        }
        panel |= {"note": head.note, "problem": head.problem}
        if head.record is not None:
            axis_positions = next(sides)
            codes = _pooled(_codes(head, *axis_positions), pool)
            panel |= {"rows": codes.shape[0], "cols": codes.shape[1]}
            panel |= _labels(head.record, *axis_positions, pool)
            has_token = (
                [bool(label) for label in panel[f"{axis}_labels"]] for axis in ("query", "key")
            )
            panel["masked"] = bool((codes[np.ix_(*has_token)] == 0).any())
            body.append(codes.tobytes())
        panels.append(panel)
    return pack({"kind": "board", "panels": panels, "pool": pool}, b"".join(body))


def verdict_payload(
    payload_id: str, verdict: str, labels: Sequence[str], marked: Sequence[Sequence[Sequence[int]]]
) -> bytes:
    """Pack what takes longer: a sentence, each panel's labels and its framed cells."""
    header = {"kind": "notes", "id": f"{payload_id} notes", "verdict": verdict}
    return pack(header | {"labels": list(labels), "marked": marked}, b"")


def _codes(head: BoardHead, queries: Places, keys: Places) -> NDArray[np.uint8]:
    """Return a head's codes on the axes; 0 marks what cannot be seen."""
    assert head.record is not None
    weights = aligned(head.record.head(*head.head), queries, keys)
    visible = aligned(visible_keys(head.record, head.head[0]).float(), queries, keys) == 1
    codes = np.maximum(encode(np.nan_to_num(weights).astype(np.float32)), 1)
    return np.where(visible, codes, 0).astype(np.uint8)


def _pooled(codes: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    if side == 1:
        return codes
    rows, columns = (-(-n // side) for n in codes.shape)
    padded = np.zeros((rows * side, columns * side), np.uint8)
    padded[: codes.shape[0], : codes.shape[1]] = codes
    return padded.reshape(rows, side, columns, side).max(axis=(1, 3))


def _labels(record: AttentionRecord, queries: Places, keys: Places, side: int) -> dict[str, Any]:
    """Return the label and the flag of each place of both axes; "" where the text has no token."""
    labels: dict[str, Any] = {}
    axes = ("query", queries, record.tokens), ("key", keys, record.key_tokens)
    for axis, positions, tokens in axes:
        cells = [
            [
                tokens[position]
                for position in positions[start : start + side]
                if position is not None
            ]
            for start in range(0, len(positions), side)
        ]
        ends = [
            dict.fromkeys((clean(cell[0].text), clean(cell[-1].text))) if cell else ()
            for cell in cells
        ]
        labels[f"{axis}_labels"] = [" … ".join(names) for names in ends]
        labels[f"{axis}_special"] = [int(all(t.is_special for t in cell)) for cell in cells]
    return labels
