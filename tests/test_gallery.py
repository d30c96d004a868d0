"""The gallery's links open on the head that its words are about."""

import re
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

import mha_viz as mv
from mha_viz.ui.state.links import from_params

PAGE = (Path(__file__).parents[1] / "docs" / "gallery.md").read_text("utf-8")
LINKS = re.findall(r"\((http://127\.0\.0\.1:8501/[^)]*)\)", PAGE)
ENTRIES = re.findall(r"^\[Open (L\d H\d) of .*?\]\((.*?)\)(?:.|\n)*?\), ([\d.]+) here", PAGE, re.M)


@pytest.mark.parametrize("link", LINKS, ids=lambda link: urlsplit(link).query[:60])
def test_a_link_of_the_gallery_is_read_whole(link: str) -> None:
    params = dict(parse_qsl(urlsplit(link).query))
    view, problems = from_params(params)
    assert not problems
    assert all(hasattr(view, name) for name in params), params


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry[0].replace(" ", ""))
def test_the_head_of_the_gallery_has_most_of_it(entry: tuple[str, str, str]) -> None:
    name, link, said = entry
    view, _ = from_params(dict(parse_qsl(urlsplit(link).query)))
    assert name == f"L{view.layer} H{view.head}"
    model = mv.load(view.model)
    record = model.trace(view.text, view.pair or None)
    scores = mv.head_report(record, model)[view.sort]
    assert divmod(int(scores.idxmax()), model.n_heads) == (view.layer, view.head)
    assert float(said) == pytest.approx(scores.max(), abs=0.006)


def test_every_entry_of_the_gallery_is_tested() -> None:
    assert len(ENTRIES) == PAGE.count("\nDo not conclude: ") >= 8
