"""The Why page without a browser: its numbers are the library's, and they sum."""

import re

import numpy as np
import pytest

import mha_viz as mv
from mha_viz.engine import loaded_network
from mha_viz.ui.state import link_values
from mha_viz.ui.why import pairs
from mha_viz.web.payload import map_payload, unpack
from mha_viz.web.theme import format_number
from tests.making.comparing import close
from tests.ui.compare_app import check, figures, numbers, table
from tests.ui.why_app import DOG_CAT, EFFECT, TEXT, why

GAP = "The old dog slept while the young [MASK] watched."
BIRD = "The cat saw the bird. The cat saw the"
MAN = "The cat saw the man. The cat saw the"
SUM = re.compile(r"sum to \*\*(.+?)\*\*; .* is \*\*(.+?)\*\* \(difference (.+?), from")
HEAD = dict(layer="2", head="4")
PAIR = HEAD | dict(layer_b="1", head_b="5")
LOOKS = HEAD | dict(why="score", query="9", key="4")
DOG_BIRD = dict(why="patching", target="dog", against="bird")
PATHS = EFFECT | dict(source=MAN, target="dog", against="man")


def summed(app):
    """The sum of the parts, the whole and their difference, as the page writes them."""
    return next(match.groups() for part in app.markdown if (match := SUM.search(part.value)))


def traces(app, title, kind):
    """The traces of this kind in the figure that has this title."""
    figure = next(figure for figure in figures(app) if title in str(figure))
    return [trace for trace in figure["data"] if trace["type"] == kind]


ATTRIBUTIONS = {
    "logit": ({}, lambda model: mv.logit_attribution(model, TEXT)),
    "log probability": (
        dict(target="cat", quantity="log_probability"),
        lambda model: mv.logit_attribution(model, TEXT, "cat", of="log_probability"),
    ),
    "score": (LOOKS, lambda model: mv.score_attribution(model, TEXT, 2, 4, 9, 4)),
    "score difference": (
        LOOKS | dict(versus_key="1"),
        lambda model: mv.score_attribution(model, TEXT, 2, 4, 9, 4, versus=1),
    ),
}


@pytest.mark.parametrize("case", ATTRIBUTIONS)
def test_parts_of_the_library_sum_to_the_number_they_explain(case):
    link, attribution = ATTRIBUTIONS[case]
    app = why(model="tiny-gpt2", text=TEXT, **link)
    check(app)
    expected = attribution(mv.load("tiny-gpt2"))
    total, value, difference = summed(app)
    assert (total, value) == (format_number(expected.sum()), format_number(expected.value))
    assert float(difference.replace("−", "-")) < 1e-3
    if case == "score":
        (cells,) = traces(app, "Query × key", "heatmap")
        assert expected.value == pytest.approx(numbers(cells["z"]).sum(), rel=2e-3)  # rest in it
    if case == "logit":
        piles = traces(app, "Layer by layer", "bar")
        total = sum(numbers(pile["y"]).sum() for pile in piles)
        assert total == pytest.approx(expected.sum(), 1e-4)
        close(numbers(piles[1]["y"])[1:-1], expected.heads.sum(1))


def patched(part, direction):
    return lambda model: (
        mv.patching_map(model, TEXT, BIRD, "logit_difference", part, direction,
                        target="dog", against="bird").share.ravel()
    )  # fmt: skip


# The key of the table, the link, columns of the table, and what the library has in the last one.
TABLES = {
    "logit": (
        "logit_by_layer",
        dict(target="cat", against="dog"),
        ("component", "share"),
        lambda model: mv.logit_attribution(model, TEXT, "cat", "dog").shares,
    ),
    "graph of a prediction": (
        "prediction_graph",
        DOG_CAT | dict(explained="70"),
        ("source", "through", "target", "contribution", "flow"),
        lambda model: mv.prediction_graph(model, TEXT, "dog", "cat", share=0.7).edges["flow"],
    ),
    "patched heads": (
        "patching_heads",
        DOG_BIRD | dict(source=BIRD, direction="noise"),
        ("head", "share"),
        patched("heads", "noise"),
    ),
}


@pytest.mark.parametrize("case", TABLES)
def test_table_holds_the_numbers_of_the_library(case):
    key, link, columns, expected = TABLES[case]
    app = why(key, model="tiny-gpt2", text=TEXT, **link)
    assert not app.exception and not app.error
    close(table(app, *columns)[columns[-1]].to_numpy(), np.ravel(expected(mv.load("tiny-gpt2"))))
    kept = {name: app.query_params.get(name) for name in link}
    assert kept == link or {"layer", "head"} & link.keys()  # what is the default may go


