"""The Explore page without a browser: what it draws and says."""

import pytest

import mha_viz as mv
from mha_viz.core.compare.chance import permuted_pairs
from mha_viz.core.measure import measure
from mha_viz.core.metrics import METRICS
from mha_viz.core.metrics.chance import discoveries
from mha_viz.engine.model import AttentionModel
from mha_viz.reports.induction import induction_scores
from mha_viz.reports.informative_head import most_informative_head
from mha_viz.ui.run import memory, scene
from mha_viz.ui.state import views
from mha_viz.ui.state.examples import EXAMPLES
from mha_viz.web.labels import head_name
from tests.making.comparing import near
from tests.making.pairwise import pairwise
from tests.ui.compare_app import said, table
from tests.ui.explore_app import FOLDED, bench, brought, captions, choose, chosen
from tests.ui.explore_app import explore as run


def telling(text: str) -> str:
    return head_name(*most_informative_head(measure(mv.load("tiny-bert").trace(text))))


def test_explore_first_visit_draws_the_example_and_its_head():
    app = run()
    assert not app.exception and not app.error and not app.warning
    assert app.text_input(key="ask_text").value == EXAMPLES[0].text
    assert brought(app, "grid")["layers"] == 4 and EXAMPLES[0].look in captions(app)
    assert chosen(app) == head_name(*EXAMPLES[0].head)
    app.selectbox(key="ask_model").select("tiny-gpt2").run()
    assert not app.exception and EXAMPLES[0].look not in captions(app)


def test_a_text_opens_on_the_head_that_tells_most_of_it_until_one_is_chosen():
    first, second = "a dog ran after the red ball", "she sold sea shells, and he bought them"
    app = run(text=first)
    assert chosen(app) == telling(first) != "L0 H0"
    app.text_input(key="ask_text").input(second).run()
    assert chosen(app) == telling(second)
    choose(app, layer=3, head=1)
    app.text_input(key="ask_text").input(first).run()
    assert chosen(app) == "L3 H1"  # who has chosen a head keeps it
    assert chosen(run(text=first, layer="0", head="0")) == "L0 H0"


def test_a_new_text_is_traced_once_and_a_new_head_not_at_all(monkeypatch):
    traced, trace = [], AttentionModel.trace

    def counting(self, text, *args, **options):
        if "random" not in self.name:  # the baseline reads the text, too
            traced.append(text)
        return trace(self, text, *args, **options)

    monkeypatch.setattr(AttentionModel, "trace", counting)
    app = run(text="an unusual sentence about seven green pelicans")
    choose(app, layer=2)
    choose(app, head=5)
    assert chosen(app) == "L2 H5" and not app.exception
    app.text_input(key="ask_text").input("and another one about eleven").run()
    assert traced == [
        "an unusual sentence about seven green pelicans",
        "and another one about eleven",
    ]


def test_a_slow_run_can_be_stopped_and_run_again(monkeypatch):
    monkeypatch.setattr(scene, "PATIENCE", -1.0)  # everything is slow
    app = run(text="a sentence to be stopped")
    stops = [button for button in app.button if button.key != "pin"]
    assert not app.exception and not stops  # the button goes when the run is done
    key = app.session_state.scene.key
    del app.session_state.scene
    app.session_state.stopped = key
    app.run()
    assert len(app.info) == 1 and not app.exception
    assert app.text_input(key="ask_text").value == "a sentence to be stopped"
    app.session_state.stopped = None
    app.run()
    assert not app.info and brought(app, "grid")


def test_facts_are_the_metrics_of_the_record():
    text = "one two three one two three one two"
    app = run(model="tiny-gpt2", text=text, layer="1", head="3")
    record = mv.load("tiny-gpt2").trace(text)
    mine = record.head(1, 3)
    card = table(app, "Metric").set_index("Metric")
    expected = {
        "Confidence": mine.max(-1).values.mean(),
        "First token": mine[:, 0].mean(),
        "Same position": mine.diagonal().mean(),
        "Previous token": mine.diagonal(-1).mean(),
        "Entropy (nats)": -(mine * mine.clamp_min(1e-30).log()).sum(-1).mean(),
        "Mean norm of the output": record.head_output[1, 3].norm(dim=-1).mean(),
    }
    for title, value in expected.items():
        assert float(card.loc[title, "This head"]) == pytest.approx(float(value), rel=2e-3), title
    assert float(card.loc["Previous token", "always the token before"]) == 1.0
    assert float(card.loc["Entropy (nats)", "random weights"]) > 1.0
    assert "Next token" not in card.index and "Special tokens" not in card.index
    assert "Induction, 95 % interval" in card.index


