"""Lab 14's page: distances, patterns, caches, an RNN, link and bad values."""

import mha_viz as mv
from mha_viz.learn.frame import stored_runs
from mha_viz.learn.labs.cost.numbers import Sizes, costs
from mha_viz.learn.labs.shared_keys import numbers
from tests.making.comparing import near
from tests.ui.compare_app import check, matrices, table
from tests.ui.lab_app import answers, lab, link, warns_of

KEY = "shared-keys"


def test_the_stored_distances_are_shown_at_once_with_chance_beside_them():
    app = lab(KEY, "distances")
    text = check(app)
    found = stored_runs.read(numbers.STORED[0])
    shown = table(app, "layer", "same keys")
    assert shown["same keys"].to_numpy() == near(found.within.mean(0).numpy())
    assert shown["different keys"].to_numpy() == near(found.between.mean(0).numpy())
    assert "34, 6, 2 and 3 of them" in text and "**15%** of cases" in text
    assert app.button(key=f"{KEY}-train").label == "Run it yourself" and link(app) == {}


def test_patterns_of_four_heads_are_those_of_the_model():
    app = lab(KEY, of_layer="2", sentence="judge")
    check(app)
    record = mv.load(numbers.MODEL).trace("The judge has not yet read the letter.")
    (far, _), (close, _) = stored_runs.read(numbers.STORED[0]).extreme_pairs(2)
    shown = {matrix["title"]: matrix for matrix in matrices(app)}
    for head in (far, close):
        matrix = shown[f"L2 H{head}, keys {head // 4}"]
        assert matrix["numbers"] == near(record[2, head].flatten().tolist())
        assert matrix["names"][0] == list(record.labels)
    assert link(app) == {"of_layer": "2", "sentence": "judge"}


def test_caches_and_bad_sizes():
    app = lab(KEY, "caches")
    check(app)
    shown = table(app, "n", "grouped: 8").set_index("n")
    assert shown.loc[4096, "grouped: 8"] == costs(Sizes(4096, 8192, 64, 8, 80, 2)).cache
    assert (shown["multi-head: 64"] == 8 * shown["grouped: 8"]).all()
    app = lab(KEY, n_heads="7")
    assert len(app.error) == 1 and "do not divide" in app.error[0].value


def test_attention_stands_beside_an_rnn():
    app = lab(KEY, "paths", **{"rnn_width": "4", "against-rnn": "1"})
    check(app)
    shown = table(app, "n", "path, RNN").set_index("n")
    assert shown.loc[64, "path, RNN"] == 64 and shown.loc[64, "path, attention"] == 3
    for kind in ("attention", "RNN", "convolution"):
        assert (shown[f"products, {kind}"] == shown[f"formula, {kind}"]).all()


def test_what_a_link_says_in_vain_is_told():
    warns_of(KEY, sentence="<b>", bytes="3")


def test_the_answers():
    found = answers(KEY, "alike", "path", "exit", **{"against-rnn": "1"})
    assert "chance does as well" in found[0] and found[1].startswith("**64 and 3")
    assert found[2].startswith("**The key-value cache")
