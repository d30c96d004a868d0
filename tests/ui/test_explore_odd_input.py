"""The Explore page under links and with odd input: it stays alive, and says what is wrong."""

import pytest

from mha_viz.ui.session import views
from tests.ui.explore_app import bench, captions, choose
from tests.ui.explore_app import explore as run


@pytest.mark.parametrize(
    "link", [{"text": "Hello there"}, {"text": "Hello there", "mass": ".9", "layer": "1"}]
)
def test_a_link_that_says_the_view_in_other_words_is_left_as_it_is(link):
    app = run(**link)
    assert dict(app.query_params) == link  # written anew it would take one more Back
    plain = {"model": "tiny-bert", "text": "Hello there"}
    for head in ("5", "2"):
        choose(app, layer=2, head=int(head))
        assert dict(app.query_params) == plain | {"layer": "2", "head": head}


@pytest.mark.parametrize("link", [{"layer": "99"}, {"text": "Hello there", "colour": "red"}])
def test_an_address_that_does_not_say_the_view_is_written(link):
    written = dict(run(**link).query_params)
    assert written.keys() == {"model", "text", "layer", "head"}
    assert written["text"] == link.get("text", views.DEFAULT.text)


def test_an_address_without_a_view_stays_until_something_is_chosen():
    app = run()
    assert not dict(app.query_params)
    choose(app, layer=2)
    assert app.query_params.keys() == {"model", "text", "layer", "head"}


@pytest.mark.parametrize(("link", "message"), [
    ({"sort": "bogus"}, "There is no metric 'bogus'."),
    ({"sort": "cka"}, "Centred kernel alignment is no order"),
    ({"sort": "separator_token", "model": "tiny-gpt2"}, "Separators is no order"),
    ({"only": "bogus"}, "There is no kind of head 'bogus'."),
])  # fmt: skip
def test_an_order_or_kind_that_is_not_there_is_said(link, message):
    app = run(text="the cat sat", **link)
    assert not app.exception and message in app.warning[0].value.replace("\\", "")
    assert bench(app)["view"]["sort"] == bench(app)["view"]["only"] == ""
    app.text_input(key="ask_text").input("the cat ran").run()
    assert not app.warning


@pytest.mark.parametrize(
    "choices",
    [{"layer": 99, "head": 3}, {"head": 8}, {"query": 500, "key": 2}, {"key": 9}, {"sort": "bogus"},
     {"only": "bogus"}, {"heads": ((9, 9), (0, 1)), "show": "lines"}],
)  # fmt: skip
def test_a_choice_that_no_browser_offers_leaves_the_page_alive(choices):
    app = choose(run(text="the cat sat"), **choices)
    assert not app.exception and not app.error
    view = bench(app)["view"]
    assert view["layer"] < 4 and view["head"] < 8 and view["sort"] == view["only"] == ""
    assert max(view["query"], view["key"]) < 5 and view["heads"] in ([], [[0, 1]])
    assert view["query"] == -1 or "query" not in choices


def test_an_order_by_a_pair_of_tokens_is_kept():
    app = run(text="the cat sat", sort="pair", query="1", key="2")
    choose(app, layer=1, head=2)
    assert not app.exception and not app.warning
    asked = {"sort": "pair", "query": "1", "key": "2"}
    assert asked.items() <= dict(app.query_params).items()
    assert bench(app)["view"]["sort"] == "pair"


def test_a_link_from_before_a_metric_was_renamed_sorts_by_it():
    app = run(text="the cat sat", sort="sparsity")
    assert not app.exception and not app.warning
    assert bench(app)["view"]["sort"] == "keys_for_mass"


def test_everything_left_out_is_an_error_in_words():
    app = run(model="tiny-gpt2", text="a", no_first="1")
    assert not app.exception
    assert "Nothing would be left" in app.error[0].value
    assert app.text_input(key="ask_text").value == "a"


@pytest.mark.parametrize("text", ["", " \n\t "])
def test_an_empty_sentence_is_a_hint_and_no_error(text):
    app = run()
    app.text_input(key="ask_text").input(text).run()
    assert not app.exception and not app.error
    assert app.info[0].value.startswith("Type a sentence above")


@pytest.mark.parametrize("text", ["\x00\x07", "x" * 1_300_000])
def test_text_that_cannot_be_used_keeps_the_page_alive(text):
    app = run()
    app.text_input(key="ask_text").input(text).run()
    assert not app.exception and len(app.error) == 1
    app.text_input(key="ask_text").input("a good sentence").run()
    assert not app.error and "4 layers × 8 heads" in captions(app)


def test_a_text_that_is_largely_unknown_is_said_to_be():
    app = run(text="北京是中国的首都")
    assert not app.exception and not app.error
    (warning,) = app.warning
    assert warning.value.startswith("The text is largely unknown to")
    parts = list(app.main)
    grid = next(part for part in parts if part.type == "bidi_component" and "grid" in part.proto.id)
    assert parts.index(warning) < parts.index(grid)  # above the pictures
    assert "4 layers × 8 heads" in captions(app)
    assert not run(text="The old cat sat").warning


def test_a_device_that_is_not_there_is_refused_in_words():
    app = run()
    app.selectbox(key="ask_device").select("mps").run()
    assert not app.exception and "has no mps" in app.error[0].value.replace("\\", "")


def test_a_broken_folder_is_refused_and_the_text_stays(tmp_path):
    (tmp_path / "config.json").write_text("{")
    app = run(text="my own words")
    menu = app.selectbox(key="ask_model")
    assert menu.options[0] == "Another model …"
    menu.select("Another model …").run()
    app.text_input(key="ask_other").input(str(tmp_path)).run()
    assert not app.exception and "not JSON" in app.error[0].value.replace("\\", "")
    assert app.text_input(key="ask_text").value == "my own words"