def test_the_browser_has_all_that_heads_are_sorted_and_chosen_by():
    text = "the quick brown fox jumps over the lazy dog and the quick brown fox sleeps"
    app = run(model="tiny-gpt2", text=text, only="previous_token")
    report = mv.head_report(mv.load("tiny-gpt2").trace(text), mv.load("tiny-gpt2"))
    facts, titles = brought(app, "grid")["facts"], bench(app)["titles"]
    measured = titles.keys() - {"induction"}  # which is of the model: it is probed when asked for
    assert {titles[key] for key in measured} == facts.keys() and len(facts) > 10
    for key in measured:
        values = [float("nan") if value is None else value for value in facts[titles[key]]]
        assert values == near(report[key].to_numpy(), nan_ok=True), key
    notes = brought(app, "notes")
    assert ["; ".join(labels) for labels in notes["labels"]] == list(report.labels)
    kept = ["previous_token" in kinds for kinds in notes["kinds"]]
    assert kept == list(report.labels.str.contains("Previous token")) and 0 < sum(kept) < 32
    assert bench(app)["view"]["only"] == "previous_token"
    assert [bool(badge) for badge in notes["badges"]] == [bool(kinds) for kinds in notes["kinds"]]


def test_each_head_is_beside_the_nearest_one_and_chance():
    text = "the old cat sat on the mat"
    record = mv.load("tiny-bert").trace(text)
    distance = mv.head_similarity(record, "hellinger").clone().fill_diagonal_(float("inf"))
    nearest = distance.min(1)
    p = permuted_pairs(record, "hellinger").p_nearest
    twins, apart, beyond = zip(*brought(run(text=text), "twins")["twins"], strict=True)
    assert list(twins) == nearest.indices.tolist()
    assert list(apart) == near(nearest.values.tolist())
    assert list(beyond) == discoveries(p).tolist() and 0 < sum(beyond) < 32
    short = brought(run(model="tiny-gpt2", text="a cat"), "twins")["twins"]
    assert {beyond for *_, beyond in short} == {None}  # two tokens cannot tell


def test_metrics_of_a_long_text_come_after_its_weights(monkeypatch):
    text = "the old cat sat on the mat and slept"
    short = run(text=text)
    monkeypatch.setattr(scene, "AT_ONCE", 5)
    memory.cache().drop(everything=True)
    app = run(text=text, layer="1", head="2")
    assert brought(app, "grid")["facts"] == {} and set(bench(app)["titles"]) == {"induction"}
    late = brought(app, "facts")
    assert late["facts"] == brought(short, "grid")["facts"] and late["facts"]
    assert late["titles"] == bench(short)["titles"] == bench(app.run())["titles"]
    assert not app.exception
    memory.cache().drop(everything=True)
    assert chosen(run(text=text)) == chosen(short)  # that nobody has chosen: by the metrics
    sorted_at_once = run(text=text, sort="entropy", no_first="1")
    assert bench(sorted_at_once)["view"]["sort"] == "entropy" and not sorted_at_once.warning
    memory.cache().drop(everything=True)


def test_heads_are_sorted_by_induction(monkeypatch):
    text = "a text in which nothing is said twice"
    app = run(model="tiny-gpt2", text=text, sort="induction", least="0.4")
    scores = induction_scores(mv.load("tiny-gpt2")).mean.flatten().numpy()
    shown = bench(app)
    assert shown["fact"]["title"] == shown["titles"]["induction"] == METRICS["induction"].title
    assert shown["fact"]["values"] == near(scores)
    assert (shown["view"]["sort"], shown["view"]["least"]) == ("induction", 0.4)
    assert not app.exception and not app.warning
    assert table(app, "Labels")["Induction"].to_numpy() == near(scores)
    for name in FOLDED:
        app.session_state[name] = False
    monkeypatch.setattr(memory, "induction", lambda *which: pytest.fail("it was probed"))
    choose(app, sort="distance", least=0.0)
    assert not app.exception and bench(app)["fact"] is None
    monkeypatch.setattr(memory, "induction", lambda *which: None)  # as where it has no probe
    app = run(model="tiny-gpt2", text="words that no other test has", sort="induction")
    assert not app.exception and bench(app)["view"]["sort"] == "" and len(app.warning) == 1


