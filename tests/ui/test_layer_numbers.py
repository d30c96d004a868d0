"""Pages about a model with layers without attention name heads by the model's own numbers."""

import re
from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

import mha_viz as mv
from mha_viz.ui.state import layer_numbers, links, selection
from tests.making.hybrids import jamba
from tests.ui import heads_app
from tests.ui.compare_app import said

COUNTED = re.compile(r"\bL[01]\b")  # what layers 3 and 7 were called, counted as they come
TEXT = "ba da fa ba da fa ka"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> mv.AttentionModel:
    folder = tmp_path_factory.mktemp("hybrid") / "jamba"
    made = jamba()
    made.network.save_pretrained(folder)
    made.tokenizer.save_pretrained(folder)
    selection.folders().add(str(folder))
    return mv.load(str(folder))


def at(app: AppTest, name: str) -> str:
    """A parameter of the page's address, which a test sets as a string and the page as a list."""
    value = app.query_params[name]
    return value if isinstance(value, str) else value[0]


def test_views_go_to_addresses_and_back():
    link = {
        "model": "a/b",
        "text": "x",
        "layer": "7",
        "head": "1",
        "off": "3.0,7.2",
        "layer_b": "3",
    }
    view, problems = links.from_params({**link, "layer_numbers": "0.1"})
    assert not problems and view.layer == 7 and view.layer_numbers == ()
    fitted = layer_numbers.by_position(view, (3, 7))
    assert (fitted.chosen, fitted.off, fitted.layer_b) == ((1, 1), ((0, 0), (1, 2)), 0)
    assert links.to_params(fitted) == links.to_params(view)
    other = layer_numbers.by_position(fitted, (1, 3, 5))  # of another model, which has no layer 7
    assert other.chosen == (3, 1) and other.layer_b == 1
    assert layer_numbers.by_position(fitted, ()).chosen == (7, 1)
    of_two = replace(view, model_b="c/d")  # whose layers have other numbers
    assert layer_numbers.by_position(of_two, (3, 7)).layer_b == 3


def test_heads_shows_the_head_that_an_address_names(model):
    app = heads_app.heads_page(model=model.name, text=TEXT, layer="7", head="1", export=True)
    assert not app.exception
    grid, view = heads_app.brought(app, "grid"), heads_app.bench(app)["view"]
    assert grid["layer_numbers"] == [3, 7] and (view["layer"], view["head"]) == (1, 1)
    assert at(app, "layer") == "7"
    assert heads_app.brought(app, "head")["head"] == 4 + 1  # whose exact weights are sent
    names = [f"L{layer} H{head}" for layer in (3, 7) for head in range(4)]
    assert app.dataframe[-1].value["Head"].tolist() == names
    assert "L7 H1" in said(app) and not COUNTED.search(said(app))
    app = heads_app.choose(app, layer=0, head=2)  # a click on the first row of the grid
    assert at(app, "layer") == "3" and "L3 H2" in said(app)
