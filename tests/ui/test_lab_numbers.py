"""The numbers of the smaller labs' pages: those of the library, under the choices of a link."""

import io
from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image

import mha_viz as mv
from mha_viz.core.amounts import of_bytes, short
from mha_viz.core.stored_runs import read
from mha_viz.learn.frame import charts
from mha_viz.learn.frame.texts import Texts
from mha_viz.learn.labs.any_pattern import numbers as any_pattern
from mha_viz.learn.labs.any_pattern import patterns
from mha_viz.learn.labs.convolution import inputs
from mha_viz.learn.labs.convolution import numbers as convolution
from mha_viz.learn.labs.cost import measured
from mha_viz.learn.labs.cost.numbers import Sizes, costs
from mha_viz.learn.labs.how_heads_learn import numbers as learning_heads
from mha_viz.learn.labs.induction_circuit import numbers as induction
from mha_viz.learn.labs.own_reflection import numbers as reflection
from mha_viz.learn.labs.shared_keys import numbers as shared_keys
from mha_viz.learn.labs.soft_lookup.numbers import example, lookup
from mha_viz.learn.labs.two_places import numbers as two_places
from mha_viz.learn.labs.value_output.numbers import bill, slice_shares
from mha_viz.learn.networks import strokes
from mha_viz.web.theme import format_number
from tests.making.comparing import near
from tests.ui.compare_app import check, figures, matrices, table, written
from tests.ui.lab_app import done_once, lab, link

SENTENCE = "The cat sat on the mat."


def cells(app, title):
    """The numbers written into a matrix, with the two decimals that are shown."""
    return np.array([[float(text) for text in row] for row in written(app, title)])


def test_soft_lookup_writes_the_weights_of_its_choices():
    app = lab("soft-lookup", "spread", tokens="5", width="2", temperature="0.5")
    check(app)
    expected = lookup(*example(5, 2), temperature=0.5).pattern
    np.testing.assert_allclose(cells(app, "softmax"), expected, atol=0.0051)
    assert len(table(app, "d_k", "divided by √d_k")) == 11


def test_own_reflection_writes_weights_and_half_sums():
    app = lab("own-reflection", "arrows", "random", tokens="6", random="1")
    check(app)
    expected = reflection.reflection(torch.tensor(reflection.START)).pattern
    np.testing.assert_allclose(cells(app, "weights"), expected, atol=0.0051)
    assert len(table(app, "length", "score from dog")) == 6
    assert table(app, "width d of the tokens", "equal lengths")["equal lengths"].sum() == 0
    app = lab("own-reflection", tokens="3", x3="1,2;3,-1;1,2", **{"half-true": "1"})
    check(app)
    off = 1 - np.eye(3)[[0, 1, 0]] - np.eye(3)[[2, 1, 2]]  # tokens 1 and 3 are the same
    off[1, 1] = 0
    np.testing.assert_array_equal(cells(app, "(x·x + y·y)/2"), 6.5 * off)
    np.testing.assert_array_equal(cells(app, "distance d(x, y)"), 3.61 * off)  # the root of 13


def test_two_places_shows_a_training_under_its_settings_only(monkeypatch):
    values, markdown = {}, Texts.markdown

    def record(texts, name, /, **given):
        values[name] = given
        markdown(texts, name, **given)

    monkeypatch.setattr(Texts, "markdown", record)
    app = lab("two-places", "few", "rank", rank="1", steps="100", width="8", seed="1")
    assert check(app) and not figures(app)
    with done_once("mha_viz.learn.labs.two_places.numbers.learn"):
        app.button(key="two-places-train").click().run()
        runs = two_places.learn((1, 2, 4, 8), 100, 1, 3, 8, 8)
    check(app)
    curve = table(app, "step", "2 heads, mean")
    assert curve["2 heads, mean"].iloc[-1] == near(float(runs[2].both[:, -1].mean()))
    ends = torch.stack([runs[2].first, runs[2].second])[:, :, -1].sort(0).values.mean(1)
    of_two = values["learned.accuracy"]
    assert [float(of_two["other"]), float(of_two["better"])] == near(ends.tolist())
    assert float(values["best.accuracy"]["last"]) == near(float(runs[8].both[:, -1].mean()))
    ranks = table(app, "heads", "scores Q Kᵀ")
    assert list(ranks["heads"]) == [1, 2, 4, 8]  # 16 do not divide a width of 8
    assert (ranks["scores Q Kᵀ"] <= ranks["d_head"]).all()
    shown = len(figures(app))
    for seed, n_figures in ((2, 0), (1, shown)):
        app.select_slider(key="two-places-seed").set_value(seed).run()
        check(app)
        assert len(figures(app)) == n_figures


