"""The Explore page without a browser: what it says, and that nothing typed breaks it."""

from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import mha_viz as mv
from mha_viz.core.metrics import METRICS
from mha_viz.engine.model import AttentionModel
from mha_viz.reports.induction import induction_scores
from mha_viz.ui.explore import drawing
from mha_viz.ui.session import memory, scene, views
from tests.ui.compare_app import said

APP = Path(__file__).parents[2] / "app.py"


def run(**params: str) -> AppTest:
    app = AppTest.from_file(str(APP), default_timeout=300)
    for table in ("heads-table", "card-table"):
        app.session_state[table] = True  # open
    for name, value in params.items():
        app.query_params[name] = value
    return app.run()


def captions(app: AppTest) -> str:
    return "\n".join(caption.value for caption in app.caption)


def test_first_visit_draws_the_default_sentence():
    app = run()
    assert not app.exception and not app.error and not app.warning
    text = app.text_input(key="ask_text").value
    n = len(mv.load("tiny-bert").trace(text).tokens)
    assert f"4 layers × 8 heads · {n} tokens" in captions(app)
    assert app.header[0].value == "L0 H0"


@pytest.mark.parametrize(
    "link", [{"text": "Hello there"}, {"text": "Hello there", "layer": "0", "mass": ".9"}]
)
def test_a_link_that_says_the_view_in_other_words_is_left_as_it_is(link):
    app = run(**link)
    assert dict(app.query_params) == link  # written anew it would take one more Back
    app.selectbox(key="ask_layer").select(2).run()
    assert dict(app.query_params) == {"model": "tiny-bert", "text": "Hello there", "layer": "2"}
    app.selectbox(key="ask_layer").select(0).run()
    assert dict(app.query_params) == {"model": "tiny-bert", "text": "Hello there"}


@pytest.mark.parametrize("link", [{"layer": "99"}, {"text": "Hello there", "colour": "red"}])
def test_an_address_that_does_not_say_the_view_is_written(link):
    written = dict(run(**link).query_params)
    assert written.keys() == {"model", "text"}
    assert written["text"] == link.get("text", views.DEFAULT.text)


def test_an_address_without_a_view_stays_until_something_is_chosen():
    app = run()
    assert not dict(app.query_params)
    app.selectbox(key="ask_layer").select(2).run()
    assert app.query_params.keys() == {"model", "text", "layer"}


def test_tables_are_made_only_while_they_are_open():
    app = run()
    assert [len(shown.value) for shown in app.dataframe] == [4 * 8, len(app.dataframe[-1].value)]
    for table in ("heads-table", "card-table"):
        app.session_state[table] = False
    assert not app.run().dataframe and not app.exception


def test_a_new_text_is_traced_once_and_a_new_head_not_at_all(monkeypatch):
    traced, trace = [], AttentionModel.trace

    def counting(self, text, *args, **options):
        if "random" not in self.name:  # the baseline reads the text, too
            traced.append(text)
        return trace(self, text, *args, **options)

    monkeypatch.setattr(AttentionModel, "trace", counting)
    app = run(text="an unusual sentence about seven green pelicans")
    app.selectbox(key="ask_layer").select(2).run()
    app.selectbox(key="ask_head").select(5).run()
    assert app.header[0].value == "L2 H5" and not app.exception
    app.text_input(key="ask_text").input("and another one about eleven").run()
    assert traced == [
        "an unusual sentence about seven green pelicans",
        "and another one about eleven",
    ]


def test_a_slow_run_can_be_stopped_and_run_again(monkeypatch):
    monkeypatch.setattr(scene, "PATIENCE", -1.0)  # everything is slow
    app = run(text="a sentence to be stopped")
    assert not app.exception and not app.button  # the button goes when the run is done
    key = app.session_state.scene.key
    del app.session_state.scene
    app.session_state.stopped = key
    app.run()
    assert "Stopped" in app.info[0].value and not app.exception
    assert app.text_input(key="ask_text").value == "a sentence to be stopped"
    app.session_state.stopped = None
    app.run()
    assert not app.info and app.header[0].value == "L0 H0"


