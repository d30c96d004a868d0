"""The Compare page without a browser: its numbers are the library's own, and a click is cheap."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import mha_viz as mv
from mha_viz.core.amounts import format_number, format_share
from mha_viz.core.metrics import attention_flow, attention_rollout
from mha_viz.core.metrics.layers import capacity, variance_statement
from mha_viz.core.names import MATRICES
from mha_viz.core.record import patterns
from mha_viz.ui.compare import details, scatter
from tests.making.comparing import close, near
from tests.ui.compare_app import (
    OTHER,
    SECTIONS,
    TEXT,
    board_names,
    check,
    compare,
    figures,
    numbers,
    said,
    table,
    turn_to,
)


@pytest.mark.parametrize(("name", "upto"), [("tiny-bert", 1), ("tiny-gpt2", None)])
def test_flow_shows_rollout_and_flow(name, upto):
    record = mv.load(name).trace(TEXT)
    app = compare("rollout", "flow", model=name, text=TEXT, section="flow")
    check(app)
    n = len(record.tokens)
    assert (app.selectbox(key="ask_upto").value, app.selectbox(key="ask_query").value) == (3, n - 1)
    assert not {"query", "upto"} & set(app.query_params)
    row = attention_rollout(record.pattern)[-1].numpy()[-1]
    source = f"“{record.labels[row.argmax()]}” ({format_share(row.max())})"
    assert source in said(app).replace("\\", "")
    if upto is not None:
        app.selectbox(key="ask_upto").select(upto)
    app.selectbox(key="ask_query").select(3).run()
    assert (app.query_params.get("upto"), app.query_params["query"]) == (upto and str(upto), "3")
    pattern = record.pattern if upto is None else record.pattern[: upto + 1]
    rollout = attention_rollout(pattern)[-1].numpy()
    close(table(app, "token").set_index("token"), rollout)
    flow = attention_flow(pattern, 3).numpy()
    shown = table(app, "Token", "rollout", "flow, as shares")
    close(shown["rollout"], rollout[3])
    close(shown["flow, as shares"], flow / flow.sum())


def test_charts_show_the_tokens_of_the_window_and_a_slider_changes_them():
    record = mv.load("tiny-gpt2").trace(TEXT)
    app = compare("difference", model="tiny-gpt2", text=TEXT, section="sides",
                  layer="0", head="0", layer_b="0", head_b="3", window="2.5,2.5")  # fmt: skip
    check(app)
    a, b = (record.head(0, head).numpy()[2:6, 2:6] for head in (0, 3))
    difference = table(app, "query").set_index("query")
    assert list(difference.columns) == [f"{i}:{record.labels[i]}" for i in range(2, 6)]
    close(difference, np.where(np.tri(4, dtype=bool), b - a, np.nan))
    (slider,) = app.slider
    assert slider.value == (2, 5)
    slider.set_value((0, len(record.tokens) - 1)).run()
    check(app)
    assert not app.slider and "window" not in app.query_params
    app = compare(model="tiny-gpt2", text="The", section="flow", window="0.5,2.5")
    check(app)  # a window of another text leaves a single token alone
    assert not app.slider


def test_a_text_whose_weights_do_not_fit_at_once_is_compared_as_any(monkeypatch):
    apps = []
    for most in (patterns.MOST_BYTES, 1):
        monkeypatch.setattr(patterns, "STORED_BYTES", most)
        monkeypatch.setattr(patterns, "MOST_BYTES", most)
        app = compare("sides", "most_changed", model="tiny-gpt2", text=TEXT, text_b=OTHER,
                      section="sides")  # fmt: skip
        said = check(app)
        apps.append([said, *(part.value for part in app.dataframe)])
        for section in ("diversity", "flow"):
            apps[-1].append(turn_to(app, section))
    for whole, parts in zip(*apps, strict=True):
        if isinstance(whole, str):
            assert whole == parts
        else:
            pd.testing.assert_frame_equal(whole, parts, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("section", SECTIONS)
def test_another_head_computes_nothing_again(monkeypatch, section):
    options = {"text": TEXT, "section": section, "measure": "jensen_shannon", "head": "0"}
    app = compare(**options, layer_b="0", head_b="6")
    calls = []
    for path in (
        "mha_viz.engine.model.AttentionModel.trace",
        "mha_viz.ui.run.reporting.head_similarity",
        "mha_viz.ui.run.reporting.parameter_similarity",
        "mha_viz.ui.run.reporting.make_report",
        "mha_viz.core.compare.twins.classical_mds",
        "mha_viz.ui.compare.two_models.match_heads",
        "mha_viz.ui.compare.diversity.diversity",
        "mha_viz.reports.induction.induction_scores",
        "mha_viz.checkpoints.untrained_copy.untrained_copy",
    ):
        monkeypatch.setattr(path, lambda *a, path=path, **k: calls.append(path))
    if section in ("board", "models"):
        app.selectbox(key="ask_layer").select(2).run()
        names = board_names(app)  # of two models the counterpart is found, not chosen
        assert names[0] == "A L2 H0" and (names[1] == "B L0 H6" or section == "models")
    elif section == "similar":
        pair = app.pills(key="nearest_pairs").options[1].split(":")[0].split(" – ")
        app.pills(key="nearest_pairs").select(app.pills(key="nearest_pairs").options[1]).run()
        assert app.header[0].value == " and ".join(pair)
    else:  # these choose no head: the page runs again all the same
        app.run()
    check(app)
    assert calls == []


def test_diversity_shows_each_layer(model, record):
    app = compare(
        "diversity",
        "capacity",
        model=model.name,
        text=TEXT,
        section="diversity",
    )
    shown = table(app, "Layer", "W_Q", "W_O", "independent random matrices")
    for matrix in ("W_Q", "W_K", "W_V", "W_O"):
        expected = [mv.diversity(model, layer, matrix) for layer in range(4)]
        close(shown[matrix], expected)
    total = capacity(record.pattern).total.numpy()
    close(table(app, "all heads, each for itself (Σ C)").iloc[:, 1], total)
    statements = table(app, "Statement", "Left", "Right", "Here")
    found = variance_statement(record.z, record.W_O)
    assert len(statements) == 8
    for layer, row in statements[:4].iterrows():
        assert row["Left"] == format_number(found.of_sum[layer])
        assert row["Right"] == format_number(found.sum_of[layer])
        assert (row["Here"] == "holds") == (found.of_sum[layer] <= found.sum_of[layer])


def test_chance_is_what_random_matrices_give():
    app = compare("diversity", text=TEXT, section="diversity")
    level = table(app, "independent random matrices")["independent random matrices"][0]
    heads = np.random.default_rng(0).standard_normal((40, 256 * 32))
    heads /= np.linalg.norm(heads, axis=1, keepdims=True)
    cosines = np.abs(heads @ heads.T)[np.triu_indices(40, 1)]
    assert level == pytest.approx(1 - cosines.mean(), abs=5e-4)
    layout, lines = figures(app)[0]["layout"], figures(app)[0]["data"]
    band = layout["shapes"][0]
    assert band["y0"] == near(-band["y1"]) and 0 < band["y1"] < 0.004
    shown = table(app, "Layer", "W_Q", "W_O")
    close(numbers(lines[0]["y"]), shown["W_Q"] - level)
    inside = sum(int((shown[matrix] - level >= band["y0"]).sum()) for matrix in MATRICES)
    assert f"same shape: {inside} of 16" in said(app)


@pytest.mark.parametrize(("n_tokens", "reason"), [(1, "one_token"), (2, "constant")])
def test_why_not_blames_the_text_s_length_for_one_token_alone(n_tokens: int, reason: str) -> None:
    scene = SimpleNamespace(record=SimpleNamespace(tokens=["a"] * n_tokens))
    assert scatter.TEXTS(f"scatter.{reason}") in scatter._why_not(scene, "redundancy")


def test_about_counts_words_of_a_merged_record_and_tokens_of_others() -> None:
    record = mv.load("tiny-gpt2").trace("Unbelievably, it rains.")
    merged = record.merge_words()
    assert len(merged.tokens) < len(record.tokens)
    assert details._about(record).endswith(f" {len(record.tokens)} tokens")
    assert details._about(merged).endswith(f" {len(merged.tokens)} words")
