"""The Circuits page without a browser: its numbers are the library's own, and they sum."""

import base64
import json
import re
from dataclasses import replace

import numpy as np
import pytest

import mha_viz as mv
from mha_viz.engine import loaded_network
from mha_viz.ui.circuits.graph import FINEST
from mha_viz.ui.intervene.importance import default_texts
from mha_viz.ui.state.views import CIRCUITS, DEFAULT
from mha_viz.ui.widgets.components.query_key_map import payload_of
from mha_viz.web.payload import unpack
from mha_viz.web.theme import format_number
from tests.making.comparing import close
from tests.making.pairwise import pairwise
from tests.ui.circuits_app import TEXT, circuits
from tests.ui.compare_app import HOSTILE, MODELS, check, said, table

GAP = "The old dog slept while the young [MASK] watched."
SUM = re.compile(r"The parts sum to \*\*(.+?)\*\*; .* is \*\*(.+?)\*\* \(difference (.+?), from")


def summed(app):
    """The sum of the parts, the whole and their difference, as the page says them."""
    found = [SUM.search(part.value) for part in app.markdown]
    return next(one.groups() for one in found if one)


def _figure(chart):
    return json.loads(chart.proto.spec)


def _numbers(written):
    """The numbers of a trace, as plotly writes them for the browser."""
    if isinstance(written, dict):
        code = np.dtype(written["dtype"])
        flat = np.frombuffer(base64.b64decode(written["bdata"]), code)
        return flat.reshape([int(n) for n in str(written.get("shape", len(flat))).split(",")])
    return np.array(written, dtype=float)


# These two draw what has been measured.
DRAWN = [section for section in CIRCUITS if section not in ("edges", "test")]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("section", DRAWN)
def test_every_section_shows_something_at_once(name, section):
    app = circuits(model=name, circuit=section)
    check(app)
    assert section == "map" or len(app.get("plotly_chart")) >= 1
    assert not app.warning
    assert bool(app.info) == (section == "weights" and name == "tiny-bert")  # it has no OV circuit


def test_the_parts_of_a_logit_and_the_running_guess_are_the_librarys():
    app = circuits("logit_by_layer", model="tiny-gpt2", text=TEXT, target="cat", against="dog")
    found = mv.logit_attribution(mv.load("tiny-gpt2"), TEXT, "cat", "dog")
    check(app)
    assert summed(app)[:2] == (format_number(found.sum()), format_number(found.value))
    assert float(summed(app)[2]) < 1e-3
    assert "what raises all logits alike" not in said(app)  # it is in no difference
    shown = table(app, "component", "share")
    assert shown["component"].tolist() == [one.name for one in found.components]
    close(shown["share"], found.shares.numpy())
    # The running guess ends with the model's own.
    guesses = app.table[0].value
    assert list(guesses.index) == ["embedding", "L0", "L1", "L2", "L3"]
    first = mv.predict(mv.load("tiny-gpt2"), TEXT, top_k=1)
    assert guesses["Guess 1"].iloc[-1].startswith(first.candidates[0])
    assert "Nobody has trained it for that" in said(app)


def test_the_piles_of_the_layers_sum_to_the_logit_and_a_head_is_split_by_the_tokens_it_reads():
    """Covers what the head promotes as well."""
    link = dict(model="tiny-gpt2", text=TEXT, layer="2", head="4")
    app = circuits("logit_by_source", "head_tokens", **link)
    assert "what raises all logits alike" in said(app)
    model = mv.load("tiny-gpt2")
    found = mv.logit_attribution(model, TEXT)
    figure = next(f for f in map(_figure, app.get("plotly_chart")) if "Layer by layer" in str(f))
    piles = [trace for trace in figure["data"] if trace["type"] == "bar"]
    assert [trace["name"] for trace in piles][:2] == ["embedding", "heads"]
    assert sum(_numbers(trace["y"]).sum() for trace in piles) == pytest.approx(found.sum(), 1e-4)
    heads = _numbers(piles[1]["y"])[1:-1]
    close(heads, found.heads.sum(1))
    shown = table(app, "position", "token", "share")
    close(shown["share"], found.sources[2, 4].numpy())
    assert f"sum to its share, {format_number(found.heads[2, 4])}" in said(app).replace("\\", "")
    promoted = mv.head_tokens(model, TEXT, 2, 4)
    assert table(app, "promoted", "suppressed")["promoted"].tolist() == list(promoted.promoted)


def test_a_masked_model_guesses_the_last_word_or_the_gap():
    app = circuits(model="tiny-bert")
    assert app.selectbox(key="ask_place").value == 18  # "bed", before the full stop
    assert "[MASK]" in said(app)
    app = circuits(model="tiny-bert", text=GAP)
    place = app.selectbox(key="ask_place").value
    assert mv.load("tiny-bert").trace(GAP).labels[place] == "[MASK]"
    assert summed(app)[1] == format_number(
        mv.logit_attribution(mv.load("tiny-bert"), GAP, position=place).value
    )