@pytest.mark.parametrize(
    ("button", "choices"),
    [
        ("own-reflection-train", {"steps": "50", "curve": "1"}),
        ("convolution-train", {"learning": "1", "learnseed": "2"}),
        ("any-pattern-real", {"tokens": "5", "repeat": "1", "d_model": "8", "real-inputs": "1"}),
    ],
)
def test_results_of_a_button_are_drawn_once_it_is_pressed(
    monkeypatch, few_fit_steps, button, choices
):
    monkeypatch.setattr(strokes, "learn", partial(strokes.learn, (8, 16), n_steps=40))
    app = lab(button.rpartition("-")[0], **choices)
    before = len(figures(app)) + len(matrices(app))
    app.button(key=button).click().run()
    check(app)
    assert len(figures(app)) + len(matrices(app)) > before and link(app) == choices


def test_value_output_numbers_are_those_of_the_model():
    model = "tiny-llama"
    app = lab(
        "value-output", "operations", "spectrum", "lengths", model=model, text=SENTENCE, layer="2",
        head="5", n="1024", rank="1", **{"why-output": "1"},
    )  # fmt: skip
    check(app)
    values = table(app, "number", "singular value")["singular value"]
    assert len(values) == 256 and values[32] < 1e-12 * values[0]
    assert table(app, "H7", "difference from the model")["difference from the model"].max() < 1e-4
    row = table(app, "d_v", "operations, one").set_index("d_v").loc[32]
    assert (row["operations, two"], row["operations, one"]) == bill(1024, 256, 32).operations
    shares = slice_shares(mv.load(model).trace(SENTENCE).head_output[2]).diagonal()
    diagonal = cells(app, "Share of each").diagonal()
    np.testing.assert_allclose(diagonal, shares[: len(diagonal)], atol=0.0051)


FOLDS = dict.fromkeys(("sharpness", "at-the-border", "one-head", "cost"), "1")


def test_convolution_numbers_are_those_of_conv2d_and_its_heads(monkeypatch):
    shown_sums, formula = {}, charts.matrix_formula
    monkeypatch.setattr(
        charts, "matrix_formula", lambda x, title: formula(shown_sums.setdefault(title, x), title)
    )
    app = lab("convolution", "both", "tiles", "sharpness-figure", preset="edge", side="16",
              alpha="3", row="3", column="5", **FOLDS)  # fmt: skip
    check(app)
    picture = inputs.picture("house", 16)
    kernel = torch.tensor(inputs.kernel_numbers("edge", 3))[None, None]
    shown = table(app, "Conv2d", "attention")
    expected = convolution.attend(picture, kernel, 3.0).flatten()
    assert shown["attention"].to_numpy() == near(expected.numpy())
    exact = torch.conv2d(picture[None, :, :, 0], kernel, padding=1).flatten()
    assert shown["Conv2d"].to_numpy() == near(exact.numpy())
    chosen = float(shown.query("row == 3 and column == 5")["attention"].iloc[0])
    assert table(app, "rows down")["adds (first channel)"].sum() == near(chosen)
    assert float(shown_sums["they add"].sum()) == near(chosen)
    assert len(table(app, "alpha", "bound")) > 10
    pictures = [matrix for matrix in matrices(app) if matrix["scale"] == "grey"]
    assert [matrix["marked"] for matrix in pictures[:4]] == [[[3, 5]]] * 4