def test_facts_are_the_metrics_of_the_record():
    text = "one two three one two three one two"
    app = run(model="tiny-gpt2", text=text, layer="1", head="3")
    record = mv.load("tiny-gpt2").trace(text)
    mine = record.head(1, 3)
    table = app.dataframe[-1].value.set_index("Metric")
    expected = {
        "Confidence": mine.max(-1).values.mean(),
        "First token": mine[:, 0].mean(),
        "Same position": mine.diagonal().mean(),
        "Previous token": mine.diagonal(-1).mean(),
        "Entropy (nats)": -(mine * mine.clamp_min(1e-30).log()).sum(-1).mean(),
        "Mean norm of the output": record.head_output[1, 3].norm(dim=-1).mean(),
    }
    for title, value in expected.items():
        assert float(table.loc[title, "This head"]) == pytest.approx(float(value), rel=2e-3), title
    assert float(table.loc["Previous token", "always the token before"]) == 1.0
    assert float(table.loc["Entropy (nats)", "random weights"]) > 1.0
    assert "Next token" not in table.index and "Special tokens" not in table.index
    assert "Induction, 95 % interval" in table.index


def test_a_kind_of_head_and_a_least_score_filter_the_grid():
    text = "the quick brown fox jumps over the lazy dog and the quick brown fox sleeps"
    app = run(model="tiny-gpt2", text=text, only="previous_token")
    report = mv.head_report(mv.load("tiny-gpt2").trace(text), mv.load("tiny-gpt2"))
    kept = report[report.labels.str.contains("Previous token")]
    assert 0 < len(kept) < 32
    assert grid_order(app) == list(zip(kept.layer, kept["head"], strict=True))
    app = run(model="tiny-gpt2", text=text, sort="distance", least="3")
    far = report[report.distance >= 3].sort_values("distance", ascending=False, kind="stable")
    assert grid_order(app) == list(zip(far.layer, far["head"], strict=True))
    app = run(model="tiny-gpt2", text=text, only="separator")
    assert "No head of this model is of that kind" in app.info[0].value and not app.exception
    app = run(model="tiny-gpt2", text=text, sort="distance", least="500")
    far = report.loc[report.distance.idxmax()]
    assert app.info[0].value == (
        f"No head reaches 500 tokens in Distance: the largest is {far.distance:.4g} tokens, of "
        f"L{far.layer} H{far['head']}."
    )
    near = kept.loc[kept.distance.idxmax()]
    app = run(model="tiny-gpt2", text=text, sort="distance", least="500", only="previous_token")
    assert "No head of that kind reaches 500 tokens" in app.info[0].value
    assert f"of L{near.layer} H{near['head']}." in app.info[0].value


def test_heads_are_sorted_by_induction(monkeypatch):
    text = "a text in which nothing is said twice"
    app = run(model="tiny-gpt2", text=text, sort="induction", least="0.4")
    scores = induction_scores(mv.load("tiny-gpt2")).mean
    order = scores.flatten().argsort(descending=True, stable=True).tolist()
    found = [divmod(i, 8) for i in order if scores.flatten()[i] >= 0.4]
    assert 0 < len(found) < 32 and grid_order(app) == found
    assert not app.exception and not app.warning
    assert "it does not depend on the text typed" in captions(app)
    listed = next(table.value for table in app.dataframe if "Head" in table.value)
    assert listed["Induction"].to_numpy() == pytest.approx(scores.flatten().numpy(), abs=1e-6)
    # any other order leaves the probe alone
    monkeypatch.setattr(memory, "induction", lambda *which: pytest.fail("it was probed"))
    app.session_state.view = replace(app.session_state.view, sort="distance", least=0.0)
    assert len(grid_order(app)) == 32


