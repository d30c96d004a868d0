"""The URL carries the whole view, and nothing that an attacker writes into it does harm."""

import base64
import zlib
from contextlib import suppress
from dataclasses import Field, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mha_viz.core import names
from mha_viz.ui.state import views
from mha_viz.ui.state.link_values import MAX_PINS, MAX_URL_TEXT, Pin, written
from mha_viz.ui.state.links import from_params, to_params, validate_choices
from mha_viz.ui.state.views import BENCH, DEFAULT, View

# What links say: texts first, words of every table, numbers, heads, and what has a form of its own.
RAW = (
    *("a | b <i> ü 👍 & c = %", "owner/some-model", "0", "1", "77", "0.4,2.9", "nsubj.to_head"),
    *("L2H3@5,L1mid@*", "ab", *(word for table in views.TITLES.values() for word in table)),
    *(*names.DEVICES, *names.DTYPES, *names.HOWS, *names.METHODS, *names.PRODUCTS),
    *(*names.PAIR_MEASURES, *names.MATCH_MEASURES),
)
PINS = (
    Pin("owner/some-model", "a | b <i> ü 👍\nc", "d", "cross", 3, 7, "a note, 100 %"),
    Pin("tiny-gpt2", "a | b <i> ü 👍\nc", "", "self", 0, 11),
)


def other_than(choice: Field) -> object:
    """Return a value of a choice that is not its default, as some link says it."""
    for raw in RAW:
        with suppress(ValueError):
            if (value := choice.metadata["read"](raw)) != choice.default:
                return value
    return pytest.fail(f"no link says another {choice.name}")


READ = [choice for choice in fields(View) if choice.metadata]
# The least or the greatest that may be said of them.
ENDS = dict(next_temperature=5.0, factor=-10.0, mass=0.2, min_weight=1.0, next_top_k=9_999)
VIEW = View(pins=PINS, **({choice.name: other_than(choice) for choice in READ} | ENDS))


def test_every_field_survives_the_url():
    of_links = [field for field in fields(View) if field.compare]
    for field in of_links:  # none of them may be the default, or the test shows nothing
        assert getattr(VIEW, field.name) != getattr(DEFAULT, field.name)
    assert from_params(to_params(VIEW)) == (VIEW, [])


PIN = Pin("tiny-bert", "The cat sat.", "", "self", 1, 2, "a note")


@pytest.mark.parametrize(
    "change",
    [
        dict(model="/etc/passwd"), dict(model="a/../b"), dict(model=""), dict(part="a b"),
        dict(layer=-1), dict(head=99_999), dict(layer="x"), dict(head="1\x1f2"), dict(text="\x1e"),
    ],
)  # fmt: skip
def test_a_pin_of_a_link_that_is_not_valid_is_ignored_and_the_others_stay(change: dict) -> None:
    others = PIN._replace(head=3), PIN._replace(layer=0, note="")
    raw = written((others[0], PIN._replace(**change), others[1]))
    view, problems = from_params({"pins": raw})
    assert view.pins == others
    assert len(problems) == 1 and problems[0].startswith("Pins of the link that are not valid: ")


def test_a_link_pins_no_head_twice_and_no_more_than_a_board_shows() -> None:
    many = tuple(PIN._replace(layer=layer) for layer in range(MAX_PINS + 2))
    view, problems = from_params({"pins": written((PIN, PIN._replace(note="other"), *many))})
    assert view.pins == (PIN, *(one for one in many if one.layer != PIN.layer))[:MAX_PINS]
    assert problems == ["Pins of the link that are not valid: 4 of 13, ignored."]


BOMB = base64.urlsafe_b64encode(zlib.compress(b"x" * 2**26)).decode()
CUT = written((PIN, PIN._replace(head=3)))[:40]