@pytest.mark.parametrize(
    ("text", "before"),
    [
        ("The king smiled, and went to bed.", "to"),
        ("The old dog slept unbelievably!", "pt"),  # the last word is of several tokens
        ("The cat saw the", "the"),  # what follows is the question
        ("?!", "!"),
        ("Dog.", "D"),  # nothing stands before it
    ],
)
def test_a_causal_model_predicts_a_word_not_what_follows_the_full_stop(text, before):
    app = circuits(model="tiny-gpt2", text=text)
    place = app.selectbox(key="ask_place").value
    tokens = mv.load("tiny-gpt2").trace(text).tokens
    assert tokens[place].text == before
    check(app)


def test_of_a_text_too_long_for_it_the_page_measures_the_beginning(monkeypatch):
    model = mv.load("tiny-gpt2")
    monkeypatch.setattr(loaded_network, "MOST_BYTES", 4 * model.n_layers * model.n_heads * 7**2)
    app = circuits(model="tiny-gpt2", text=TEXT)
    check(app)
    assert "it measures the first 7 of 10 tokens" in app.info[0].value
    assert len(app.selectbox(key="ask_place").options) == 7
    found = mv.logit_attribution(model, TEXT, position=app.selectbox(key="ask_place").value)
    assert summed(app)[:2] == (format_number(found.sum()), format_number(found.value))
    for section in ("looks", "graph"):
        app.segmented_control(key="ask_circuit").set_value(section).run()
        check(app)
        assert len(app.get("plotly_chart")) + len(app.get("bidi_component")) >= 1


def test_the_first_view_of_a_causal_model_is_about_a_word():
    app = circuits(model="tiny-gpt2")
    place = app.selectbox(key="ask_place").value
    assert "place" not in app.query_params
    found = mv.predict(mv.load("tiny-gpt2"), DEFAULT.text, position=place, top_k=1)
    assert found.candidates[0].isalpha()
    follows = mv.load("tiny-gpt2").trace(DEFAULT.text).tokens[place + 1]
    assert follows.text.isalpha()


def test_a_log_probability_is_taken_apart_too_but_no_difference_of_two():
    app = circuits(model="tiny-gpt2", text=TEXT, target="cat", quantity="log_probability")
    model = mv.load("tiny-gpt2")
    found = mv.logit_attribution(model, TEXT, "cat", of="log_probability")
    assert summed(app)[1] == format_number(found.value)
    app.text_input(key="ask_against").set_value("dog").run()
    check(app)
    assert app.selectbox(key="ask_quantity").disabled
    assert summed(app)[1] == format_number(mv.logit_attribution(model, TEXT, "cat", "dog").value)


def test_the_score_of_a_pair_is_the_librarys_and_sums():
    link = dict(model="tiny-gpt2", text=TEXT, circuit="looks", layer="2", head="4")
    app = circuits("score_matrix", **link, query="9", key="4")
    model = mv.load("tiny-gpt2")
    found = mv.score_attribution(model, TEXT, 2, 4, 9, 4)
    check(app)
    assert summed(app)[:2] == (format_number(found.sum()), format_number(found.value))
    shown = table(app, "query_component", "key_component", "share")
    close(shown["share"], found.table()["share"])
    app.selectbox(key="ask_versus_key").set_value(1).run()
    check(app)
    less = mv.score_attribution(model, TEXT, 2, 4, 9, 4, versus=1)
    assert summed(app)[1] == format_number(less.value)
    assert app.query_params["versus_key"] == "1"


def test_what_the_matrix_leaves_out_is_summed_in_it():
    app = circuits(model="tiny-gpt2", text=TEXT, circuit="looks", layer="3", head="1", query="9")
    figure = next(f for f in map(_figure, app.get("plotly_chart")) if "Query × key" in str(f))
    cells = next(trace for trace in figure["data"] if trace["type"] == "heatmap")
    assert float(summed(app)[1]) == pytest.approx(_numbers(cells["z"]).sum(), rel=2e-3)


def test_a_causal_model_offers_no_key_that_its_query_cannot_see():
    app = circuits(model="tiny-gpt2", text=TEXT, circuit="looks", query="3", key="8")
    check(app)
    assert app.selectbox(key="ask_key").options[-1].startswith("3 ·")
    assert app.selectbox(key="ask_key").value <= 3


# -- odd input -------------------------------------------------------------------------------------


TEXTS = {
    "sentence": "the cat sat",
    "one": "a",
    "equal": "the the the the",
    "hostile": HOSTILE,
    "long": "the cat " * 300,
}


