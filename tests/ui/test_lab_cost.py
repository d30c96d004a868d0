"""Lab 8's page: calculators, the measuring button, the table, link and bad values."""

import re

import pytest

import mha_viz as mv
from mha_viz.core.amounts import of_bytes, short
from mha_viz.learn.labs.cost import measured
from mha_viz.learn.labs.cost.numbers import PUBLISHED, Sizes, costs
from tests.ui.compare_app import check, table
from tests.ui.lab_app import answers, lab, link

KEY = "cost"


def test_the_bill_is_that_of_the_library_and_follows_the_controls():
    app = lab(KEY, "by-heads", "growth", **{"more-heads": "1"})
    for name, value in (("n", 1024), ("d_model", 512), ("n_heads", 8), ("n_kv_heads", 2)):
        app.number_input(key=f"{KEY}-{name}").set_value(value)
    text = check(app.run())
    cost = costs(Sizes(1024, 512, 8, 2, 12, 4))
    bill = table(app, "Operations", "one layer")
    assert bill["one layer"].iloc[-1] == short(cost.layer)
    assert bill["one head"].iloc[-1] == short(cost.head)
    memory = table(app, "Memory", "12 layers").set_index("Memory")["12 layers"]
    assert memory["key-value cache"] == of_bytes(cost.cache)
    assert memory["attention weights, all kept"] == of_bytes(cost.pattern)
    assert "8 heads share 2 key and value heads" in text
    assert len(set(table(app, "heads", "operations of a layer")["operations of a layer"])) == 1
    growth = table(app, "n", "bytes of all attention weights").set_index("n")
    assert list(growth.loc[1024])[1:] == [cost.scores + cost.mixing, cost.pattern]
    asked = {k: link(app)[k] for k in ("n", "d_model", "n_heads", "n_kv_heads")}
    assert asked == {"n": "1024", "d_model": "512", "n_heads": "8", "n_kv_heads": "2"}
    again = lab(KEY, **asked)
    assert again.number_input(key=f"{KEY}-d_model").value == 512


def test_two_texts_and_a_batch_are_counted_as_such():
    app = lab(KEY, **{"n_read": "100", "batch": "8", "n": "50", "two-texts": "1", "fused": "1"})
    text = check(app)
    cost = costs(Sizes(50, 768, 12, 0, 12, 4, n_read=100, batch=8))
    assert table(app, "Operations", "one layer")["one layer"].iloc[-1] == short(cost.layer)
    assert "cross attention, 8 × 50 × 100 = **40,000** pairs" in text
    row = table(app, "One layer").set_index("One layer")
    assert row.loc["products, fused", "n = 50"] == row.loc["products, weights kept", "n = 50"]
    assert row.loc["memory, fused", "n = 100"] == of_bytes(4 * 8 * 12 * 100)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"n": "0"}, "n must lie"),
        ({"n_heads": "7"}, "do not divide"),
        ({"n_kv_heads": "5"}, "shared evenly"),
        ({"d_model": "0"}, "d_model must lie"),
    ],
)
def test_sizes_that_make_no_layer_get_a_sentence_and_the_rest_stays(asked, words):
    app = lab(KEY, models="1", **asked)
    assert not app.exception
    assert len(app.error) == 1 and words in app.error[0].value.replace("\\", "")
    assert len(table(app, "Model", "Parameters")) == len(PUBLISHED) + 1
    name, right = next(iter(asked)), {"n": 64, "n_heads": 8, "n_kv_heads": 4, "d_model": 24}
    app.number_input(key=f"{KEY}-{name}").set_value(right[name]).run()
    check(app)


def test_what_a_link_says_in_vain_is_told():
    asked = dict(n="many", bytes="3", longest="7", seed="-1", at="1e9", time_width="<b>")
    text = check(lab(KEY, models="1", measured="1", **asked)).replace("\\", "")
    for name in asked:
        assert f"{name}=" in text, text


def test_the_table_follows_its_length_and_has_the_loaded_model():
    app = lab(KEY, model="tiny-gpt2", at="1024", at_bytes="4", models="1")
    check(app)
    models = table(app, "Model", "Parameters").set_index("Model")
    assert models.loc["GPT-2 Small", "Parameters"] == "124 M"
    assert models.loc["BERT-Base", "Parameters"] == "109 M"
    assert models.loc["GPT-3 175B", "Parameters"] == "175 B"
    own = mv.load("tiny-gpt2").network.num_parameters()
    assert models.loc["tiny-gpt2", "Parameters"] == short(own)
    kept = models.loc["BERT-Base", "Weights at 1,024"]
    assert kept == of_bytes(12 * 12 * 1024**2 * 4)


def test_measuring_is_kept_under_its_settings(monkeypatch):
    monkeypatch.setattr(measured, "RUNS", 1)
    asked = dict(time_width="64", time_heads="2", longest="512", measured="1")
    app = lab(KEY, "lengths", "time-by-heads", **asked)
    assert "takes some seconds" in check(app)
    app.button(key=f"{KEY}-start").click().run()
    assert re.search(r"power \*\*-?\d\.\d\d\*\* for the projections", check(app))
    found = app.session_state[f"{KEY}-start-results"][64, 2, 512, 0]
    shown = table(app, "n", "bytes, calculated")
    assert list(shown["n"]) == [64, 128, 256, 512]
    assert list(shown["seconds, weights kept"]) == found.seconds["weights"][:4]
    assert (shown["bytes of the weights, measured"] == shown["bytes, calculated"]).all()
    counted = costs(Sizes(512, 64, 2)).projections / found.speed
    assert shown["count: projections (seconds)"].iloc[-1] == pytest.approx(counted)
    by_heads = table(app, "heads", "bytes of the weights")
    assert list(by_heads["seconds, weights kept"]) == found.seconds["weights"][4:]
    assert list(by_heads["bytes of the weights"]) == [4 * h * 512**2 for h in (1, 2, 4, 8, 16, 32)]
    # another setting has no result yet; back again, the old one is there
    app.select_slider(key=f"{KEY}-time_heads").set_value(4).run()
    assert "takes some seconds" in check(app)
    app.select_slider(key=f"{KEY}-time_heads").set_value(2).run()
    again = table(app, "n", "bytes, calculated")["seconds, weights kept"]
    assert (again == shown["seconds, weights kept"]).all()


def test_what_is_asked_before_is_answered_with_numbers():
    folds = {"more-heads": "1", "misread": "1", "two-texts": "1", "fused": "1"}
    app = lab(KEY, **folds)
    app.radio(key=f"{KEY}-predict-heads").set_value("The same")
    app.button(key=f"{KEY}-predict-heads-button").click().run()
    assert app.info[0].value.startswith("**Yes. The same")
    text = check(app)
    one, many = (costs(Sizes(512, 768, h, 0, 12)) for h in (1, 12))
    assert one.layer == many.layer
    assert f"{short(one.layer)} operations with 1 head and {short(many.layer)} with 12" in text
    found = answers(KEY, "long", "batch", "flash", "exit", **folds)
    assert found[0].startswith("**Four times") and found[3].startswith("**The memory")
