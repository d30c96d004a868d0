"""The Compare page without a browser: its numbers are the library's own, and a click is cheap."""

import numpy as np
import pandas as pd
import pytest

import mha_viz as mv
from mha_viz.core.metrics import METRICS, attention_flow, attention_rollout
from mha_viz.core.metrics.layers import variance_statement
from mha_viz.core.record import patterns
from mha_viz.reports.report import KEEP
from mha_viz.web.theme import format_weight
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
def test_every_section_is_drawn_and_its_figures_say_what_they_show(name):
    app = compare(model=name, text=TEXT, section=SECTIONS[0])
    for section in SECTIONS:
        if section != SECTIONS[0]:
            turn_to(app, section)
        assert not app.warning and not app.info and app.get("plotly_chart")
        assert app.segmented_control(key="ask_section").value == section
        assert link(app).get("section", SECTIONS[0]) == section
        names = [chart.proto.spec and chart.proto.alt for chart in app.get("plotly_chart")]
        assert all(names) and not [name for name in names if "_" in name.split(".")[0]], names


SORTED_BY = {
    "tiny-bert": ("induction", "distance"),
    "tiny-gpt2": ("entropy", "previous_token", "induction"),
}


def test_layers_shows_the_report(model, record):
    report = mv.head_report(record, model)
    first, *others = SORTED_BY[model.name]
    tables = ("by_layer", "metric_map", "metric_maps")
    app = compare(*tables, model=model.name, text=TEXT, metric=first, layer="2", head="5")
    every = table(app, "Head", "Entropy", "Distance")  # the small maps'
    for key in ("entropy", "distance", first, *others):
        close(every[METRICS[key].title], report[key])
    shown_is_reported(app, first, report)
    for metric in others:
        app.selectbox(key="ask_metric").select(metric).run()
        shown_is_reported(app, metric, report)


def shown_is_reported(app, metric, report):
    title = METRICS[metric].title
    shown = [one.value for one in app.dataframe if list(one.value.columns) == ["Head", title]]
    for each in shown:
        assert list(each["Head"]) == NAMES
        close(each[title], report[metric])
    assert len(shown) == 2  # the map's and the dots'
    kinds = table(app, "L0", "L3")
    for title, row in kinds.iterrows():
        labelled = report.labels.str.contains(title, regex=False)
        assert list(row) == [int(labelled[report.layer == i].sum()) for i in range(4)], title
    assert app.header[0].value == "L2 H5"


def test_induction_is_not_said_to_be_of_this_text():
    app = compare(model="tiny-gpt2", text="the", metric="induction", exports=["kinds"])
    of_figure, of_kinds = (
        next(c.value for c in app.caption if start in c.value)
        for start in ("Each dot is a head", "Heads of each layer")
    )
    for text in (of_figure, of_kinds):
        assert "does not depend on the text typed" in text
    assert "give on the same random texts" in of_figure and "Another text" not in of_figure
    assert [b.label for b in app.get("download_button")] == ["CSV", "Markdown", "LaTeX"]
    other = compare(model="tiny-gpt2", text="the", metric="entropy")
    assert "give on this text" in said(other) and "Another text gives other numbers" in said(other)


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


@pairwise(
    dear=True,
    section=["sides", "twins", "alike", "layers"],
    name=MODELS,
)
def test_heatmaps_have_tables_and_files(section, name):
    record = mv.load(name).trace(TEXT)
    opened = ["heatmap_chosen"] if section == "layers" else ["heatmap_a", "heatmap_b"]
    app = compare(
        *opened,
        exports=opened,
        model=name,
        text=TEXT,
        section=section,
        layer="1",
        head="2",
        layer_b="0",
        head_b="1",
    )
    check(app)
    tables = [shown.value for shown in app.dataframe if "query" in shown.value]
    assert len(tables) == len(opened)
    assert said(app).count("one token’s weights") == 1  # of both heatmaps, once
    for place, key, found in zip(((1, 2), (0, 1)), opened, tables, strict=False):
        weights = seen(record.head(*place), record.causal)
        close(found.set_index("query"), weights)
        head = f"L{place[0]} H{place[1]}"
        heard = [chart.proto.alt for chart in app.get("plotly_chart")]
        assert any(f"one token’s weights in {head} over" in alt for alt in heard)
        files = [button for button in app.get("download_button") if key in button.proto.id]
        assert {button.proto.label for button in files} == {"CSV", "Markdown", "LaTeX", "HTML"}


