"""The Compare page without a browser: its numbers are the library's own, and a click is cheap."""

import numpy as np
import pandas as pd
import pytest

import mha_viz as mv
from mha_viz.core.metrics import METRICS, attention_flow, attention_rollout
from mha_viz.core.record import patterns
from mha_viz.reports.report import KEEP
from tests.making.comparing import close
from tests.making.pairwise import pairwise
from tests.ui.compare_app import (
    MODELS,
    NAMES,
    OTHER,
    SECTIONS,
    TEXT,
    check,
    compare,
    figures,
    said,
    seen,
    table,
    turn_to,
)
from tests.ui.lab_app import link


@pytest.mark.parametrize("name", MODELS)
def test_every_section_is_drawn_with_named_figures_on_the_chosen_scale(name):
    app, scale = compare(model=name, text=TEXT, section=SECTIONS[0], scale="log"), "log"
    for section in SECTIONS:
        if section != SECTIONS[0]:
            turn_to(app, section)
        assert not app.warning and not app.info and app.get("plotly_chart")
        assert link(app).get("section", SECTIONS[0]) == section
        names = [chart.proto.spec and chart.proto.alt for chart in app.get("plotly_chart")]
        assert all(names) and not [name for name in names if "_" in name.split(".")[0]], names
        if section not in ("models", "diversity"):
            assert app.selectbox(key="ask_scale").value == link(app)["scale"] == scale
        if section == "alike":
            scale = "linear"
            app.selectbox(key="ask_scale").select(scale).run()


def test_layers_shows_the_report(model, record):
    report = mv.head_report(record, model)
    tables = ("by_layer", "metric_map", "metric_maps")
    app = compare(*tables, model=model.name, text=TEXT, metric="induction", layer="2", head="5")
    every = table(app, "Head", "Entropy", "Distance")  # the small maps'
    for key in ("entropy", "distance", "induction"):
        close(every[METRICS[key].title], report[key])
    assert app.header[0].value == "L2 H5"
    for metric in ("induction", "distance"):
        if app.selectbox(key="ask_metric").value != metric:
            app.selectbox(key="ask_metric").select(metric).run()
        title = METRICS[metric].title
        shown = [part.value for part in app.dataframe if list(part.value) == ["Head", title]]
        assert len(shown) == 2  # the map's and the dots'
        for values in shown:
            assert list(values["Head"]) == NAMES
            close(values[title], report[metric])
    assert f": {NAMES[report.distance.argmax()]} (" in figures(app)[0]["layout"]["title"]["text"]
    for title, row in table(app, "L0", "L3").iterrows():
        labelled = report.labels.str.contains(title, regex=False)
        assert list(row) == [int(labelled[report.layer == i].sum()) for i in range(4)], title


def test_the_small_maps_are_listed_or_ordered_by_their_distance_from_baselines(model):
    report = mv.head_report(model.trace(TEXT, keep=KEEP), model)
    distance = {}
    for key in METRICS:
        if key in report:
            names = [f"{key}_{base}" for base in ("uniform", "offset", "random")]
            bases = report[[name for name in names if name in report]].to_numpy()
            nearest = np.abs(report[[key]].to_numpy() - bases).min(axis=1)
            distance[METRICS[key].title] = nearest.mean() / report[key].std(ddof=0)
    app = compare("metric_maps", model=model.name, text=TEXT)
    listed = table(app, "Head", "Entropy", "Distance").columns[1:]
    assert set(listed) == set(distance)
    app.segmented_control(key="ask_maps").set_value("baseline").run()
    check(app)
    ordered = list(table(app, "Head", "Entropy", "Distance").columns[1:])
    assert ordered == sorted(distance, key=distance.get, reverse=True) != list(listed)
    assert link(app)["maps"] == "baseline"


@pairwise(dear=True, section=["sides", "twins", "alike", "layers"], name=MODELS)
def test_heatmaps_have_the_weights_of_their_heads_as_tables(section, name):
    record = mv.load(name).trace(TEXT)
    opened = ["heatmap_chosen"] if section == "layers" else ["heatmap_a", "heatmap_b"]
    chosen = dict(layer="1", head="2", layer_b="0", head_b="1")
    app = compare(*opened, exports=opened, model=name, text=TEXT, section=section, **chosen)
    check(app)
    tables = [part.value for part in app.dataframe if "query" in part.value]
    assert len(tables) == len(opened)
    for head, shown in zip(((1, 2), (0, 1)), tables, strict=False):
        close(shown.set_index("query"), seen(record.head(*head), record.causal))
        name_of = "L{} H{}".format(*head)
        assert any(name_of in chart.proto.alt for chart in app.get("plotly_chart"))


@pytest.mark.parametrize(("name", "upto"), [("tiny-bert", 1), ("tiny-gpt2", None)])
def test_flow_shows_rollout_and_flow(name, upto):
    record = mv.load(name).trace(TEXT)
    app = compare("rollout", "flow", model=name, text=TEXT, section="flow")
    check(app)
    n = len(record.tokens)
    assert (app.selectbox(key="ask_upto").value, app.selectbox(key="ask_query").value) == (3, n - 1)
    assert not {"query", "upto"} & set(app.query_params)
    row = attention_rollout(record.pattern)[-1].numpy()[-1]
    assert f"“{record.labels[row.argmax()]}” ({row.max():.0%})" in said(app).replace("\\", "")
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
    app = compare("heatmap_b", "difference", model="tiny-gpt2", text=TEXT, section="sides",
                  layer="0", head="0", layer_b="0", head_b="3", window="2.5,2.5")  # fmt: skip
    check(app)
    a, b = (record.head(0, head).numpy()[2:6, 2:6] for head in (0, 3))
    seen = np.tri(4, dtype=bool)
    shown = [part.value.set_index("query") for part in app.dataframe if "query" in part.value]
    of_b, difference = (one for one in shown if len(one) == 4)
    assert list(of_b.columns) == [f"{i}:{record.labels[i]}" for i in range(2, 6)]
    close(of_b, np.where(seen, b, np.nan))
    close(difference, np.where(seen, b - a, np.nan))
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
    options |= {"layer_b": "0"} if section == "twins" else {}
    app = compare(**options, **({"text_b": OTHER} if section == "sides" else {}))
    calls = []
    for path in (
        "mha_viz.engine.model.AttentionModel.trace",
        "mha_viz.ui.run.reporting.head_similarity",
        "mha_viz.ui.run.reporting.parameter_similarity",
        "mha_viz.ui.run.reporting.make_report",
        "mha_viz.core.compare.twins.classical_mds",
        "mha_viz.ui.compare.side_by_side.pattern_change",
        "mha_viz.ui.compare.two_models.match_heads",
        "mha_viz.ui.compare.diversity.diversity",
        "mha_viz.reports.induction.induction_scores",
        "mha_viz.checkpoints.untrained_copy.untrained_copy",
    ):
        monkeypatch.setattr(path, lambda *a, path=path, **k: calls.append(path))
    if section in ("diversity", "flow"):  # these choose no head: the page runs again all the same
        app.run()
    elif section == "layers":
        app.selectbox(key="ask_metric").select("distance").run()
    else:
        app.selectbox(key="ask_layer").select(2).run()
        if section == "models":  # the counterpart is found, not chosen
            assert "L2 H0 and L" in check(app) and calls == []
            return
        app.selectbox(key="ask_head_b").select(6).run()
        assert "L2 H0 and L0 H6" in said(app)
    check(app)
    assert calls == []
