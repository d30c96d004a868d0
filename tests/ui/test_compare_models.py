"""The Compare page with two models whose heads are matched by what they do."""

import numpy as np
import pytest

import mha_viz as mv
from mha_viz.checkpoints.untrained_copy import untrained_copy
from mha_viz.core.compare.matching import match_heads
from mha_viz.core.names import MATCH_MEASURES
from mha_viz.errors import ArgumentError
from mha_viz.ui.compare.two_models import N_TEXTS
from mha_viz.ui.run.memory import SHOWN_SEED
from mha_viz.ui.state.examples import EXAMPLES
from tests.making.comparing import close
from tests.ui.compare_app import NAMES, TEXT, check, compare, figures, table
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
    [*(("tiny-bert", "tiny-llama", measure) for measure in MATCH_MEASURES),
     ("tiny-gpt2", "untrained", "cka")],
)  # fmt: skip
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
    assert app.header[0].value == f"L2 H5 and {NAMES[found.b[21]]}"
    assert link(app)["model_b"] == other and link(app).get("match", "hellinger") == measure


def test_changed_most_is_of_matched_heads_and_opens_them():
    app = compare(text=TEXT, section="models", model="tiny-gpt2", model_b="tiny-llama")
    found = matched("tiny-gpt2", "tiny-llama", "hellinger")
    most = [i for i in np.argsort(-found.distance, kind="stable") if found.found[i]][:5]
    named = app.pills(key="changed_most").options
    assert [one.split(":")[0] for one in named] == [
        f"{NAMES[i]} → {NAMES[found.b[i]]}" for i in most
    ]
    app.pills(key="changed_most").select(divmod(int(most[1]), 8)).run()
    assert f"{NAMES[most[1]]} and {NAMES[found.b[most[1]]]}" in check(app)
    chosen = link(app)
    assert (int(chosen["layer"]), int(chosen["head"])) == divmod(int(most[1]), 8)


def test_a_smaller_model_leaves_heads_without_a_counterpart(models):
    app = compare("matches", text=TEXT, section="models", layer="3", head="7")
    app.session_state["typed_models"] = [models["two"]]
    app.run()
    app.selectbox(key="ask_model_b").select(models["two"]).run()
    check(app)
    shown = table(app, "Head", "Counterpart").set_index("Head")["Counterpart"]
    small = mv.load(models["two"])
    assert (shown != "none").sum() == small.n_layers * small.n_heads < 32
    for name in NAMES:
        if shown[name] == "none":
            layer, head = name[1:].split(" H")
            app.selectbox(key="ask_layer").select(int(layer))
            app.selectbox(key="ask_head").select(int(head)).run()
            check(app)
            assert figures(app)
            break


def test_a_family_that_hides_its_outputs_is_matched_by_attention_alone(models):
    app = compare(model=models["deberta"], text=TEXT, section="models", match="cka")
    check(app)
    assert app.selectbox(key="ask_model_b").value == "tiny-bert" and "model_b" not in link(app)
    assert app.selectbox(key="ask_match").value == "hellinger"
    assert len(app.selectbox(key="ask_match").options) == 1


def test_models_without_a_common_token_are_said_to_have_none(monkeypatch):
    def nothing_in_common(*records):
        raise ArgumentError("The two models have no token of these texts in common.")

    monkeypatch.setattr("mha_viz.ui.compare.two_models.match_heads", nothing_in_common)
    app = compare(text="nothing in common", section="models")
    check(app)
    assert len(app.info) == 1 and not app.get("plotly_chart")