def test_convolution_takes_an_uploaded_picture_and_refuses_other_files():
    def upload(data, **choices):
        app = lab("convolution", picture="yours", **choices)
        app.file_uploader(key="convolution-file").upload("picture.png", data, "image/png").run()
        assert not app.exception
        return app

    def png(*size):
        file = io.BytesIO()
        Image.new("RGB", size).save(file, "PNG")
        return file.getvalue()

    for size in ((1, 1), (3000, 1), (100, 200)):
        check(upload(png(*size), size="5", colour="1"))
    for data in (b"no picture", png(2100, 2000)):
        app = upload(data)
        assert len(app.error) == 1
        app.selectbox(key="convolution-picture").set_value("rings").run()
        check(app)


@pytest.fixture
def few_fit_steps(monkeypatch):
    whole = any_pattern.fit
    monkeypatch.setattr(
        any_pattern, "fit", lambda *args, **options: whole(*args, **options | {"steps": 100})
    )


def test_any_pattern_fits_are_shown_and_kept_under_their_settings(few_fit_steps):
    app = lab("any-pattern", "errors", pattern="near", tokens="5", seed="3", rank="1",
              **{"fixed-pattern": "1"})  # fmt: skip
    assert check(app) and len(figures(app)) == 1
    app.button(key="any-pattern-fit").click().run()
    check(app)
    expected = any_pattern.fit(patterns.pattern_of(patterns.preset("near", 5)), 3)
    shown = table(app, "KL", "scores off")
    assert shown["KL"].to_numpy() == near(expected.kl.numpy())
    assert (shown["scores off"] >= shown["scores off, at least"] - 1e-3).all()
    apart = (expected.pattern[:2] - expected.target).flatten(1).norm(dim=1)
    assert list(table(app, "Â")["‖A − Â‖, 5 × 5"][:2]) == list(map(format_number, apart.tolist()))
    n_figures = len(figures(app))
    for seed, n in ((4, 1), (3, n_figures)):
        app.number_input(key="any-pattern-seed").set_value(seed).run()
        check(app)
        assert len(figures(app)) == n


def _rows(app, corner):
    """Return the rows of the table in markdown whose first cell is `corner`, by their names."""
    shown = (part.value.replace("\N{NO-BREAK SPACE}", " ") for part in app.markdown)
    text = next(text for text in shown if text.startswith(f"| {corner}"))
    lines = ([cell.strip() for cell in line.strip("| ").split("|")] for line in text.splitlines())
    return {name: cells for name, *cells in lines}


def test_cost_tables_follow_the_controls():
    app = lab("cost", "growth", n_read="100", batch="8", **{"two-texts": "1", "fused": "1"})
    sizes = {"n": 50, "d_model": 512, "n_heads": 8, "n_kv_heads": 2}
    for name, value in sizes.items():
        app.number_input(key=f"cost-{name}").set_value(value)
    check(app.run())
    cost = costs(Sizes(**sizes, n_layers=12, bytes_each=4, n_read=100, batch=8))
    operations, memory, fused = (_rows(app, name) for name in ("Operations", "Memory", "One layer"))
    assert operations["together"][1] == short(cost.layer)
    assert memory["key-value cache"][1] == of_bytes(cost.cache)
    assert memory["attention weights, all kept"][1] == of_bytes(cost.pattern)
    assert fused["One layer"] == ["n = 50", "n = 100"]
    assert fused["products, fused"] == fused["products, weights kept"]
    assert fused["memory, fused"][1] == of_bytes(4 * 8 * 8 * 100)
    assert fused["key-value cache"][1] == of_bytes(4 * 2 * 8 * 200 * 2 * 64)
    assert {name: link(app)[name] for name in sizes} == {k: str(v) for k, v in sizes.items()}


