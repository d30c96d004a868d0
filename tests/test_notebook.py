"""Records and heads in a notebook: valid HTML of its own, with no token read as markup."""

import base64
import html
import subprocess
import sys
from html.parser import HTMLParser

import pytest
import torch

import mha_viz as mv
from mha_viz.core import display
from mha_viz.core.measure import measure
from mha_viz.errors import ArgumentError
from mha_viz.notebook import caption, record_payload
from mha_viz.web.payload import grid_unpack

HOSTILE = ["</script><img src=x onerror=alert(1)>", '"><svg onload=alert(2)>', "&lt;b&gt;$x^2$"]
VOID = {"meta", "img", "br", "input", "link", "hr", "path", "circle", "line", "rect", "use"}


class Tags(HTMLParser):
    """Every tag and attribute; complains where tags do not close in order."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(markup)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
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


@pytest.fixture(scope="module")
def record() -> mv.AttentionRecord:
    return mv.load("tiny-bert").trace("The cat sat on the mat.")


def test_a_record_shows_itself_as_the_grid_of_its_heads(record):
    markup = record._repr_html_()
    tags = Tags(markup).tags
    assert [tag for tag, _ in tags] == ["div", "p", "iframe"]
    frame = tags[2][1]
    assert "allow-same-origin" not in frame["sandbox"].split()  # it cannot reach the notebook
    assert "tiny-bert" in markup and "4 layers × 8 heads" in markup
    page = frame["srcdoc"]
    inner = Tags(page).tags
    assert not [
        t for t, a in inner if {"src", "href"} & a.keys() and t in ("script", "link", "img")
    ]
    assert base64.b64encode(record_payload(record)).decode() in page  # the numbers travel in it


def test_the_grid_holds_the_records_numbers(record):
    header, codes = grid_unpack(record_payload(record))
    assert (header["layers"], header["heads"]) == (4, 8)
    assert header["query_labels"] == list(record.labels)
    assert header["query_special"] == [int(token.is_special) for token in record.tokens]
    decoded = torch.from_numpy((codes / 255.0) ** 2)
    assert (decoded - record.pattern).abs().max() < 0.005
    names = {mv.METRICS[key].title for key in measure(record)}
    assert set(header["facts"]) == names and "Previous token" in names


@pytest.mark.parametrize("hostile", HOSTILE)
def test_tokens_and_texts_are_never_markup(hostile):
    harmless = record_of(["a"] * 5)._repr_html_()
    markup = record_of(
        [hostile] * 5, text=hostile, text_pair=hostile, notes=(hostile,)
    )._repr_html_()
    outer, expected = Tags(markup).tags, Tags(harmless).tags
    assert [tag for tag, _ in outer] == [tag for tag, _ in expected]
    inside, plain = Tags(outer[-1][1]["srcdoc"]).tags, Tags(expected[-1][1]["srcdoc"]).tags
    assert [(tag, sorted(attrs)) for tag, attrs in inside] == [
        (tag, sorted(attrs)) for tag, attrs in plain
    ]
    assert hostile not in markup and hostile not in outer[-1][1]["srcdoc"]
    assert html.escape(hostile) in markup  # it is there to be read, in the caption


def test_a_record_shows_itself_without_anything_else_imported():
    """Whichever way the record came into being, also if only its own module was imported."""
    code = """
import torch
from mha_viz.core.record import AttentionRecord, Token
record = AttentionRecord(torch.full((1, 2, 3, 3), 1 / 3), tuple(Token(c, 1) for c in "abc"))
assert "<iframe" in record._repr_html_()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_core_by_itself_draws_nothing(record, monkeypatch):
    monkeypatch.setattr(display, "html_renderer", None)
    assert record._repr_html_() is None


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


def test_the_caption_says_what_was_done_to_the_record(record):
    assert "sub-words merged" not in caption(record) and "left out" not in caption(record)
    less = record.merge_words().without_special()
    assert "sub-words merged" in caption(less)
    assert f"{float(less.removed_mass.mean()):.1%} of the mass" in caption(less)
    assert "cross attention" in caption(record_of(["a", "b"], part="cross"))
    assert len(caption(record_of(["a", "b"], text="long " * 500))) < 300


def test_metrics_of_places_have_no_meaning_between_two_texts():
    square = record_of(["a", "b", "c"], part="cross")
    assert "confidence" in measure(square)
    assert not {"self_token", "previous_token", "distance"} & measure(square).keys()
    assert "self_token" in measure(record_of(["a", "b", "c"]))


def test_a_notebook_displays_it(record):
    """By IPython's own display machinery, where it is installed."""
    formatters = pytest.importorskip("IPython.core.formatters")
    data, _ = formatters.DisplayFormatter().format(record)
    assert "<iframe" in data["text/html"] and "AttentionRecord(" in data["text/plain"]