@pairwise(
    dear=True,
    model=["tiny-gpt2", "headless", "deberta", "t5", "llama", "one", "tall"],
    text=TEXTS,
    section=CIRCUITS,
)
def test_any_text_of_any_model_in_every_section(models, model, text, section):
    """Covers what a family or a text does not allow: sentences tell it, and the rest works."""
    app = circuits(model=models.get(model, model), circuit=section, text=TEXTS[text])
    check(app)
    assert model != "tiny-gpt2" or bool(app.warning) == (text == "long")
    begins = [one for one in app.button if one.key == "find_edges"]
    assert bool(begins) == (section == "edges" and not app.info)
    assert app.info or app.get("plotly_chart") or begins or section in ("map", "test")
    for told in app.info:
        assert told.value.replace("\\", "").endswith((".", ")")), told.value


@pytest.mark.parametrize(
    ("link", "words"),
    [
        (dict(circuit="looks", versus_key="999"), "does not have"),
        (dict(circuit="everything"), "is not valid"),
        (dict(quantity="<b>"), "is not valid"),
        (dict(through="X"), "is not valid"),
        (dict(layer="9", head="9"), "There is no L9 H9"),
    ],
)
def test_what_a_link_asks_for_in_vain_is_said_in_a_sentence(link, words):
    app = circuits(model="tiny-gpt2", text=TEXT, **link)
    check(app)
    assert words in app.warning[0].value.replace("\\", "")


def test_a_word_that_is_no_token_is_an_error_that_leaves_the_page_alone():
    app = circuits(model="tiny-gpt2", text=TEXT, target="zyxwvut")
    assert not app.exception and len(app.error) == 1 and "zyxwvut" in app.error[0].value
    app.text_input(key="ask_target").set_value("").run()
    check(app)


def test_a_second_sentence_plays_no_part_and_the_page_says_so():
    app = circuits(model="tiny-bert", text="the cat sat", pair="the dog ran")
    check(app)
    assert "plays no part" in app.info[0].value
    alone = mv.logit_attribution(mv.load("tiny-bert"), "the cat sat", position=3)
    assert summed(app)[1] == format_number(alone.value)


def test_the_page_keeps_what_others_have_chosen():
    app = circuits(model="tiny-bert", text=DEFAULT.text, section="twins", circuit="looks")
    assert app.query_params["section"] == "twins" and app.query_params["circuit"] == "looks"


# -- the graph -------------------------------------------------------------------------------------


def test_the_graph_leads_into_the_chosen_token_and_what_is_chosen_in_it_stands_below():
    link = dict(model="tiny-gpt2", text=TEXT, circuit="graph", graph_of="state", place="6")
    app = circuits("flow_graph", **link, layer="2", head="4")
    assert not app.exception and not app.error
    found = mv.flow_graph(mv.load("tiny-gpt2"), TEXT, 6, FINEST)
    shown = next(f.value for f in app.dataframe if "contribution" in f.value)
    assert len(shown) == len(found.edges)
    np.testing.assert_allclose(shown["share"], found.edges["share"], rtol=1e-4)
    assert [one.value for one in app.header] == ["Why L2 H4 looks there", "What L2 H4 writes"]
    app.session_state.view = replace(app.session_state.view, layer=1, head=5, query=8, key=7)
    app.run()
    assert not app.exception and not app.error
    found = mv.score_attribution(mv.load("tiny-gpt2"), TEXT, 1, 5, 8, 7)
    assert summed(app)[1] == format_number(found.value)


PREDICTION = dict(model="tiny-gpt2", text=TEXT, circuit="graph", target="dog", against="cat")


def test_the_graph_of_a_prediction_is_the_librarys():
    app = circuits("prediction_graph", **PREDICTION, explained="70", layer="2", head="4")
    assert not app.exception and not app.error
    found = mv.prediction_graph(mv.load("tiny-gpt2"), TEXT, "dog", "cat", share=0.7)
    shown = table(app, "source", "through", "target", "contribution", "flow")
    assert shown["target"].tolist() == found.edges["target"].tolist()
    close(shown["flow"], found.edges["flow"])
    assert [one.value for one in app.header] == ["Why L2 H4 looks there", "What L2 H4 writes"]
    app.slider(key="ask_explained").set_value(55).run()
    assert not app.exception and not app.error
    assert app.query_params["explained"] == "55"
    assert len(table(app, "source", "through", "target", "flow")) < len(shown)