def test_induction_circuit_tables_are_those_of_its_numbers():
    folds = dict.fromkeys(("patterns", "score", "composition", "cut", "senders"), "1")
    app = lab("induction-circuit", "shares", "senders-figure", "edges", "test", words="6",
              seed="2", word="0", **folds)  # fmt: skip
    check(app)
    model = mv.load(induction.MODEL)
    circuit = induction.find_circuit(model, 6, 2)
    score = induction.score_difference(model, circuit, circuit.readers[0], 0)
    first = table(app, "component", "share")["component"].iloc[0]
    assert first == induction.by_key_component(score).component[0]
    loss = induction.cuts(circuit).loss
    assert list(table(app, "Path cut")["Loss, nats"]) == near(list(loss))
    by_sender = table(app, "head", "more")
    assert by_sender.more.idxmax() == circuit.writers[0][1]
    assert list(by_sender.loss) == near(list(induction.cut_by_sender(circuit).loss))
    stored = read(induction.STORED[0])
    shown, expected = table(app, "edges", "faithfulness"), stored.curve
    assert list(shown.faithfulness) == near(list(expected.faithfulness))
    assert list(table(app, "heads", "share").share) == near(list(stored.tested.table().share))
    assert link(app) == {"words": "6", "seed": "2", "word": "0", **folds}


def test_shared_keys_distances_and_patterns_are_those_of_the_model():
    app = lab("shared-keys", "distances", of_layer="2", sentence="judge")
    check(app)
    stored = read(shared_keys.STORED[0])
    shown = table(app, "layer", "same keys")
    assert shown["same keys"].to_numpy() == near(stored.within.mean(0).numpy())
    assert shown["different keys"].to_numpy() == near(stored.between.mean(0).numpy())
    record = mv.load(shared_keys.MODEL).trace("The judge has not yet read the letter.")
    (far, _), (close, _) = stored.extreme_pairs(2)
    drawn = {matrix["title"]: matrix for matrix in matrices(app)}
    for head in (far, close):
        matrix = drawn[f"L2 H{head}, keys {head // 4}"]
        assert matrix["numbers"] == near(record[2, head].flatten().tolist())
        assert matrix["names"][0] == list(record.labels)


def test_measured_times_and_bytes_are_those_of_the_settings(monkeypatch):
    monkeypatch.setattr(measured, "RUNS", 1)
    settings = dict(time_width="64", time_heads="2", longest="512", measured="1")
    app = lab("cost", "lengths", "time-by-heads", **settings)
    app.button(key="cost-start").click().run()
    check(app)
    assert link(app) == settings
    found = app.session_state["cost-start-results"][64, 2, 512, 0]
    shown = table(app, "n", "bytes, calculated")
    assert list(shown["n"]) == [64, 128, 256, 512]
    assert list(shown["seconds, weights kept"]) == list(found.times["weights"][:4])
    assert (shown["bytes of the weights, measured"] == shown["bytes, calculated"]).all()
    counted = costs(Sizes(512, 64, 2)).projections / found.speed
    assert shown["count: projections (seconds)"].iloc[-1] == pytest.approx(counted)
    by_heads = table(app, "heads", "bytes of the weights")
    assert list(by_heads["bytes of the weights"]) == [4 * h * 512**2 for h in (1, 2, 4, 8, 16, 32)]


def test_how_heads_learn_shows_its_stored_run_and_no_other_until_it_is_trained():
    key, folds = "how-heads-learn", dict.fromkeys(("one-step", "decay", "curvature"), "1")
    app = lab(key, "curves", "landscape-figure", landscape="1", **folds)
    text = check(app)
    scores = read(learning_heads.FILM).numbers["induction"][:, 1, 0].tolist()
    assert list(table(app, "step", "L1 H0")["L1 H0"]) == near(scores)
    assert format_number(read(learning_heads.CURVATURE).smallest) in text
    for kind in learning_heads.PLANES:
        app.button_group(key=f"{key}-plane").set_value(kind).run()
        loss = read(learning_heads.PLANES[kind]).loss
        assert list(table(app, "second direction", "loss")["loss"]) == near(loss.flatten())
    app = lab(key, steps="100")
    assert check(app) and not figures(app)
