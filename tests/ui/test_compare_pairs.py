"""The Compare page on pairs of heads: twins, likeness, and every number between two."""

from dataclasses import replace

import numpy as np
import pytest

import mha_viz as mv
from mha_viz.core.chance import permuted_band
from mha_viz.core.measure import distances
from mha_viz.core.metrics import METRICS
from mha_viz.core.names import PAIR_MEASURES, PRODUCTS
from mha_viz.engine.model import AttentionModel
from mha_viz.plots.weights import MASKED
from mha_viz.ui.session import views
from tests.making.comparing import close, near
from tests.making.pairwise import pairwise
from tests.ui.compare_app import MODELS, NAMES, TEXT, check, compare, figures, said, seen, table


@pairwise(name=MODELS, measure=PAIR_MEASURES, order=views.ORDERS)
def test_twins_shows_the_similarity(name, measure, order):
    link = {"section": "twins", "measure": measure, "order": order, "layer": "0", "head": "0"}
    app = compare("twins", "map", model=name, text=TEXT, **link)
    record = mv.load(name).trace(TEXT)
    check(app)
    expected = mv.head_similarity(record, measure).numpy()
    shown = table(app, "Head", "L3 H7").set_index("Head")
    assert list(shown.index) == list(shown.columns) == NAMES
    close(shown, expected)
    apart = distances(record, measure).numpy()
    np.fill_diagonal(apart, np.inf)
    nearest = table(app, "Head", "Nearest", "Distance").set_index("Head").loc[NAMES]
    edge = permuted_band(record, measure).edge(measure)
    alike = apart[np.triu_indices(32, 1)] < edge
    assert f"More alike than chance: {alike.sum()} of 496 pairs" in said(app)
    assert list(nearest["Beyond chance"] == "yes") == list(nearest["Distance"] < edge)
    close(nearest["Distance"], np.clip(apart.min(1), 0, None))
    for head, twin in zip(range(32), nearest["Nearest"], strict=True):
        assert apart[head, NAMES.index(twin)] == near(apart[head].min())
    once = sorted((apart[i, j], (i, j)) for i in range(32) for j in range(i + 1, 32))[:5]
    named = list(app.pills(key="nearest_pairs").options)
    assert [float(text.split(": ")[1]) for text in named] == [
        pytest.approx(max(distance, 0), rel=2e-3, abs=1e-5) for distance, _ in once
    ]
    clusters = app.table[0].value
    assert list(clusters.index) == [str(i + 1) for i in range(len(clusters))]  # as they are named
    assert clusters["Heads"].astype(int).sum() == 32
    assert sorted(", ".join(clusters["Which"]).split(", ")) == NAMES
    assert app.header[0].value == "L0 H0 and L0 H1"


def test_alike_shows_all_pairs(model, record):
    app = compare("alike", model=model.name, text=TEXT, section="alike", space="W_OV")
    shown = table(app, "Look alike", "Do alike", "Overlap W_OV")
    i, j = np.triu_indices(32, 1)
    assert len(shown) == len(i)
    for column, expected in {
        "Look alike": 1 - mv.head_similarity(record, "hellinger").numpy(),
        "Do alike": mv.head_similarity(record, "cka").numpy(),
        "Overlap W_OV": mv.parameter_similarity(model, "W_OV", "subspace_overlap").numpy(),
    }.items():
        close(shown[column], expected[i, j])
    looks, does = (permuted_band(record, measure) for measure in ("hellinger", "cka"))
    look, do = shown["Look alike"] > 1 - looks.low, shown["Do alike"] > does.high
    assert f"More alike than chance: {look.sum()} of 496 pairs" in said(app)
    assert f"More alike than chance: {do.sum()} of 496 pairs" in said(app)
    gap = (shown["Look alike"] - shown["Do alike"])[look & ~do]
    first = app.pills(key="odd_look_pairs").options[0]
    assert first == f"{NAMES[i[gap.idxmax()]]} – {NAMES[j[gap.idxmax()]]}: {gap.max():.4g}"
    assert app.dataframe[1].value.iloc[0].to_dict() == shown.loc[gap.idxmax()].to_dict()
    shaded = [shape for shape in figures(app)[0]["layout"]["shapes"] if "fillcolor" in shape]
    assert shaded[0]["x0"] == near(1 - looks.high)
    assert shaded[1]["y1"] == near(does.high)


def test_pairs_that_do_not_differ_are_said_to_be_alike(monkeypatch):
    text = "one head, many times"
    record = mv.load("tiny-gpt2").trace(text)
    alike = replace(record, z=record.z[:1, :1].expand_as(record.z).contiguous())
    monkeypatch.setattr(AttentionModel, "trace", lambda *given, **named: alike)
    app = compare(model="tiny-gpt2", text=text, section="alike", outputs="redundancy")
    shown = check(app)
    assert "By the redundancy R of outputs all pairs are alike" in app.info[0].value
    assert "rank correlation not defined" in shown and "do different things" not in shown
    low, high = figures(app)[0]["layout"]["yaxis"]["range"]
    assert high - low >= 0.01
    assert "annotations" not in figures(app)[0]["layout"]


def test_the_pair_has_every_number_between_two_heads(model, record):
    app = compare(
        "difference",
        "changes",
        model=model.name,
        text=TEXT,
        section="sides",
        layer="3",
        head="1",
        layer_b="1",
        head_b="6",
    )
    assert app.header[0].value == "L3 H1 and L1 H6"
    a, b = 3 * 8 + 1, 8 + 6
    between = app.table[0].value["between them"].str.strip()
    for measure in PAIR_MEASURES:
        expected = float(mv.head_similarity(record, measure)[a, b])
        assert float(between[METRICS[measure].title]) == pytest.approx(expected, rel=2e-3, abs=1e-5)
    for space in views.SPACES:
        expected = float(mv.parameter_similarity(model, space)[a, b])
        own = "" if space in PRODUCTS else " (in each head’s own basis)"
        title = f"cos of {space}{own}"
        assert float(between[title]) == pytest.approx(expected, rel=2e-3, abs=1e-5)
        expected = float(mv.parameter_similarity(model, space, "subspace_overlap")[a, b])
        assert float(between[f"overlap of {space}"]) == pytest.approx(expected, rel=2e-3, abs=1e-5)
    difference = table(app, "query").set_index("query")
    change = (record.head(1, 6) - record.head(3, 1)).numpy()
    close(difference, seen(change, record.causal))
    assert (MASKED in said(app)) == record.causal
    metrics = table(app, "Metric", "L3 H1", "L1 H6", "Difference").set_index("Metric")
    report = mv.head_report(record)
    assert metrics.loc["Distance", "L3 H1"] == near(report.distance[a])
    assert metrics.loc["Distance", "L1 H6"] == near(report.distance[b])