def test_a_link_opens_pins_and_folds_and_a_click_takes_a_pin_away():
    pins = dict(graph_pins="L3H1@9,L0in@1", fold="words", together="labels", explained="99")
    app = circuits("prediction_graph", **PREDICTION, **pins)
    assert not app.exception and not app.error
    assert app.query_params["graph_pins"] == "L3H1@9,L0in@1"
    shown = table(app, "source", "target", "level", "flow")
    names = ["L3 H1 @9", "L0 in @1"]
    found = mv.prediction_graph(mv.load("tiny-gpt2"), TEXT, "dog", "cat", share=0.99, pins=names)
    assert shown["flow"][shown["level"] == 8].sum() == pytest.approx(found.held, abs=1e-4)
    assert set(shown["source"][shown["level"] == 1]) == {"L0 in @1"}
    app.pills(key="pinned").set_value("L0 in @1").run()
    assert not app.exception and not app.error
    assert app.query_params["graph_pins"] == "L3H1@9"
    app.pills(key="pinned").set_value("").run()
    assert not app.exception and not app.error
    assert "graph_pins" not in app.query_params


def test_pins_that_a_text_does_not_have_are_told_and_can_be_cleared():
    app = circuits(**PREDICTION, graph_pins="L3H1@99")
    assert not app.exception and "no node L3 H1 @99" in app.error[0].value.replace("\\", "")
    app.pills(key="pinned").set_value("").run()
    check(app)


@pytest.mark.extended
def test_the_graph_over_a_tasks_pairs_is_the_librarys_folded_by_layer():
    over = dict(averaged="1", task="closing", together="layers", fold="text")
    app = circuits("prediction_graph", **PREDICTION, **over)
    assert not app.exception and not app.error
    model = mv.load("tiny-gpt2")
    found = mv.task_graph(model, mv.make_task(model, "closing"))
    names = {(i, j): "all heads" for i in range(4) for j in range(8)}
    shown = table(app, "source", "through", "contribution", "flow")
    folded = found.grouped("text", names)
    close(shown["flow"], folded.edges["flow"])
    assert shown["through"].dropna().str.contains("all heads").any()
    assert "as a mean over the pairs of the task" in said(app)
    assert [one.value for one in app.header] == []


def test_a_saved_graph_opens_where_it_belongs_and_only_there():
    model = mv.load("tiny-gpt2")
    saved = mv.prediction_graph(model, TEXT, "dog", "cat", share=0.3, pins=["L3 H1 @*"])
    other = mv.prediction_graph(model, "A bird saw a cat", share=0.3)
    app = circuits("prediction_graph", **PREDICTION)
    app.session_state["open-graph"] = True
    app.run()

    def upload(raw):
        app.file_uploader(key="graph_upload").upload("graph.json", raw, "application/json").run()
        return table(app, "source", "through", "flow")

    before = table(app, "source", "through", "flow")
    shown = upload(saved.to_bytes())
    assert not app.exception and not app.error
    close(shown["flow"], saved.edges["flow"])
    assert "from a file: 30% of all contributions, pins: L3 H1 @*" in app.info[0].value
    app.button(key="close_graph").click().run()
    close(table(app, "source", "through", "flow")["flow"], before["flow"])
    assert len(upload(other.to_bytes())) == len(before)
    warned = app.warning[0].value.replace("\\", "")
    assert warned.startswith("The saved graph is of tiny-gpt2 and “A bird saw a cat”: choose")
    upload(b"{")
    assert not app.exception and app.error


def test_a_model_that_predicts_nothing_shows_its_states(models):
    app = circuits(model=models["headless"], circuit="graph")
    check(app)
    assert "ask_graph_of" not in [one.key for one in app.segmented_control]


def test_the_map_of_queries_and_keys_is_the_librarys_over_the_texts_of_the_box():
    app = circuits(
        "query_key_map", model="tiny-gpt2", text=TEXT, circuit="map", layer="1", head="3"
    )
    check(app)
    texts = [TEXT, *default_texts()]
    found = mv.query_key_map(mv.load("tiny-gpt2"), texts)
    heads, points = (frame.value for frame in app.dataframe)
    close(heads["plane_correlation"].to_numpy(), found.table()["plane_correlation"].to_numpy())
    close(points[["x", "y"]].to_numpy(), found.points[1, 3].reshape(-1, 2))
    assert points["token"].tolist() == [token.text for token in found.tokens] * 2
    best = found.table().iloc[0]
    name = f"L{best['layer']:.0f} H{best['head']:.0f}: {best['plane_correlation']:.2f}"
    assert any(name in str(chips.options) for chips in app.button_group)


def test_what_goes_to_the_browser_is_the_map():
    found = mv.query_key_map(mv.load("tiny-bert"), ["The <b>cat</b> sat.", "A dog."])
    header, body = unpack(payload_of(found))
    n, layers, heads = header["tokens"], header["layers"], header["heads"]
    assert (n, layers, heads, header["top"]) == (len(found.tokens), 4, 8, 4)
    assert header["text"] == found.text.tolist()
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
