"""The board: heads of several sentences and models, what adds and moves them, and its files."""

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import mha_viz as mv
from mha_viz.core.compare.alignment import align, equal_places, pattern_change
from mha_viz.plots.board import board_image
from mha_viz.ui.compare import panels
from mha_viz.ui.state.link_values import MAX_PINS, UNTRAINED, Pin, written
from mha_viz.ui.widgets.components.board import Edit
from mha_viz.web.board import BoardAxes, BoardHead
from tests.ui.compare_app import (
    HOSTILE,
    NAMES,
    OTHER,
    TEXT,
    board,
    board_names,
    board_notes,
    check,
    compare,
    said,
    table,
)
from tests.ui.heads_app import choose, heads_page

A = Pin("tiny-bert", TEXT, "", "self", 1, 2, "first")
B = Pin("tiny-gpt2", OTHER, "", "self", 0, 3)
C = Pin("tiny-bert", OTHER, "", "self", 3, 5)
CODE = 1 / 255  # the step of a code, of the square root


def pinned(app: AppTest) -> list[Pin]:
    return list(app.session_state.view.pins)


def open_board(*pins: Pin, **params: str) -> AppTest:
    return compare(model="tiny-bert", text=TEXT, section="pins", pins=written(pins), **params)


def record_of(pin: Pin) -> mv.AttentionRecord:
    return mv.load(pin.model).trace(pin.text)


def draws(shown: np.ndarray, pin: Pin) -> None:
    """Assert that a panel draws a head's weights, with nothing at places of other texts."""
    record = record_of(pin)
    weights = record.head(pin.layer, pin.head).numpy()
    seen = np.tri(len(weights), dtype=bool) | (not record.causal)
    values = shown[np.isfinite(shown)]
    assert len(values) == seen.sum()
    assert np.abs(np.sqrt(values) - np.sqrt(weights[seen])).max() <= CODE


def labels_of(pin: Pin) -> str:
    """Return the titles of a head's labels as the library's report has them."""
    model = mv.load(pin.model)
    report = mv.head_report(model.trace(pin.text), model).set_index(["layer", "head"])
    return str(report.labels[pin.layer, pin.head]) or "no label"


def test_a_board_of_two_models_and_two_sentences_draws_each_head_of_its_run() -> None:
    app = open_board(A, B, C)
    check(app)
    assert board_names(app) == ["A L1 H2", "B L0 H3", "C L3 H5"]
    assert len({panel.weights.shape for panel in board(app)}) == 1  # one axis, so one size of cells
    for panel, pin in zip(board(app), (A, B, C), strict=True):
        draws(panel.weights, pin)
        assert (panel.about["source"], panel.about["text"]) == (pin.model, pin.text)
    assert board(app)[0].about["note"] == "first"
    assert board_notes(app)["labels"] == [labels_of(pin) for pin in (A, B, C)]


def test_equal_tokens_of_two_sentences_share_a_row() -> None:
    app = compare(text=TEXT, text_b=OTHER, section="sides", layer="1", head="2")
    rows = [panel.about["query_labels"] for panel in board(app)]
    one, two = record_of(A).labels, record_of(C).labels
    pairs = align(one, two)
    assert rows[0] == [one[i] if i is not None else "" for i, _ in pairs]
    assert rows[1] == [two[j] if j is not None else "" for _, j in pairs]


def test_the_verdict_of_two_heads_is_the_library_s_and_short() -> None:
    app = compare(text=TEXT, section="sides", layer="1", head="2", layer_b="3", head_b="4")
    record = record_of(A)
    model = mv.load("tiny-bert")
    found = mv.describe_difference(record, (1, 2), (3, 4), report=model_report(model, record))
    verdict = board_notes(app)["verdict"]
    assert verdict == found.verdict.replace("L1 H2", "A L1 H2").replace("L3 H4", "B L3 H4")
    assert len(verdict) <= 120
    queries, keys = (found.pairs[axis][:3].tolist() for axis in ("query", "key"))
    cells = [list(pair) for pair in zip(queries, keys, strict=True)]
    assert board_notes(app)["marked"] == [cells, cells]


def model_report(model: mv.AttentionModel, record: mv.AttentionRecord):
    from mha_viz.reports.report import report

    return report(record, model)


def test_the_verdict_of_three_names_the_most_and_the_least_alike() -> None:
    app = open_board(A, C, A._replace(layer=2, head=6))
    pins = pinned(app)
    shares = {}
    for i, j in ((0, 1), (0, 2), (1, 2)):
        one, two = record_of(pins[i]), record_of(pins[j])
        places = align(one.labels, two.labels)
        heads = (r.head(p.layer, p.head)[None, None] for r, p in ((one, pins[i]), (two, pins[j])))
        common = equal_places(one.labels, two.labels, places)
        shares[i, j] = float(pattern_change(*heads, places, common))
    verdict = board_notes(app)["verdict"]
    names = board_names(app)
    near, far = min(shares, key=shares.get), max(shares, key=shares.get)
    assert verdict.startswith(f"{names[near[0]]} and {names[near[1]]} are most alike")
    assert f"{names[far[0]]} and {names[far[1]]} least" in verdict