@pytest.mark.parametrize(("name", "upto"), [("tiny-bert", 1), ("tiny-gpt2", None)])
def test_flow_shows_rollout_and_flow(name, upto):
    record = mv.load(name).trace(TEXT)
    link = {} if upto is None else {"upto": str(upto)}
    app = compare("rollout", "flow", model=name, text=TEXT, section="flow", query="3", **link)
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
    assert slider.label == "Tokens shown; rows sum to 1 over all" and slider.value == (2, 5)
    slider.set_value((0, len(record.tokens) - 1)).run()
    check(app)
    assert not app.slider and "window" not in app.query_params


def test_a_window_of_another_text_leaves_a_single_token_alone():
    app = compare(model="tiny-gpt2", text="The", section="flow", window="0.5,2.5")
    check(app)
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


def test_flow_shows_the_last_ones_without_choosing_them():
    app = compare(model="tiny-gpt2", text=TEXT, section="flow")
    check(app)
    assert (app.selectbox(key="ask_upto").value, app.selectbox(key="ask_query").value) == (3, 13)
    assert not {"query", "upto"} & set(app.query_params)
    app.selectbox(key="ask_upto").select(1)
    app.selectbox(key="ask_query").select(5).run()
    assert (app.query_params["upto"], app.query_params["query"]) == ("1", "5")
    assert "Rollout from the input to layer 1" in check(app)


def test_a_row_with_one_key_is_not_the_largest_weight():
    app = compare(model="tiny-gpt2", text=TEXT, section="layers", layer="1", head="2")
    record = mv.load("tiny-gpt2").trace(TEXT)
    rows = record.head(1, 2)[1:]
    query, key = divmod(int(rows.argmax()), rows.shape[1])
    weight = format_weight(rows[query, key])
    assert (
        f"the largest weight is {weight}, from “{record.labels[query + 1]}” to "
        f"“{record.labels[key]}”; the first token, which sees only itself, is left out."
        in said(app).replace("\\", "")
    )


def test_the_answer_of_a_section_is_said_before_it_is_drawn(model, record):
    app = compare(model=model.name, text=TEXT, section="layers", metric="distance")
    report = mv.head_report(record).distance.to_numpy()
    assert f"Most: {NAMES[report.argmax()]} (" in figures(app)[0]["layout"]["title"]["text"]
    app = compare(model=model.name, text=TEXT, section="flow")
    row = attention_rollout(record.pattern)[-1].numpy()[-1]
    assert f"most comes from “{record.labels[row.argmax()]}” ({row.max():.0%})" in said(
        app
    ).replace("\\", "")
    app = compare(model=model.name, text=TEXT, section="diversity")
    found = variance_statement(record.z, record.W_O)
    holds = int((found.of_sum <= found.sum_of).sum())
    assert f"Var(Σ heads) ≤ Σ Var(head) holds in {holds} of 4 layers" in said(app)
    app = compare(model=model.name, text=TEXT, section="sides", layer="0", head="0")
    apart = mv.head_similarity(record, "hellinger").numpy()
    share = (apart[np.triu_indices(32, 1)] > apart[0, 1]).mean()
    told = said(app).replace("\\", "")
    assert (
        f"Hellinger distance of {apart[0, 1]:.3g}, closer than {100 * share:.3g} % of 496" in told
    )
    found = mv.describe_difference(record, (0, 0), (0, 1))
    row = found.pairs.iloc[0]
    named = f"“{row.query_token}” to “{row.key_token}” ({row.a:.3g} and {row.b:.3g})"
    assert f"Their weights differ most from {named}" in told


def test_weights_are_drawn_on_the_chosen_scale_and_it_can_be_changed():
    sections = ["layers", "twins", "alike", "sides", "flow", "layers"]
    app = compare(text=TEXT, section=sections[0], scale="log")
    scale = "log"
    for after in sections[1:]:
        assert app.selectbox(key="ask_scale").value == scale
        scale = "linear" if scale == "log" else "log"
        app.selectbox(key="ask_scale").select(scale)
        turn_to(app, after)
        assert app.session_state.view.scale == scale
        assert link(app)["scale"] == scale


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
        "mha_viz.core.compare.twins.head_order",
        "mha_viz.core.compare.twins.classical_mds",
        "mha_viz.ui.compare.side_by_side.align",
        "mha_viz.ui.compare.side_by_side.pattern_change",
        "mha_viz.reports.difference.make_report",
        "mha_viz.ui.compare.described.make_report",
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