def test_where_induction_cannot_be_probed_it_is_said(monkeypatch):
    monkeypatch.setattr(memory, "induction", lambda *which: None)
    app = run(model="tiny-gpt2", text="words that no other test has", sort="induction")
    assert not app.exception and app.selectbox(key="ask_sort").value == ""
    assert "Induction is no order for the heads" in app.warning[0].value


@pytest.mark.parametrize(("link", "message"), [
    ({"sort": "bogus"}, "There is no metric 'bogus'."),
    ({"sort": "cka"}, "Centred kernel alignment is no order"),
    ({"sort": "separator_token", "model": "tiny-gpt2"}, "Separators is no order"),
    ({"only": "bogus"}, "There is no kind of head 'bogus'."),
])  # fmt: skip
def test_an_order_or_kind_that_is_not_there_is_said(link, message):
    app = run(text="the cat sat", **link)
    assert not app.exception and message in app.warning[0].value.replace("\\", "")
    assert app.selectbox(key="ask_sort").value == app.selectbox(key="ask_only").value == ""
    app.selectbox(key="ask_layer").select(1).run()
    assert not app.warning


def test_a_link_from_before_a_metric_was_renamed_sorts_by_it():
    app = run(text="the cat sat", sort="sparsity")
    assert not app.exception and not app.warning
    assert app.selectbox(key="ask_sort").value == "keys_for_mass"


def test_the_card_says_what_each_number_means_and_can_be_taken_away():
    app = run(text="the cat sat on the mat")
    numbers = app.dataframe[-1].value.set_index("Metric")
    assert "What it means" not in numbers  # a column of words would be out of sight
    words = captions(app).replace("\\", "")
    for metric in ("confidence", "entropy", "induction"):
        title = METRICS[metric].title
        value = next(v for k, v in numbers["This head"].items() if k.startswith(title))
        assert f"{value}. {METRICS[metric].meaning}" in words
    app.session_state["card-export"] = True
    app.run()
    assert not app.exception
    assert [b.label for b in app.get("download_button")] == ["CSV", "HTML"]


def grid_order(app: AppTest) -> list[tuple[int, int]]:
    """The heads that the grid was told to draw, in its order."""
    view = app.session_state.view
    return drawing._chosen_heads(app.session_state.scene, view)


@pytest.mark.parametrize("show", ["heatmap", "carried", "lines", "pair", "table"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"words": "1", "no_special": "1", "no_first": "1"},
        {"sort": "entropy", "scale": "log"},
    ],
    ids=["plain", "reduced", "sorted"],
)
def test_every_picture_with_every_option(show, options):
    app = run(text="Walking homewards, unhappily.", show=show, **options)
    assert not app.exception and not app.error
    if "words" in options:
        assert "What was left out held" in captions(app) and " words" in captions(app)


def test_the_mass_that_is_left_out_is_said():
    text = "the cat sat"
    app = run(text=text, no_special="1", layer="2", head="1")
    special = [t.is_special for t in mv.load("tiny-bert").trace(text).tokens]
    kept = [i for i, s in enumerate(special) if not s]
    pattern = mv.load("tiny-bert").trace(text).pattern[:, :, kept]
    removed = 1 - pattern[..., kept].sum(-1).mean(-1)
    assert f"{removed.mean():.1%} of the weight" in captions(app)
    assert f"{removed[2, 1]:.1%} of L2 H1" in captions(app)


LONE = "which sees only itself, is left out."


def test_the_row_that_the_largest_weight_leaves_out_is_named():
    link = dict(text="The old dogs slept", layer="2", head="2")
    app = run(model="tiny-gpt2", show="table", **link)
    sentence = said(app).replace("\\", "")
    pairs = app.dataframe[-2].value
    best = pairs[pairs["Query"] > 0].iloc[0]
    assert (pairs["Weight"][0], pairs["Query"][0]) == (1.0, 0)  # it stands beside the sentence
    assert f"“{best['Looks']}” to “{best['at']}”; the first token, {LONE}" in sentence
    assert "The first token sees only itself: its weight is 1 in every head." in captions(app)
    words = said(run(model="tiny-gpt2", words="1", **link)).replace("\\", "")
    assert f"the first word, {LONE}" in words
    pair = run(model="tiny-gpt2", show="pair", **link)
    shown = [pair.selectbox(key=f"ask_{name}").value for name in ("query", "key")]
    assert shown == [best["Query"], best["Key"]]


