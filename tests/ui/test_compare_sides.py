"""The Compare page with two texts or two models side by side."""

from dataclasses import replace

import numpy as np
import pytest

import mha_viz as mv
from mha_viz.checkpoints.untrained_copy import untrained_copy
from mha_viz.core.compare.alignment import align, aligned, equal_places, pattern_change
from mha_viz.ui.run.memory import SHOWN_SEED
from tests.making.comparing import close, near
from tests.ui.compare_app import MODELS, NAMES, OTHER, TEXT, check, compare, said, seen, table


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
    assert app.header[0].value == f"{NAMES[order[1]]} and {NAMES[order[1]]}" and not app.exception


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


@pytest.mark.parametrize("name", MODELS)  # BERT puts [CLS] and [SEP] into every text
def test_of_texts_without_a_common_token_no_difference_is_drawn(name):
    app = compare(
        model=name, text="xx yy zz", section="sides", text_b="When did?", layer="0", head="0"
    )
    check(app)
    assert len(app.info) == 1 and len(app.get("plotly_chart")) == 3  # two heads and their metrics
    assert not [part for part in app.dataframe if "Change" in part.value]


def test_two_models_are_compared_by_words():
    app = compare("sides", "changes", text=TEXT, section="sides", model_b="tiny-gpt2", layer="2")
    text = check(app)
    bert, gpt2 = (mv.load(name).trace(TEXT).merge_words() for name in MODELS)
    assert f"{len(bert.tokens)} words" in text and f"{len(gpt2.tokens)} words" in text
    metrics = table(app, "Metric", "A L2 H0", "B L2 H0").set_index("Metric")
    assert metrics.loc["Entropy", "A L2 H0"] == near(float(mv.head_report(bert).entropy[16]))


def test_a_head_stands_beside_the_same_head_of_its_untrained_copy(model, record):
    place = {"layer": "1", "head": "3", "layer_b": "1", "head_b": "3"}
    app = compare(
        "sides", text=TEXT, section="sides", model=model.name, model_b="untrained", **place
    )
    text = check(app)
    other = untrained_copy(model, SHOWN_SEED).trace(TEXT)
    difference = seen(other.head(1, 3), other.causal) - seen(record.head(1, 3), record.causal)
    close(table(app, "query").set_index("query"), difference)  # of tokens: both cut it alike
    told = mv.describe_difference(record, (1, 3), (1, 3), other=other).sentences
    shown = text.replace("\\", "")
    assert len(told) >= 4 and all(part.numbers for part in told)
    assert all(part.text.split(";")[0].replace("\\", "") in shown for part in told[2:])
    assert app.query_params["model_b"] == "untrained"
    after = "tiny-gpt2" if model.name == "tiny-bert" else "tiny-bert"
    app.session_state["view"] = replace(app.session_state["view"], model=after)
    text = check(app.run()).replace("\\", "")
    assert f"{after} (random weights)" in text and model.name not in text