def test_the_first_board_has_the_chosen_head_and_its_nearest() -> None:
    app = compare(text=TEXT, layer="1", head="2")
    apart = mv.head_similarity(record_of(A), "hellinger").numpy()
    np.fill_diagonal(apart, np.inf)
    assert board_names(app) == ["A L1 H2", f"B {NAMES[apart[1 * 8 + 2].argmin()]}"]
    assert "pins" not in app.query_params
    app.selectbox(key="add-head").select(str(3 * 8 + 4)).run()
    assert board_names(app) == ["A L1 H2", "B L3 H4"]  # in place of what nobody has chosen
    app.selectbox(key="add-head").select("0").run()
    assert board_names(app) == ["A L1 H2", "B L3 H4", "C L0 H0"]
    app.selectbox(key="add-head").select("0").run()  # once is enough
    assert len(board(app)) == 3
    assert compare(
        **{k: app.query_params[k] for k in app.query_params}
    ).session_state.view.pins == (app.session_state.view.pins)


def test_the_same_head_on_another_sentence_and_in_another_model() -> None:
    app = compare(text=TEXT, layer="1", head="2")
    app.text_input(key="add-text").set_value("   ").run()
    assert not pinned(app)  # an empty sentence is none
    app.text_input(key="add-text").set_value("word " * 300).run()
    check(app)
    assert "The text was cut to 128 tokens" in board_notes(app)["labels"][1]
    app = compare(text=TEXT, layer="1", head="2")
    app.text_input(key="add-text").set_value(OTHER).run()
    check(app)
    assert pinned(app) == [A._replace(note=""), A._replace(text=OTHER, note="")]
    app.selectbox(key="add-model").select("tiny-gpt2").run()
    app.selectbox(key="add-model").select("untrained").run()
    check(app)
    assert [pin.model for pin in pinned(app)[2:]] == ["tiny-gpt2", f"tiny-bert{UNTRAINED}"]
    assert {(pin.layer, pin.head) for pin in pinned(app)} == {(1, 2)}


def test_panels_on_the_page_s_sentence_follow_it() -> None:
    app = open_board(A, C)
    app.text_area(key="ask_text").set_value("A dog ran.").run()
    check(app)
    assert [pin.text for pin in pinned(app)] == ["A dog ran.", OTHER]
    app.segmented_control(key="ask_section").set_value("similar").run()
    assert len(pinned(app)) == 2


def test_a_head_is_added_in_heads_and_the_board_is_counted_there() -> None:
    app = heads_page(model="tiny-bert", text=TEXT, layer="1", head="2", pins=written((A, B)))
    assert "(2)" in app.button(key="open_in_compare").label
    choose(app, layer=3, head=5)
    app.session_state.session.leads_to = "compare"  # as a click in the workbench leaves it
    app.run()
    assert pinned(app) == [A, B, Pin("tiny-bert", TEXT, "", "self", 3, 5)]
    assert app.session_state.view.section == "board"


def test_another_sentence_typed_in_the_bar_s_options_leads_to_the_board() -> None:
    app = heads_page(model="tiny-bert", text=TEXT, layer="1", head="2")
    app.text_input(key="compare-text").set_value(OTHER).run()
    assert pinned(app) == [A._replace(note=""), A._replace(text=OTHER, note="")]
    assert board_names(app) == ["A L1 H2", "B L1 H2"]


@pytest.mark.parametrize(
    ("edit", "heads"),
    [
        (Edit(1, "left"), [3, 2, 5]),
        (Edit(0, "right"), [3, 2, 5]),
        (Edit(0, "remove"), [3, 5]),
        (Edit(2, "note", "a note"), [2, 3, 5]),
    ],
)
def test_a_panel_is_moved_removed_and_noted(monkeypatch, edit: Edit, heads: list[int]) -> None:
    changed: dict = {}
    monkeypatch.setattr(panels.selection, "change", lambda **values: changed.update(values))
    panels.edit((A, B, C), edit)
    assert [pin.head for pin in changed["pins"]] == heads
    assert (changed["pins"][-1].note == "a note") == (edit.action == "note")


def test_a_full_board_takes_no_more() -> None:
    nine = tuple(A._replace(text="cat " * (i + 1)) for i in range(MAX_PINS))
    app = open_board(*nine)
    check(app)
    assert len(board(app)) == MAX_PINS
    assert not [menu for menu in app.selectbox if menu.key == "add-head"]
    assert "The board is full" in said(app)


def test_what_cannot_be_shown_has_a_panel_that_says_why_and_the_others_stay() -> None:
    gone = A._replace(model="nobody/nothing", text=HOSTILE, note="")
    app = open_board(gone, B, A._replace(layer=99))
    check(app)
    problems = [panel.about["problem"] for panel in board(app)]
    assert "nobody/nothing" in problems[0] and not problems[1] and "L99 H2" in problems[2]
    assert [panel.weights.size > 0 for panel in board(app)] == [False, True, False]
    folder = B._replace(model="/etc/passwd (random weights)")
    assert pinned(open_board(folder, B)) == [B]  # no link names a copy of a folder


def test_the_table_has_the_weights_of_all_heads_and_the_picture_is_one_file() -> None:
    app = compare("board", text=TEXT, text_b=OTHER, section="sides", layer="1", head="2")
    check(app)
    rows = table(app, "Query", "Key", "A L1 H2", "B L1 H2")
    record = record_of(A)
    assert np.isclose(rows["A L1 H2"].sum(), len(record.tokens), rtol=1e-4)  # a row sums to 1
    heads = [
        BoardHead(name, pin.model, pin.text, record_of(pin), (pin.layer, pin.head))
        for name, pin in (("A", A), ("B", B))
    ]
    for file_format, begin in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
        made = board_image(heads, BoardAxes.of(heads), file_format=file_format, title="a board")
        assert made.startswith(begin)
