"""The Compare page with two models or two texts: matched heads, and heads side by side."""

import numpy as np
import pytest

import mha_viz as mv
from mha_viz.checkpoints.untrained_copy import untrained_copy
from mha_viz.core.compare.alignment import align, aligned, equal_places, pattern_change
from mha_viz.core.compare.matching import match_heads
from mha_viz.ui.compare.two_models import N_TEXTS
from mha_viz.ui.run.memory import SHOWN_SEED
from mha_viz.ui.state.examples import EXAMPLES
from tests.making.comparing import close
from tests.ui.compare_app import (
    NAMES,
    OTHER,
    TEXT,
    board,
    board_names,
    check,
    compare,
    said,
    seen,
    table,
)
from tests.ui.lab_app import link


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
    assert list(shown["Beyond chance"] == "yes") == found.found.tolist()
    assert f"{found.found.sum()} of 32 heads" in text and f"{found.n_rows} tokens" in text
    layers = table(app, "B L0", "B L3").to_numpy()
    assert layers.sum() == found.found.sum()
    expected = np.zeros((4, 4))
    for i, j in zip(found.a[found.found] // 8, found.b[found.found] // 8, strict=True):
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
