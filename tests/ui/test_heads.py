"""The Heads page without a browser: what it draws and says."""

import pytest

import mha_viz as mv
from mha_viz.core.measure import measure
from mha_viz.engine.model import AttentionModel
from mha_viz.reports.report import most_informative_head
from mha_viz.ui.run import memory, scene
from mha_viz.ui.state import views
from mha_viz.ui.state.examples import EXAMPLES
from mha_viz.web.labels import head_name
from tests.making.checkpoints import copy
from tests.making.comparing import near
from tests.making.pairwise import pairwise
from tests.ui.heads_app import bench, brought, captions, choose, chosen, kinds_brought
from tests.ui.heads_app import heads_page as run


def telling(text: str) -> str:
    return head_name(*most_informative_head(measure(mv.load("tiny-bert").trace(text))))


def test_heads_first_visit_draws_the_example_and_its_head():
    app = run()
    assert not app.exception and not app.error and not app.warning
    assert app.text_area(key="ask_text").value == EXAMPLES[0].text
    assert brought(app, "grid")["layers"] == 4
    assert brought(app, "notes")["hint"] == EXAMPLES[0].look
    assert chosen(app) == head_name(*EXAMPLES[0].head)
    app.selectbox(key="ask_model").select("tiny-gpt2").run()
    assert not app.exception and brought(app, "notes")["hint"] == ""


@pytest.mark.parametrize(
    ("model", "text", "n_missing"),
    [
        ("tiny-bert", "The old king slept in the garden", 0),
        ("tiny-bert", "Die Katze sitzt auf der Matte", 4),
        ("tiny-bert", "Кошка сидит", 2),
        ("tiny-gpt2", "Кошка сидит", 2),
    ],
)
def test_page_notes_that_a_model_of_english_lacks_most_words(model, text, n_missing):
    app = run(model=model, text=text)
    notes = [warning.value for warning in app.warning if "English only" in warning.value]
    assert [f"lacks {n_missing} of these {len(text.split())} " in note for note in notes] == [
        True for _ in range(bool(n_missing))
    ]


def test_a_text_opens_on_the_head_that_tells_most_of_it_until_one_is_chosen():
    first, second = "a dog ran after the red ball", "she sold sea shells, and he bought them"
    app = run(text=first)
    assert chosen(app) == telling(first) != "L0 H0"
    app.text_area(key="ask_text").input(second).run()
    assert chosen(app) == telling(second)
    choose(app, layer=3, head=1)
    app.text_area(key="ask_text").input(first).run()
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
    app.text_area(key="ask_text").input("and another one about eleven").run()
    assert traced == [
        "an unusual sentence about seven green pelicans",
        "and another one about eleven",
    ]


def test_a_slow_run_can_be_stopped_and_run_again(monkeypatch):
    monkeypatch.setattr(scene, "PATIENCE", -1.0)  # everything is slow
    app = run(text="a sentence to be stopped")
    stops = [button for button in app.button if button.key not in ("pin", "run_text")]
    assert not app.exception and not stops  # the button goes when the run is done
    session = app.session_state.session
    session.stopped = session.scenes.pop("scene").key
    app.run()
    assert len(app.info) == 1 and not app.exception
    assert app.text_area(key="ask_text").value == "a sentence to be stopped"
    app.button(key="run_text").click().run()
    assert not app.info and brought(app, "grid")


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
    assert not app.get("plotly_chart")  # all of it is drawn in the browser
    sent = kinds_brought(app)
    assert {"grid", "head", "scores", "notes"} <= sent and "shares" not in sent
    assert ("numbers" in sent) == (show == "numbers")


@pytest.mark.parametrize(
    ("former", "shares"), [("carried", True), ("pair", False), ("plotly", False)]
)
def test_an_address_of_a_former_picture_opens_the_heatmap_that_shows_it(former, shares):
    link = {"text": "The old dogs slept", "layer": "1", "head": "2", "query": "3", "key": "1"}
    app = run(show=former, **link)
    view = bench(app)["view"]
    assert (view["show"], view["weighted"], view["query"], view["key"]) == ("heatmap", shares, 3, 1)
    assert ("shares" in kinds_brought(app)) == shares
    assert dict(app.query_params) == {"show": former, **link} and not app.warning
    assert bench(app)["values"] and bench(app)["vectors"] and bench(app)["explained"]


@pytest.mark.parametrize("model", ["tiny-bert", "tiny-gpt2"])
def test_numbers_of_a_head_are_those_of_the_report(model):
    text = "the quick brown fox jumps over the lazy dog and the quick brown fox sleeps"
    app = run(model=model, text=text, layer="1", head="3", show="numbers", no_first="1")
    network = mv.load(model)
    report = mv.head_report(network.trace(text), network)
    sent = brought(app, "numbers")
    rows = {row["key"]: row for row in sent["rows"] if "key" in row}
    assert sent["head"] == 11 and rows.keys() <= set(report.columns) and len(rows) > 10
    for key, row in rows.items():
        column, mine = report[key], report[key].iloc[11]
        assert row["value"] == near(mine), key
        assert row["mean"] == near(column.mean())
        n = int(column.notna().sum())
        assert row["rank"] == f"{int((column > mine).sum()) + 1} of {n}"
        assert (row["heads"] is None) == (key in bench(app)["titles"] and key != "induction")
    assert "; ".join(label["title"] for label in sent["labels"]) == report.labels.iloc[11]
    assert not sent["random"]


