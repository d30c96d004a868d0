"""Heads are pinned in Heads and Compare; the board shows, orders, notes and exports them."""

import base64
from typing import Any

import numpy as np
from streamlit.testing.v1 import AppTest

import mha_viz as mv
from mha_viz.ui.state.link_values import MAX_PINS, Pin, written
from mha_viz.ui.widgets.messages.messages import plain
from tests.making.comparing import close
from tests.ui.compare_app import HOSTILE, OTHER, TEXT, check, compare, figures, said
from tests.ui.heads_app import choose, heads_page

A = Pin("tiny-bert", TEXT, "", "self", 1, 2, "first")
B = Pin("tiny-gpt2", OTHER, "", "self", 0, 3)
C = Pin("tiny-bert", OTHER, "", "self", 3, 5)


def pinned(app: AppTest) -> list[Pin]:
    return list(app.session_state.view.pins)


def shown(app: AppTest) -> list[str]:
    return [header.value for header in app.header]


def open_board(*pins: Pin, **params: str) -> AppTest:
    return compare(model="tiny-bert", text=TEXT, section="pins", pins=written(pins), **params)


def draws(figure: dict[str, Any], record: mv.AttentionRecord, layer: int, head: int) -> None:
    """Assert that a figure draws a head's weights."""
    drawn = next(trace for trace in figure["data"] if trace["type"] == "heatmap")
    weights = record.head(layer, head).numpy()
    cells = np.frombuffer(base64.b64decode(drawn["z"]["bdata"]), drawn["z"]["dtype"])
    visible = np.tri(len(weights), dtype=bool) | (not record.causal)
    close(cells.reshape(weights.shape), np.where(visible, weights, np.nan))


def labels_of(pin: Pin) -> str:
    """Return the titles of a head's labels as the library's report has them."""
    model = mv.load(pin.model)
    report = mv.head_report(model.trace(pin.text), model).set_index(["layer", "head"])
    return str(report.labels[pin.layer, pin.head])


def test_a_head_is_pinned_in_explore_once_and_unpinned() -> None:
    app = heads_page(model="tiny-bert", text=TEXT, layer="1", head="2")
    app.button(key="pin").click().run()
    assert pinned(app) == [A._replace(note="")]
    assert "(1)" in app.button(key="open_in_compare").label
    choose(app, layer=3, head=5)
    app.button(key="pin").click().run()
    assert [pin[-3:-1] for pin in pinned(app)] == [(1, 2), (3, 5)]
    choose(app, layer=1, head=2)
    app.button(key="pin").click().run()
    assert [pin[-3:-1] for pin in pinned(app)] == [(3, 5)]
    nine = tuple(A._replace(text="cat " * (i + 1)) for i in range(MAX_PINS))
    app = heads_page(model="tiny-bert", text=TEXT, layer="1", head="2", pins=written(nine))
    assert not [button for button in app.button if button.key == "pin"]  # a tenth is refused


def test_cards_show_two_models_and_two_sentences_with_the_numbers_of_their_runs() -> None:
    app = open_board(A, B, C)
    text = check(app)
    assert shown(app)[-3:] == ["L1 H2", "L0 H3", "L3 H5"] and not app.info
    for figure, pin in zip(figures(app), (A, B, C), strict=True):
        draws(figure, mv.load(pin.model).trace(pin.text), pin.layer, pin.head)
        assert plain(f"{pin.model} · “{pin.text}”") in text
    expected = [labels for pin in (A, B, C) if (labels := labels_of(pin))]
    captions = [part.value.partition(":material/label:") for part in app.caption]
    assert [labels.strip() for _, icon, labels in captions if icon] == expected


def test_what_cannot_be_shown_has_a_card_that_says_why_and_the_others_stay() -> None:
    gone = A._replace(model="nobody/nothing", text=HOSTILE, note="")
    app = open_board(gone, B, A._replace(layer=99))
    assert not app.exception
    errors = [error.value.replace("\\", "") for error in app.error]
    assert len(errors) == 2 and "nobody/nothing" in errors[0] and "L99 H2" in errors[1]
    assert len(figures(app)) == 1 and "<script>" not in said(app).replace("\\<script\\>", "")
    app.button(key="pin-close-0").click().run()
    assert len(app.error) == 1
    folder = B._replace(model="/etc/passwd (random weights)")
    assert pinned(open_board(folder, B)) == [B]  # no link names a copy of a folder