OPTIONS = {
    "plain": {},
    "reduced": {"words": "1", "no_special": "1", "no_first": "1"},
    "sorted": {"sort": "entropy", "scale": "log"},
}


@pairwise(dear=True, options=OPTIONS, show=views.SHOWS)
def test_every_picture_with_every_option(options, show):
    app = run(text="Walking homewards, unhappily.", show=show, **OPTIONS[options])
    assert not app.exception and not app.error
    assert bench(app)["view"]["show"] == show
    drawn = {"carried": 1, "pair": 1, "plotly": 1}.get(show, 0)  # the others in the browser
    assert len(app.get("plotly_chart")) == drawn + 1  # and the card


def test_the_mass_that_is_left_out_is_said():
    text = "the cat sat"
    app = run(text=text, no_special="1", layer="2", head="1")
    special = [t.is_special for t in mv.load("tiny-bert").trace(text).tokens]
    kept = [i for i, s in enumerate(special) if not s]
    pattern = mv.load("tiny-bert").trace(text).pattern[:, :, kept]
    removed = 1 - pattern[..., kept].sum(-1).mean(-1)
    assert f"{removed.mean():.1%} of the weight" in captions(app)
    assert f"{removed[2, 1]:.1%} of L2 H1" in captions(app)


def test_pair_of_a_causal_head_leaves_out_the_row_that_sees_only_itself():
    link = dict(model="tiny-gpt2", text="The old dogs slept", layer="2", head="2")
    record = mv.load("tiny-gpt2").trace(link["text"])
    weights = record.head(2, 2)[1:]
    query, key = divmod(int(weights.argmax()), weights.shape[1])
    named = f"“{record.labels[query + 1]}” to “{record.labels[key]}”"
    assert named in said(run(**link)).replace("\\", "")
    pair = run(**link, show="pair")
    shown = [pair.selectbox(key=f"ask_{name}").value for name in ("query", "key")]
    assert shown == [query + 1, key]


def test_query_and_key_are_chosen_among_the_tokens_that_are_shown():
    link = dict(text="The old dogs slept on the warm mat", layer="2", head="2", show="pair")
    app = run(model="tiny-gpt2", window="2.5,1.3", **link)
    weights = mv.load("tiny-gpt2").trace(link["text"]).head(2, 2)[2:6, 1:4]
    query, key = divmod(int(weights.argmax()), 3)
    menus = [app.selectbox(key=f"ask_{name}") for name in ("query", "key")]
    assert [menu.value for menu in menus] == [query + 2, key + 1]
    assert [len(menu.options) for menu in menus] == [4, 3]
    beyond = run(model="tiny-gpt2", window="2.5,1.99", **link)  # of a longer text
    assert "window" not in beyond.query_params and not beyond.warning


def test_an_example_brings_its_model_and_shows_the_head_that_answers_it():
    app = run()
    for title in ("A repeated phrase", "A sentence in brackets", "What does “it” mean?"):
        app.selectbox(key="ask_example").select(title).run()
        assert not app.exception and not app.error
        (example,) = (example for example in EXAMPLES if example.title == title)
        assert app.text_input(key="ask_text").value == example.text
        assert example.model in app.selectbox(key="ask_model").value
        assert chosen(app) == (head_name(*example.head) if example.head else telling(example.text))
        assert example.look in captions(app)


def test_a_pair_is_offered_where_the_model_takes_one():
    app = run(text="It rained.", pair="We stayed in.")
    labels = mv.load("tiny-bert").trace("It rained.", "We stayed in.").labels
    assert app.session_state.scene.record.labels == labels
    app.selectbox(key="ask_model").select("tiny-gpt2").run()
    assert not app.exception and not app.error
    assert "ask_pair" not in [box.key for box in app.text_input]