@pytest.mark.parametrize("link", [{"model": "tiny-bert"}, {"model": "tiny-gpt2", "text": "A"}])
def test_nothing_is_said_to_be_left_out_where_nothing_is(link):
    app = run(show="table", **link)
    assert "largest weight is" in said(app) and LONE not in said(app)
    assert "sees only itself" not in captions(app)


def test_everything_left_out_is_an_error_in_words():
    app = run(model="tiny-gpt2", text="a", no_first="1")
    assert not app.exception
    assert "Nothing would be left" in app.error[0].value
    assert app.text_input(key="ask_text").value == "a"


@pytest.mark.parametrize("text", ["\x00\x07", " \n\t ", "x" * 1_300_000])
def test_text_that_cannot_be_used_keeps_the_page_alive(text):
    app = run()
    app.text_input(key="ask_text").input(text).run()
    assert not app.exception and len(app.error) == 1
    app.text_input(key="ask_text").input("a good sentence").run()
    assert not app.error and app.header[0].value == "L0 H0"


def test_a_text_that_is_largely_unknown_is_said_to_be():
    app = run(text="北京是中国的首都")
    assert not app.exception and not app.error
    (warning,) = app.warning
    assert warning.value.startswith("The text is largely unknown to")
    assert app.header[0].value == "L0 H0"
    assert not run(text="The old cat sat").warning


def test_a_device_that_is_not_there_is_refused_in_words():
    app = run()
    app.selectbox(key="ask_device").select("mps").run()
    assert not app.exception and "has no mps" in app.error[0].value.replace("\\", "")


def test_examples_bring_their_model():
    app = run()
    app.selectbox(key="ask_example").select("A phrase said twice").run()
    assert "tiny-gpt2" in app.selectbox(key="ask_model").value
    assert "Captain Zorval" in app.text_input(key="ask_text").value
    assert not app.exception and not app.error


def test_an_example_shows_the_head_that_answers_it():
    app = run()
    app.selectbox(key="ask_example").select("A sentence in brackets").run()
    assert app.header[0].value == "L0 H2"
    assert "L0 H2 leads from" in captions(app)
    app.selectbox(key="ask_example").select("What does “it” mean?").run()
    assert not app.exception and not app.error
    assert app.header[0].value == "L0 H2" and "None here" in captions(app)


def test_a_pair_is_offered_where_the_model_takes_one():
    app = run(text="It rained.", pair="We stayed in.")
    n = len(mv.load("tiny-bert").trace("It rained.", "We stayed in.").tokens)
    assert f"{n} tokens" in captions(app)
    app.selectbox(key="ask_model").select("tiny-gpt2").run()
    assert not app.exception and not app.error
    assert "ask_pair" not in [box.key for box in app.text_input]


def test_a_broken_folder_is_refused_and_the_text_stays(tmp_path):
    (tmp_path / "config.json").write_text("{")
    app = run(text="my own words")
    app.selectbox(key="ask_model").select("Another model …").run()
    app.text_input(key="ask_other").input(str(tmp_path)).run()
    assert not app.exception and "not JSON" in app.error[0].value.replace("\\", "")
    assert app.text_input(key="ask_text").value == "my own words"


def test_no_button_takes_some_of_all_heads_without_a_word():
    app = run(show="lines")
    heads = app.multiselect(key="ask_heads")
    assert heads.proto.max_selections == 8 < len(heads.options)
    assert heads.proto.select_all == 0  # Streamlit's "Select all" would take the first eight
