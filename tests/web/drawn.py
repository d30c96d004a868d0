"""Payloads and settings of the components that draw, for the tests of these in node."""

import base64

import numpy as np

from mha_viz.circuits.attribution.pins import Pin
from mha_viz.core.metrics import LABELS
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.plots.pictures import MatrixLook, number_matrix
from mha_viz.ui.state.views import BENCH, DEFAULT, SCALES, SHOWS
from mha_viz.ui.widgets.components.flow_graph import graph_payload, prediction_payload
from mha_viz.web import theme
from mha_viz.web.board import BoardAxes, BoardHead, board_payload, verdict_payload
from mha_viz.web.browser import script
from mha_viz.web.payload import grid_payload, head_payload, notes_payload, unpack
from tests.browser.demo_components import attention, entropy_of
from tests.making.flow_graphs import made_up as flow
from tests.making.flow_graphs import made_up_prediction

DRAWING = (
    *("board", "decile_texts", "figure_download", "flow_graph", "head_grid", "number_table"),
    *("player", "sentence_arcs", "workbench", "written_text"),
)


def text_of(data: bytes) -> str:
    """Return bytes as a text that JSON can hold; `bytesIn` in python.js reads it."""
    return base64.b64encode(data).decode()


def written() -> dict[str, object]:
    """Return all of them in a form that JSON can hold."""
    small = attention(2, 3, 5, 7)
    return {
        "scripts": {name: script(name) for name in DRAWING},
        "heads": _heads(attention(3, 5, 11, 11)),
        "bench": _bench(attention(3, 5, 11, 11)),
        "many": _heads(attention(4, 5, 3, 3)),
        "measured_late": _measured_late(attention(4, 5, 7, 7)),
        "pooled": _heads(attention(2, 3, 131, 131)),
        "small": _heads(small) | {"colours": [_colours(small, dark) for dark in (False, True)]},
        "numbers": _numbers(3, 5),
        "board": _board(),
        "graph": text_of(graph_payload(flow())),
        "prediction": text_of(prediction_payload(made_up_prediction(), [Pin.of("L1 H2 @4")])),
        "hostile_graph": text_of(graph_payload(flow(layers=3, n=29, hostile=True))),
    }


def _board() -> dict[str, object]:
    """Return a board of two heads, the second on a shorter text."""
    whole, part = attention(2, 3, 7, 7), attention(2, 3, 5, 5)
    heads = [
        BoardHead(name, "a model", "a text", made, (1, 2))
        for name, made in (("A L1 H2", whole), ("B L1 H2", part))
    ]
    payload = board_payload(heads, BoardAxes.of(heads))
    notes = verdict_payload(
        unpack(payload)[0]["id"], "They differ.", ["first", "none"], [[[1, 2]]] * 2
    )
    tokens = [list(made.labels) for made in (whole, part)]
    return {"payload": text_of(payload), "notes": text_of(notes), "labels": tokens}


def _heads(made: AttentionRecord) -> dict[str, object]:
    """Return a payload, and what lies at the address of its exact weights."""
    pattern = made.pattern.numpy()
    entropy = entropy_of(pattern)
    return {
        "grid": text_of(grid_payload(made, {"entropy": entropy}, exact_url="/exact")),
        "exact": text_of(pattern.astype("<f4").tobytes()),
        "entropy": entropy.ravel().tolist(),
    }


def _measured_late(made: AttentionRecord) -> dict[str, object]:
    """Return a payload without metrics, and the metrics that follow."""
    payload, entropy = grid_payload(made), entropy_of(made.pattern.numpy()).ravel().tolist()
    facts = {"facts": {"Entropy": entropy}, "titles": {"entropy": "Entropy"}}
    return {
        "grid": text_of(payload),
        "facts": text_of(notes_payload(payload, "facts", facts)),
        "entropy": entropy,
    }


def _bench(made: AttentionRecord) -> dict[str, object]:
    """Return what the workbench gets beside its payload: settings, exact weights, notes."""
    payload = grid_payload(made, {"entropy": entropy_of(made.pattern.numpy())}, exact_url="/exact")
    labels = [[] for _ in range(made.n_layers * made.n_heads)]
    for head, *earned in ((2, "first_token"), (7, "previous_token", "local"), (11, "first_token")):
        labels[head] = [LABELS[key] for key in earned]
    notes = {
        "labels": [[label.title for label in earned] for earned in labels],
        "kinds": [[label.key for label in earned] for earned in labels],
        "badges": [earned[0].badge if earned else "" for earned in labels],
    }
    twins = [[(head + 4) % len(labels), 0.25, head % 5 != 3] for head in range(len(labels))]
    twins[0] = [-1, None, False]
    heads = np.ndindex(made.n_layers, made.n_heads)
    return {
        "settings": {
            "view": {name: getattr(DEFAULT, name) for name in BENCH} | {"layer": 1, "head": 2},
            "titles": {"entropy": "entropy"},
            "kinds": {key: label.title for key, label in LABELS.items()},
            "shows": SHOWS,
            "scales": SCALES,
            "fact": None,
            "later": True,
            "made": False,
        },
        "exact": [text_of(head_payload(payload, made, head)) for head in heads],
        "notes": text_of(notes_payload(payload, "notes", notes)),
        "twins": text_of(notes_payload(payload, "twins", {"twins": twins})),
    }


def _colours(made: AttentionRecord, dark: bool) -> list[tuple[int, int, int]]:
    """Return the colour of each weight on the scale of square roots."""
    places = np.sqrt(made.pattern.numpy().ravel()).tolist()
    return [theme.rgb(theme.mix(theme.sequential(dark), place)) for place in places]


def _numbers(rows: int, columns: int) -> dict[str, object]:
    """Return two matrices of one shape, the colours of the first, and one of very small cells."""
    dice = np.random.default_rng(11)
    pair = dice.dirichlet(np.ones(columns), (2, rows))
    names = {"rows": ["The", "<b>cat</b>", "$x$"], "columns": [f"k{i}" for i in range(columns)]}
    look = {"shape": "3 × 5", "diverging": False, "limits": (0.0, 1.0)}
    note = {"marked": [(1, 2)], "note": "of {row} to {column}"}
    small = np.tril(dice.dirichlet(np.ones(13), 13))
    small[0, 0], small[2, 7] = 1.0, np.nan
    tokens = [f"t{i}" for i in range(13)]
    large = MatrixLook(**names, **look, **note)
    tight = MatrixLook(rows=tokens, columns=tokens, cell=9, **look, marked=[(2, 3)])
    return {
        "tables": [vars(number_matrix(one, "softmax", large)) for one in pair],
        "colours": [
            [theme.rgb(theme.mix(theme.sequential(dark), v)) for v in pair[0].ravel().tolist()]
            for dark in (False, True)
        ],
        "small": vars(number_matrix(small, "weights", tight)),
    }
