"""The Compare page on pairs of heads: twins, likeness, and every number between two."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import mha_viz as mv
from mha_viz.checkpoints.untrained_copy import untrained_copy
from mha_viz.core.amounts import format_number
from mha_viz.core.compare.alignment import align, aligned, equal_places, pattern_change
from mha_viz.core.compare.chance import permuted_pairs
from mha_viz.core.compare.matching import match_heads
from mha_viz.core.measure import distances
from mha_viz.core.metrics import METRICS
from mha_viz.core.metrics.chance import discoveries
from mha_viz.core.names import PAIR_MEASURES, PRODUCTS
from mha_viz.engine.model import AttentionModel
from mha_viz.ui.compare.two_models import N_TEXTS
from mha_viz.ui.run.memory import SHOWN_SEED
from mha_viz.ui.state import views
from mha_viz.ui.state.examples import EXAMPLES
from mha_viz.web import theme
from tests.making.comparing import close, near
from tests.making.pairwise import pairwise
from tests.ui.compare_app import (
    MODELS,
    NAMES,
    OTHER,
    TEXT,
    board,
    board_names,
    check,
    compare,
    figures,
    said,
    seen,
    table,
)
from tests.ui.lab_app import link


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
    (clusters,) = (shown.value["Which"] for shown in app.table if "Which" in shown.value)
    assert sorted(", ".join(clusters).split(", ")) == NAMES
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


def texts() -> list[str]:
    sentences = [one.text for one in EXAMPLES if not one.pair and not one.n_tokens]
    return [TEXT, *sentences[:N_TEXTS]]


def matched(a: str, b: str, measure: str):
    model = mv.load(a)
    other = untrained_copy(model, SHOWN_SEED) if b == "untrained" else mv.load(b)
    sides = ([network.trace(text) for text in texts()] for network in (model, other))
    return match_heads(*sides, measure)


@pytest.mark.parametrize(
    ("name", "other", "measure"),
    [
        ("tiny-gpt2", "untrained", "cka"),
        pytest.param("tiny-bert", "tiny-llama", "hellinger", marks=pytest.mark.extended),
    ],
)
def test_two_models_shows_the_match_of_the_library(name, other, measure):
    chosen = dict(model=name, model_b=other, match=measure, layer="2", head="5")
    app = compare("matches", text=TEXT, section="models", **chosen)
    text = check(app).replace("\\", "")
    found = matched(name, other, measure)
    shown = table(app, "Head", "Counterpart", "Distance").set_index("Head").loc[NAMES]
    close(shown["Distance"], found.distance)
    assert list(shown["Counterpart"]) == [NAMES[i] for i in found.b]
    assert list(shown["Beyond chance"] == "yes") == found.beyond_chance.tolist()
    assert f"{found.beyond_chance.sum()} of 32 heads" in text and f"{found.n_rows} tokens" in text
    layers = table(app, "B L0", "B L3").to_numpy()
    assert layers.sum() == found.beyond_chance.sum()
    expected = np.zeros((4, 4))
    for i, j in zip(
        found.a[found.beyond_chance] // 8, found.b[found.beyond_chance] // 8, strict=True
    ):
        expected[i, j] += 1
    assert np.array_equal(layers, expected)
    assert app.header[0].value == f"A L2 H5 and B {NAMES[found.b[21]]}"
    assert len({panel.weights.shape for panel in board(app)}) == 1
    assert link(app)["model_b"] == other and link(app).get("match", "hellinger") == measure


def test_a_family_that_hides_its_outputs_is_matched_by_attention_alone(models):
    app = compare(model=models["deberta"], text=TEXT, section="models", match="cka")
    check(app)
    assert app.selectbox(key="ask_model_b").value == "tiny-bert" and "model_b" not in link(app)
    assert app.selectbox(key="ask_match").value == "hellinger"
    assert len(app.selectbox(key="ask_match").options) == 1


def test_two_texts_are_aligned_by_their_edits(model, record):
    app = compare(
        "sides",
        "most_changed",
        model=model.name,
        text=TEXT,
        section="sides",
        text_b=OTHER,
        layer="1",
        head="2",
        layer_b="1",
        head_b="2",
    )
    check(app)
    other = model.trace(OTHER)
    pairs = align(record.labels, other.labels)
    left = aligned(seen(record.head(1, 2), record.causal), [i for i, _ in pairs])
    right = aligned(seen(other.head(1, 2), other.causal), [j for _, j in pairs])
    close(table(app, "query").set_index("query"), right - left)
    common = equal_places(record.labels, other.labels, pairs)
    assert 0 < len(common) < len(pairs)
    assert f"{len(common)} of {len(pairs)} places have the same token" in said(app)
    change = pattern_change(record.pattern, other.pattern, pairs, common).numpy().ravel()
    shown = table(app, "Head", "Change").set_index("Head").loc[NAMES, "Change"]
    close(shown, change)
    order, named = np.argsort(-change)[:5], app.pills(key="most_changed_heads")
    assert [option.split(":")[0] for option in named.options] == [NAMES[i] for i in order]
    app.pills(key="most_changed_heads").select(divmod(int(order[1]), 8)).run()
    assert board_names(app) == [f"A {NAMES[order[1]]}", f"B {NAMES[order[1]]}"]


def test_a_causal_model_beside_one_that_sees_all_is_not_said_to_give_the_future_0():
    app = compare(
        "sides",
        model="tiny-gpt2",
        model_b="tiny-bert",
        text="the cat sat",
        section="sides",
        layer="0",
        head="0",
    )
    check(app)
    shown = table(app, "query").set_index("query").to_numpy(dtype=float)
    assert shown.shape == (5, 5)  # [CLS] and [SEP] are in B alone
    assert np.array_equal(np.isfinite(shown[1:-1, 1:-1]), np.tri(3, dtype=bool))
    assert "0 cells only in A L0 H0 (rising), 19 only in" in said(app)