@pytest.mark.parametrize("raw", ["", "abc", "[]", "é", "=" * 99, "A" * 100_000, CUT, BOMB])
def test_pins_of_a_link_that_are_no_pins_are_ignored(raw: str) -> None:
    view, problems = from_params({"pins": raw, "layer": "3"})
    assert view.pins == () and view.layer == 3 and len(problems) == 1


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("model", "../../etc/passwd"), ("model", "/etc"), ("model", ""), ("model_b", "/etc/passwd"),
        ("corpus", "../../etc"), ("corpus_b", "../../etc"), ("corpus_model_b", "/etc/passwd"),
        ("layer", "-1"), ("layer", "99999"), ("layer", "٣٣٣٣٣٣٣٣٣٣"), ("key", "1" * 5000),
        ("mass", "nan"), ("least", "-1"), ("factor", "1e99"), ("words", "yes"), ("heads", "1.2.3"),
        ("show", "<script>"), ("sort", "__import__('os')"), ("only", "a b"), ("written", "201"),
        ("next_temperature", "5.1"), ("next_seed", "1e9"), ("branches", "5.-1"), ("arc", "obj.up"),
    ],
)  # fmt: skip
def test_nonsense_in_a_link_is_named_and_left_out(name, raw):
    view, problems = from_params({name: raw})
    assert view == DEFAULT
    assert len(problems) == 1 and name in problems[0] and len(problems[0]) < 200


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("importance", "norm_of_mean_output"), ("information", "mutual_information"),
        ("sparsity", "keys_for_mass"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["sort", "metric"])
def test_the_key_of_a_metric_in_an_older_link_opens_the_one_of_now(name, old, new):
    assert from_params({name: old}) == (replace(DEFAULT, **{name: new}), [])


@pytest.mark.parametrize(
    ("params", "first", "second"),
    [
        ({"layer": "2"}, (2, 0), (-1, -1)),
        ({"head": "5"}, (0, 5), (-1, -1)),
        ({"layer_b": "2"}, (-1, -1), (2, 1)),  # the second head was L0 H1 by default
        ({"layer_b": "0", "head_b": "1"}, (-1, -1), (0, 1)),
    ],
)
def test_older_link_that_leaves_out_a_number_of_a_head_means_its_default(params, first, second):
    view, problems = from_params(params)
    assert (view.chosen, view.second, problems) == (first, second, [])


def test_a_link_may_name_a_folder_only_where_somebody_typed_it():
    assert from_params({"model": "/models/mine"}, {"/models/mine"})[0].model == "/models/mine"
    assert from_params({"model": "/models/other"}, {"/models/mine"})[0] == DEFAULT


def test_unknown_parameters_are_ignored():
    assert from_params({"colour": "red", "__class__": "x"}) == (DEFAULT, [])


def test_a_text_of_a_link_is_cut_where_none_of_ours_is_as_long():
    assert len(from_params({"text": "x" * 10**6})[0].text) <= 4 * MAX_URL_TEXT


def test_every_choice_of_the_workbench_is_read_as_a_link_is():
    sent = {name: to_params(VIEW)[name] for name in BENCH}
    assert replace(DEFAULT, **validate_choices(sent)) == replace(
        DEFAULT, **{name: getattr(VIEW, name) for name in BENCH}
    )
    let_go = validate_choices({"sort": "", "only": "", "heads": "", "window": "", "tokens": ""})
    assert let_go == {"sort": "", "only": "", "heads": (), "window": (), "tokens": ()}


@pytest.mark.parametrize(
    "sent",
    [
        None, ["layer"], {"layer": 1}, {"layer": "1e9"}, {"mass": "nan"}, {"scale": "<b>"},
        {"window": "4.2,0.9"}, {"window": "0.99999,0.1"}, {"window": [[0, 1], [0, 1]]},
        {"show": "x" * 10**6}, {"key": ["3"]}, {3: "4"}, {"__class__": "int"},
        {"model": "owner/other"}, {"text": "mine"}, {"device": "cuda"}, {"how": "mean"},
    ],
)  # fmt: skip
def test_what_no_workbench_sends_chooses_nothing(sent):
    assert validate_choices(sent) == {}


def test_the_rest_of_a_message_counts_where_some_of_it_makes_no_sense():
    assert validate_choices({"layer": "2", "head": "many", "text": "x"}) == {"layer": 2}


@given(st.dictionaries(st.sampled_from([f.name for f in fields(View)]), st.text()))
def test_any_message_gives_a_view_that_a_link_can_say(sent):
    view = replace(DEFAULT, **{"layer": 0, "head": 0} | validate_choices(sent))
    assert from_params(to_params(view)) == (view, [])