def test_options_sentence_pair_has_a_box_while_its_switch_is_on():
    def has_box() -> bool:
        return "ask_pair" in [box.key for box in app.text_input]

    app = run(text="It rained.")
    assert not has_box() and not app.toggle(key="sentence_pair").value
    app.toggle(key="sentence_pair").set_value(True).run()
    app.text_input(key="ask_pair").input("We stayed in.").run()
    labels = mv.load("tiny-bert").trace("It rained.", "We stayed in.").labels
    assert app.session_state.session.scenes["scene"].record.labels == labels
    app.toggle(key="sentence_pair").set_value(False).run()
    assert app.session_state.session.scenes["scene"].pair is None and not has_box()
    (example,) = [one for one in EXAMPLES if one.pair]
    app.selectbox(key="ask_example").select(example.title).run()
    assert has_box() and app.text_input(key="ask_pair").value == example.pair
    assert app.text_area(key="ask_text").value == example.text
    app.selectbox(key="ask_example").select(EXAMPLES[0].title).run()
    assert not has_box() and not app.exception
    app = run(text="It rained.", pair="We stayed in.", model="tiny-gpt2")  # which takes no pair
    assert not has_box() and app.toggle(key="sentence_pair").disabled and not app.error


def test_a_choice_that_no_browser_offers_leaves_the_page_alive():
    app = run(text="the cat sat")
    before = app.session_state.view
    for choices in (
        {"layer": 99, "head": 3}, {"head": 8}, {"query": 500, "key": 2}, {"key": 9},
        {"sort": "bogus"}, {"only": "bogus"}, {"heads": ((9, 9), (0, 1)), "show": "lines"},
    ):  # fmt: skip
        app.session_state.view = before
        choose(app, **choices)
        assert not app.exception and not app.error, choices
        view = bench(app)["view"]
        assert view["layer"] < 4 and view["head"] < 8 and view["sort"] == view["only"] == ""
        assert max(view["query"], view["key"]) < 5 and view["heads"] in ([], [[0, 1]])
        assert view["query"] == -1 or "query" not in choices


def test_everything_left_out_is_an_error_in_words():
    app = run(model="tiny-gpt2", text="a", no_first="1")
    assert not app.exception
    assert len(app.error) == 1
    assert app.text_area(key="ask_text").value == "a"


def test_address_of_an_opened_view_is_written_only_where_it_does_not_say_the_view():
    for link in ({"text": "Hello there"}, {"text": "Hello there", "mass": ".9", "layer": "1"}):
        assert dict(run(**link).query_params) == link  # written anew it would take one more Back
    for link in ({"layer": "99"}, {"text": "Hello there", "colour": "red"}):
        written = dict(run(**link).query_params)
        assert written.keys() == {"model", "text", "layer", "head"}
        assert written["text"] == link.get("text", views.DEFAULT.text)
    app = run()
    assert not dict(app.query_params)
    choose(app, layer=2, head=5)
    plain = {"model": "tiny-bert", "text": views.DEFAULT.text}
    assert dict(app.query_params) == plain | {"layer": "2", "head": "5"}


@pytest.mark.parametrize(
    ("link", "n_problems"),
    [
        ({"sort": "bogus", "only": "bogus"}, 2),
        ({"sort": "cka"}, 1),
        ({"sort": "separator_token", "model": "tiny-gpt2"}, 1),
    ],
)
def test_order_or_kind_that_is_not_there_is_a_warning_until_the_next_text(link, n_problems):
    app = run(text="the cat sat", **link)
    assert not app.exception and len(app.warning) == n_problems
    assert bench(app)["view"]["sort"] == bench(app)["view"]["only"] == ""
    app.text_area(key="ask_text").input("the cat ran").run()
    assert not app.warning


def test_text_that_cannot_be_used_keeps_the_page_alive():
    app = run()
    for text, kind in ((" \n\t ", "info"), ("\x00\x07", "error"), ("x" * 1_300_000, "error")):
        app.text_area(key="ask_text").input(text).run()
        assert not app.exception and len(getattr(app, kind)) == 1
        assert kind == "error" or not app.error
    app.text_area(key="ask_text").input("北京是中国的首都").run()  # largely unknown to the model
    (warning,) = app.warning
    parts = list(app.main)
    grid = next(
        part for part in parts if getattr(part.proto, "component_name", "") == "mha_viz.workbench"
    )
    assert not app.exception and not app.error and parts.index(warning) < parts.index(grid)
    app.text_area(key="ask_text").input("a good sentence").run()
    assert not app.error and not app.warning and brought(app, "grid")


def test_folder_is_checked_once_and_its_errors_leave_the_text(folder, tmp_path, monkeypatch):
    checked, check = [], memory.check
    monkeypatch.setattr(memory, "check", lambda name: (checked.append(name), check(name)))
    (tmp_path / "config.json").write_text("{")
    local = str(copy(folder, tmp_path / "own"))
    app = run(text="my own words")
    app.selectbox(key="ask_device").select("mps").run()
    assert not app.exception and len(app.error) == 1 and "mps" in app.error[0].value
    app.selectbox(key="ask_device").select("cpu")
    assert not checked  # a shipped model needs no check
    for typed in ("no/such/folder", str(tmp_path), local):
        app.selectbox(key="ask_model").select("Another model …").run()
        app.text_input(key="ask_other").input(typed).run()
        assert not app.exception and len(app.error) == (typed != local)
        assert app.text_area(key="ask_text").value == "my own words"
    assert memory.size_line(local, "float32") in captions(app)
    app.text_area(key="ask_text").input("other words").run()
    assert checked.count(local) == 1 and not app.error