def test_pairs_that_do_not_exist_are_never_among_the_largest():
    values = np.full((4, 4), np.nan)
    values[:2, 2:] = 0.0
    pairs_of_layers = [((0, i), (1, j)) for i in range(2) for j in range(2)]
    assert pairs._largest(values, 2) == pairs_of_layers
    values[1, 3] = -3.0
    assert pairs._largest(values, 2)[0] == ((0, 1), (1, 1))


def test_estimates_of_paths_that_take_long_begin_on_request(monkeypatch):
    monkeypatch.setattr("mha_viz.interventions.importance.seconds_per_token", lambda *_: 1.0)
    app = why(model="tiny-gpt2", text=TEXT, **PATHS, **PAIR)
    assert "about 2 minutes" in app.info[0].value  # 10 tokens in 11 passes
    assert not app.get("plotly_chart")
    app.button(key="estimate_paths").click().run()
    assert app.get("plotly_chart") and not app.info


def test_path_is_measured_at_once_beside_its_estimate():
    app = why("path_effects", model="tiny-gpt2", text=TEXT, **PATHS, **PAIR)
    check(app)
    texts, tokens = (mv.load("tiny-gpt2"), TEXT, MAN), dict(target="dog", against="man")
    effect = mv.path_effect(*texts, (1, 5), (2, 4, "key"), **tokens)
    direct = app.table[0].value["Measured"]["Direct"]
    assert direct == format_number(effect.direct, signed=True)
    estimate = mv.path_effects(*texts, **tokens).estimate[1, 5, 2, 4, 1]
    rows = table(app, "Writes", "Reads", "estimate").set_index(["Writes", "Reads"])
    assert rows["estimate"]["L1 H5", "L2 H4"] == pytest.approx(estimate, rel=1e-4)
    measured = rows["Known"] == "measured"
    assert 0 < measured.sum() < len(rows) and (rows["measured"].notna() == measured).all()


def test_payload_of_the_map_of_queries_and_keys():
    texts = ["The <b>cat</b> sat.", "A dog."]
    found = mv.query_key_map(mv.load("tiny-bert"), texts)
    header, body = unpack(map_payload(found))
    assert all(words in header["title"] for words in (found.model, texts[0]))
    assert texts[1] not in header["title"]
    n, layers, heads = header["tokens"], header["layers"], header["heads"]
    assert (n, layers, heads, header["top"]) == (len(found.tokens), 4, 8, 4)
    assert header["text"] == found.text.tolist()
    assert all(len(values) == layers * heads for values in header["facts"].values())
    assert header["facts"]["correlation"][9] == pytest.approx(float(found.plane_correlation[1, 1]))
    places = np.frombuffer(body, "<u2", layers * heads * 4 * n).reshape(layers, heads, 2, n, 2)
    pairs = layers * heads * n * 4
    keys = np.frombuffer(body, "<u2", pairs, places.nbytes).reshape(found.strongest.shape)
    codes = np.frombuffer(body, "u1", pairs, places.nbytes + keys.nbytes)
    assert len(body) == places.nbytes + keys.nbytes + codes.nbytes
    assert (keys == found.strongest.numpy()).all()
    close((codes / 255.0).reshape(keys.shape) ** 2, found.weights, atol=5e-3)
    # One scale on both axes, y downwards, the whole square used.
    spans = np.ptp(places.reshape(layers, heads, -1, 2), axis=2)
    assert (spans.max(-1) == 65535).all()
    drawn, own = places[2, 5].reshape(-1, 2), found.points[2, 5].reshape(-1, 2).numpy()
    scale = np.ptp(own, axis=0).max() / 65535
    close(np.diff(drawn.astype(float), axis=0) * scale * (1, -1), np.diff(own, axis=0), atol=1e-3)


@pytest.mark.parametrize(
    ("name", "text", "before"),
    [
        ("tiny-gpt2", "The king smiled, and went to bed.", "to"),
        ("tiny-gpt2", "The old dog slept unbelievably!", "pt"),  # of several tokens
        ("tiny-gpt2", "The cat saw the", "the"),  # what follows is the question
        ("tiny-gpt2", "Dog.", "D"),  # nothing stands before it
        ("tiny-bert", GAP, "[MASK]"),
        ("tiny-bert", "The king went to bed.", "bed"),
    ],
)
def test_prediction_that_is_explained_first_is_of_a_word(name, text, before):
    app = why(model=name, text=text)
    check(app)
    tokens = mv.load(name).trace(text).tokens
    assert tokens[app.selectbox(key="ask_position").value].text == before
    assert "place" not in app.query_params


