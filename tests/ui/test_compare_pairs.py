"""The Compare page on pairs of heads: twins, likeness, and every number between two."""

from dataclasses import replace

import numpy as np
import torch

import mha_viz as mv
from mha_viz.checkpoints.untrained_copy import untrained_copy
from mha_viz.core.amounts import format_number
from mha_viz.core.compare.chance import permuted_pairs
from mha_viz.core.measure import distances
from mha_viz.core.metrics import METRICS
from mha_viz.core.metrics.chance import discoveries
from mha_viz.core.names import PAIR_MEASURES, PRODUCTS
from mha_viz.engine.model import AttentionModel
from mha_viz.ui.state import views
from mha_viz.web import theme
from tests.making.comparing import close, near
from tests.making.pairwise import pairwise
from tests.ui.compare_app import (
    MODELS,
    NAMES,
    TEXT,
    board_names,
    check,
    compare,
    figures,
    said,
    seen,
    table,
)


@pairwise(dear=True, name=MODELS, measure=PAIR_MEASURES, order=views.ORDERS)
def test_twins_shows_the_similarity(name, measure, order):
    link = {"section": "twins", "measure": measure, "order": order, "layer": "0", "head": "0"}
    app = compare("twins", "map", model=name, text=TEXT, **link)
    record = mv.load(name).trace(TEXT)
    check(app)
    expected = mv.head_similarity(record, measure).numpy()
    shown = table(app, "Head", "L3 H7").set_index("Head")
    assert list(shown.index) == list(shown.columns) == NAMES
    close(shown, expected)
    cells = next(trace for trace in figures(app)[0]["data"] if trace["type"] == "heatmap")
    colours = theme.diverging if cells["zmin"] < 0 else theme.sequential
    assert cells["colorscale"] == [list(stop) for stop in theme.stops(colours(False))]
    assert (cells["zmin"] < 0) == (measure in ("correlation", "cka"))
    apart = distances(record, measure).numpy()
    np.fill_diagonal(apart, np.inf)
    nearest = table(app, "Head", "Nearest", "Distance").set_index("Head").loc[NAMES]
    by_chance = permuted_pairs(record, measure)
    alike = discoveries(by_chance.p_pairs)
    assert f": {alike.sum()} of 496 pairs" in app.pills(key="nearest_pairs").label
    twins = discoveries(by_chance.p_nearest)
    assert list(nearest["Beyond chance"] == "yes") == list(twins)
    close(nearest["Distance"], np.clip(apart.min(1), 0, None))
    for head, twin in zip(range(32), nearest["Nearest"], strict=True):
        assert apart[head, NAMES.index(twin)] == near(apart[head].min())
    once = sorted((apart[i, j], (i, j)) for i in range(32) for j in range(i + 1, 32))[:5]
    named = list(app.pills(key="nearest_pairs").options)
    assert [text.split(": ")[1] for text in named] == [
        format_number(max(distance, 0)) for distance, _ in once
    ]


def test_alike_shows_all_pairs(model, record):
    app = compare("alike", model=model.name, text=TEXT, section="alike", space="W_OV")
    looks, does = (permuted_pairs(record, measure) for measure in ("hellinger", "cka"))
    look, do = looks.p_pairs, does.p_pairs
    for p in (look, do):
        assert f": {discoveries(p).sum()} of 496 pairs" in said(app)
    untrained = permuted_pairs(untrained_copy(model).trace(TEXT, keep=("pattern", "z")), "cka")
    n_untrained = discoveries(untrained.p_pairs).sum()
    assert f": {n_untrained}." in said(app)
    odd, n_tested = discoveries(np.where(do > 0.05, look, np.nan)), (do > 0.05).sum()
    answers = said(app) + " ".join(pills.label for pills in app.pills)
    assert f": {odd.sum()} of {n_tested} pairs" in answers
    shaded = [shape for shape in figures(app)[1]["layout"]["shapes"] if "fillcolor" in shape]
    assert shaded[0]["x0"] == near(1 - looks.band.high)
    assert shaded[1]["y1"] == near(does.band.high)


def test_a_pair_that_is_alike_on_one_side_only_is_named(monkeypatch):
    """L0 H3 and L2 H5 share attention alone, L1 H1 and L3 H6 output alone; all else is noise."""
    text = "Nothing but noise is in these heads, and two pairs of them."  # its own: pages remember
    record, dice = mv.load("tiny-bert").trace(text), torch.Generator().manual_seed(5)
    pattern = torch.rand(record.pattern.shape, generator=dice).pow(4)
    z = torch.randn(record.z.shape, generator=dice)
    pattern[2, 5], z[3, 6] = pattern[0, 3], z[1, 1]
    planted = replace(record, pattern=pattern / pattern.sum(-1, keepdim=True), z=z)
    monkeypatch.setattr(AttentionModel, "trace", lambda *given, **named: planted)
    app = compare(model="tiny-bert", text=text, section="alike")
    check(app)
    sides = (("odd_look", ["L0 H3", "L2 H5"]), ("odd_do", ["L1 H1", "L3 H6"]))
    tables = [part for part in app.dataframe if "Likeness of output" in part.value]
    for (key, names), rows in zip(sides, tables, strict=True):
        assert ": 1 of " in app.pills(key=f"{key}_pairs").label
        (named,) = app.pills(key=f"{key}_pairs").options
        assert named.split(": ")[0] == " – ".join(names)
        assert rows.value.iloc[0][["Head", "Other"]].tolist() == names


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
    assert board_names(app) == ["A L3 H1", "B L1 H6"]
    a, b = 3 * 8 + 1, 8 + 6
    between = app.table[0].value["between them"].str.strip()
    for measure in PAIR_MEASURES:
        expected = float(mv.head_similarity(record, measure)[a, b])
        assert between[METRICS[measure].title] == format_number(expected)
    for space in views.SPACES:
        expected = float(mv.parameter_similarity(model, space)[a, b])
        own = "" if space in PRODUCTS else " (in each head’s own basis)"
        title = f"cos of {space}{own}"
        assert between[title] == format_number(expected)
        expected = float(mv.parameter_similarity(model, space, "subspace_overlap")[a, b])
        assert between[f"overlap of {space}"] == format_number(expected)
    difference = table(app, "query").set_index("query")
    change = (record.head(1, 6) - record.head(3, 1)).numpy()
    close(difference, seen(change, record.causal))
    metrics = table(app, "Metric", "A L3 H1", "B L1 H6", "Difference").set_index("Metric")
    report = mv.head_report(record)
    assert metrics.loc["Distance", "A L3 H1"] == near(report.distance[a])
    assert metrics.loc["Distance", "B L1 H6"] == near(report.distance[b])
