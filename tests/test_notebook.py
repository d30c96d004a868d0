"""Records, heads and the workbench in a notebook: no token is read as markup, or any message."""

import base64
import html
import io
import json
import subprocess
import sys

import plotly.io as pio
import pytest
import torch
from PIL import Image

import mha_viz as mv
from mha_viz.core.measure import measure
from mha_viz.errors import ArgumentError
from mha_viz.notebook import record_payload
from tests.making import tags
from tests.web.unpacked import grid_unpack

HOSTILE = ["</script><img src=x onerror=alert(1)>", '"><svg onload=alert(2)>', "&lt;b&gt;$x^2$"]
VOID = {"meta", "img", "br", "input", "link", "hr", "path", "circle", "line", "rect", "use"}


class Tags(tags.Tags):
    """Every tag and attribute; complains where tags do not close in order."""

    def __init__(self, markup: str) -> None:
        self.open: list[str] = []
        super().__init__(markup)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        super().handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag


def record_of(labels: list[str], text: str = "a text", **fields) -> mv.AttentionRecord:
    n = len(labels)
    pattern = torch.rand(2, 3, n, n).softmax(-1)
    tokens = tuple(mv.Token(label, i, word=i) for i, label in enumerate(labels))
    return mv.AttentionRecord(pattern, tokens, model="m", text=text, **fields)


def html_of(record: mv.AttentionRecord) -> str:
    return record._repr_mimebundle_()["text/html"]


def is_picture(png: str, about: str) -> bool:
    """A PNG in base64 that is not one colour, and that says what it shows."""
    image = Image.open(io.BytesIO(base64.b64decode(png, validate=True)))
    colours = image.convert("RGB").getcolors(1_000_000)
    return image.format == "PNG" and len(colours) > 50 and about in image.text["Description"]


@pytest.fixture(scope="module")
def record() -> mv.AttentionRecord:
    return mv.load("tiny-bert").trace("The cat sat on the mat.")


def test_a_record_shows_itself_as_the_grid_of_its_heads(record):
    markup = html_of(record)
    frame = Tags(markup).seen[-1][1]
    assert "allow-same-origin" not in frame["sandbox"].split()  # it cannot reach the notebook
    assert "tiny-bert" in markup
    page = frame["srcdoc"]
    inner = Tags(page).seen
    assert not [
        t for t, a in inner if {"src", "href"} & a.keys() and t in ("script", "link", "img")
    ]
    assert base64.b64encode(record_payload(record)).decode() in page  # the numbers travel in it
    header, codes = grid_unpack(record_payload(record))
    assert (torch.from_numpy((codes / 255.0) ** 2) - record.pattern).abs().max() < 0.005
    names = {mv.METRICS[key].title for key in measure(record)}
    assert set(header["facts"]) == names and "Previous token" in names


@pytest.mark.parametrize("hostile", HOSTILE)
def test_tokens_and_texts_are_never_markup(hostile):
    harmless = html_of(record_of(["a"] * 5))
    markup = html_of(record_of([hostile] * 5, text=hostile, text_pair=hostile, notes=(hostile,)))
    outer, expected = Tags(markup).seen, Tags(harmless).seen
    assert [tag for tag, _ in outer] == [tag for tag, _ in expected]
    inside, plain = Tags(outer[-1][1]["srcdoc"]).seen, Tags(expected[-1][1]["srcdoc"]).seen
    assert [(tag, sorted(attrs)) for tag, attrs in inside] == [
        (tag, sorted(attrs)) for tag, attrs in plain
    ]
    assert hostile not in markup and hostile not in outer[-1][1]["srcdoc"]
    assert html.escape(hostile) in markup  # it is there to be read, in the caption


def test_importing_the_package_imports_nothing_heavy():
    code = """
import sys, mha_viz
heavy = {"torch", "numpy", "transformers", "plotly", "pandas", "streamlit"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_a_head_is_a_heatmap_of_exact_weights(record):
    figure = mv.show_head(record, 1, 5)
    (heatmap,) = [trace for trace in figure.data if trace.type == "heatmap"]
    assert torch.equal(torch.as_tensor(heatmap.z), record.pattern[1, 5])
    assert "L1 H5" in figure.to_json()
    assert "L3 H7" in mv.show_head(record, -1, -1).to_json()
    for layer, head in ((4, 0), (0, -9)):
        with pytest.raises(ArgumentError):
            mv.show_head(record, layer, head)


@pytest.fixture
def stored():
    """Return what a notebook stores of an object, by IPython's own display machinery."""
    formatters = pytest.importorskip("IPython.core.formatters")
    return lambda shown: formatters.DisplayFormatter().format(shown)[0]


def test_a_notebook_stores_a_head_alive_and_as_a_picture(record, stored, monkeypatch):
    monkeypatch.setattr(pio.renderers, "default", "plotly_mimetype+notebook")
    data = stored(record.plot(1, 5))
    figure = data["application/vnd.plotly.v1+json"]
    assert figure["data"][0]["type"] == "heatmap"
    json.dumps(figure)
    assert is_picture(data["image/png"], "The cat sat on the mat.")
    (image,) = Tags(data["text/html"]).seen
    assert image[0] == "img" and image[1]["src"].endswith(data["image/png"])


@pytest.fixture
def make_explorer():
    pytest.importorskip("anywidget")
    from mha_viz.explorer import Explorer

    return Explorer


def choose(explorer, **view):
    explorer.sent = {"id": "17", "view": {name: str(value) for name, value in view.items()}}


def test_a_choice_in_the_browser_can_be_read(record, make_explorer):
    explorer = record.explore()
    before = explorer.exact
    choose(explorer, layer=2, head=5, query=3, key=7)
    assert (explorer.selected, explorer.pair) == ((2, 5), (3, 7))
    # The answer says the same head again, or the browser would go back to the first one.
    assert explorer.settings["heard"] == "17"
    assert explorer.settings["view"] == {"layer": 2, "head": 5}
    assert torch.equal(explorer.weights, record[2, 5])
    assert explorer.exact and explorer.exact != before
    choose(explorer, query=-1, key=-1)
    assert (explorer.selected, explorer.pair) == ((2, 5), (None, None))


def test_it_begins_with_the_chosen_head_and_all_the_weights(record, make_explorer):
    explorer = make_explorer(record, (3, 1))
    assert explorer.settings["view"] == {"layer": 3, "head": 1, "scale": "sqrt"}
    _, codes = grid_unpack(explorer.payload)
    assert codes.shape == (4, 8, 9, 9)
    assert torch.tensor(codes[3, 1]).argmax() == record[3, 1].argmax()
    with pytest.raises(ArgumentError, match="layer"):
        make_explorer(record, (4, 0))


def test_it_leaves_a_picture_in_exports(record, make_explorer):
    explorer = make_explorer(record, (0, 3))
    data, *_ = explorer._repr_mimebundle_()
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == explorer.model_id
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