def test_of_a_text_too_long_for_it_the_page_measures_the_beginning(monkeypatch):
    model = mv.load("tiny-gpt2")
    monkeypatch.setattr(loaded_network, "MOST_BYTES", 4 * model.n_layers * model.n_heads * 7**2)
    app = why(model="tiny-gpt2", text=TEXT)
    check(app)
    assert re.findall(r"\d+", app.info[0].value)[-2:] == ["7", "10"]
    assert len(app.selectbox(key="ask_position").options) == 7
    found = mv.logit_attribution(model, TEXT, position=app.selectbox(key="ask_position").value)
    assert summed(app)[:2] == (format_number(found.sum()), format_number(found.value))
    for section in ("score", "connections"):
        app.segmented_control(key="ask_why").set_value(section).run()
        check(app)
        assert len(app.get("plotly_chart")) + len(app.get("bidi_component")) >= 1


def test_a_causal_model_offers_no_key_that_its_query_cannot_see():
    app = why(model="tiny-gpt2", text=TEXT, why="score", query="3", key="8")
    check(app)
    assert app.selectbox(key="ask_key").options[-1].startswith("3 ·")
    assert app.selectbox(key="ask_key").value <= 3


def test_a_link_opens_pins_and_folds_and_a_click_takes_a_pin_away():
    pins = dict(graph_pins="L3H1@9,L0in@1", fold="words", together="labels", explained="99")
    app = why("prediction_graph", model="tiny-gpt2", text=TEXT, **DOG_CAT, **pins)
    assert not app.exception and not app.error
    assert app.query_params["graph_pins"] == "L3H1@9,L0in@1"
    shown = table(app, "source", "target", "level", "flow")
    names = ["L3 H1 @9", "L0 in @1"]
    found = mv.prediction_graph(mv.load("tiny-gpt2"), TEXT, "dog", "cat", share=0.99, pins=names)
    assert shown["flow"][shown["level"] == 8].sum() == pytest.approx(found.path_sum, abs=1e-4)
    assert set(shown["source"][shown["level"] == 1]) == {"L0 in @1"}
    app.pills(key="pinned").set_value("L0 in @1").run()
    assert not app.exception and not app.error
    assert app.query_params["graph_pins"] == "L3H1@9"


def test_a_saved_graph_opens_where_it_belongs_and_only_there():
    model = mv.load("tiny-gpt2")
    saved = mv.prediction_graph(model, TEXT, "dog", "cat", share=0.3, pins=["L3 H1 @*"])
    other = mv.prediction_graph(model, "A bird saw a cat", share=0.3)
    app = why("prediction_graph", model="tiny-gpt2", text=TEXT, **DOG_CAT)
    app.session_state["open-graph"] = True
    app.run()

    def upload(raw):
        app.file_uploader(key="graph_upload").upload("graph.json", raw, "application/json").run()
        return table(app, "source", "through", "flow")

    before = table(app, "source", "through", "flow")
    shown = upload(saved.to_bytes())
    assert not app.exception and not app.error
    close(shown["flow"], saved.edges["flow"])
    assert "30\xa0%" in app.info[0].value and "L3 H1 @*" in app.info[0].value
    app.button(key="close_graph").click().run()
    close(table(app, "source", "through", "flow")["flow"], before["flow"])
    assert len(upload(other.to_bytes())) == len(before)
    assert "A bird saw a cat" in app.warning[0].value
    upload(b"{")
    assert not app.exception and app.error


def test_a_corrupted_text_is_made_by_swapping_words_and_an_equal_one_has_no_share():
    app = why("patching_mlp", model="tiny-gpt2", text=TEXT, **DOG_BIRD)
    check(app)
    swapped = app.text_input(key="ask_source").placeholder
    assert swapped.startswith("(none: ") and sorted(swapped[7:-1]) == sorted(TEXT)
    captions = [part.value for part in app.caption if "How to read" in part.value]
    assert captions and len(captions) == len(set(captions))  # all maps share one
    longest = link_values.token("x" * 999)
    assert app.text_input(key="ask_target").max_chars == len(longest)  # a link has it whole
    app.text_input(key="ask_source").set_value(TEXT).run()
    assert not app.exception and "share" not in table(app, "position", "effect")
