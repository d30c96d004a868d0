"""The Explore page under links and with odd input: it stays alive, and says what is wrong."""

import pytest

from mha_viz.checkpoints import trial
from mha_viz.ui.explore import drawing
from mha_viz.ui.run import memory
from mha_viz.ui.state import views
from mha_viz.ui.widgets.controls import controls
from tests.making.checkpoints import copy
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


@pytest.fixture(scope="module")
def page():
    """One visitor's, who types one text after the other."""
    return run()


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


@pytest.mark.parametrize(("link", "messages"), [
    ({"sort": "bogus", "only": "bogus"},
     ["There is no metric 'bogus'.", "There is no kind of head 'bogus'."]),
    ({"sort": "cka"}, ["Centred kernel alignment is no order"]),
    ({"sort": "separator_token", "model": "tiny-gpt2"}, ["Separators is no order"]),
])  # fmt: skip
def test_an_order_or_kind_that_is_not_there_is_said(link, messages):
    app = run(text="the cat sat", **link)
    assert not app.exception
    for message, told in zip(messages, app.warning, strict=True):
        assert message in told.value.replace("\\", "")
    assert bench(app)["view"]["sort"] == bench(app)["view"]["only"] == ""
    app.text_input(key="ask_text").input("the cat ran").run()
    assert not app.warning


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


def test_an_empty_sentence_is_a_hint_and_no_error(page):
    for text in ("", " \n\t "):
        page.text_input(key="ask_text").input(text).run()
        assert not page.exception and not page.error
        assert page.info[0].value.startswith("Type a sentence above")


@pytest.mark.parametrize("text", ["\x00\x07", "x" * 1_300_000])
def test_text_that_cannot_be_used_keeps_the_page_alive(page, text):
    page.text_input(key="ask_text").input(text).run()
    assert not page.exception and len(page.error) == 1
    page.text_input(key="ask_text").input("a good sentence").run()
    assert not page.error and "4 layers × 8 heads" in captions(page)


def test_a_text_that_is_largely_unknown_is_said_to_be():
    app = run(text="北京是中国的首都")
    assert not app.exception and not app.error
    (warning,) = app.warning
    assert warning.value.startswith("The text is largely unknown to")
    parts = list(app.main)
    grid = next(part for part in parts if part.type == "bidi_component" and "grid" in part.proto.id)
    assert parts.index(warning) < parts.index(grid)  # above the pictures
    assert "4 layers × 8 heads" in captions(app)
    app.text_input(key="ask_text").input("The old cat sat").run()
    assert not app.warning


def held(block, before=()):
    """What stands where on the page: the kind of each element by its path."""
    found = {}
    for key, part in block.children.items():
        found[*before, key] = part.type
        if hasattr(part, "children"):
            found |= held(part, (*before, key))
    return found


def test_a_message_of_the_run_before_is_emptied_before_the_next_one_works(tmp_path, monkeypatch):
    """Streamlit leaves what a run does not write to until its end: a load takes its time."""
    asked = []
    monkeypatch.setattr(controls.trial, "prepare", lambda: asked.append("trial"))
    (tmp_path / "config.json").write_text("{")
    app = run(text="my own words")
    assert not asked
    app.selectbox(key="ask_model").select("Another model …").run()
    assert asked == ["trial"]  # while the name is typed
    for typed in ("no/such/folder", str(tmp_path)):
        app.text_input(key="ask_other").input(typed).run()
        (place,) = (path for path, kind in held(app.main).items() if kind == "error")
        assert len(app.error) == 1
        app.selectbox(key="ask_model").select("tiny-gpt2").run()
        now = held(app.main)
        assert any(now.get(place[:n]) == "empty" for n in range(1, len(place) + 1)), place
        app.selectbox(key="ask_model").select("Another model …").run()


def test_a_folder_is_checked_and_then_loaded_and_both_are_said(folder, tmp_path, monkeypatch):
    said, checked = [], []
    spinner, check = drawing.st.spinner, memory.check
    monkeypatch.setattr(drawing.st, "spinner", lambda text: (said.append(text), spinner(text))[1])
    monkeypatch.setattr(memory, "check", lambda name: (checked.append(name), check(name)))
    app = run(text="my own words")
    assert not checked  # a shipped model needs no trial
    own = copy(folder, tmp_path / "own")
    for name in (own, copy(folder, tmp_path / "second")):
        monkeypatch.setattr(trial, "is_ready", lambda ready=name is not own: ready)
        app.selectbox(key="ask_model").select("Another model …").run()
        said.clear()  # that the model before was loaded
        app.text_input(key="ask_other").input(str(name)).run()
        assert not app.error and checked[-1] == str(name)
        first = [text for text in said if "Checking" in text or "Loading" in text]
        assert "Checking" in first[0] and "Loading" in first[1]
        assert ("has to start first" in first[0]) == (name is own)
        size = memory.size_line(str(name), "float32")
        assert f"Loading {name} ({size})" in first[1].replace("\\", "")
        assert f"{size}." in [one.value for one in app.caption]
    n_checked = len(checked)
    app.text_input(key="ask_text").input("other words").run()
    assert len(checked) == n_checked == 2  # once each


def test_a_missing_device_and_a_broken_folder_are_refused_and_the_text_stays(tmp_path):
    (tmp_path / "config.json").write_text("{")
    app = run(text="my own words")
    app.selectbox(key="ask_device").select("mps").run()
    assert not app.exception and "has no mps" in app.error[0].value.replace("\\", "")
    app.selectbox(key="ask_device").select("cpu")
    menu = app.selectbox(key="ask_model")
    assert menu.options[0] == "Another model …"
    menu.select("Another model …").run()
    app.text_input(key="ask_other").input(str(tmp_path)).run()
    assert not app.exception and "not JSON" in app.error[0].value.replace("\\", "")
    assert app.text_input(key="ask_text").value == "my own words"
