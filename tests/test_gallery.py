"""The gallery's links open on the head that its words and its picture are about."""

import io
import re
from urllib.parse import parse_qsl, urlsplit

import pytest
from PIL import Image

import mha_viz as mv
from docs.make_gallery import PAGE, entries, pictures
from docs.picture_compare import changed_share
from mha_viz.ui.state.links import from_params
from mha_viz.ui.state.views import View

TEXT = PAGE.read_text("utf-8")
LINKS = re.findall(r"\((http://127\.0\.0\.1:8501/[^)]*)\)", TEXT)
ENTRIES = entries()


@pytest.mark.parametrize("link", LINKS, ids=lambda link: urlsplit(link).query[:60])
def test_a_link_of_the_gallery_is_read_whole(link: str) -> None:
    params = dict(parse_qsl(urlsplit(link).query))
    view, problems = from_params(params)
    assert not problems
    assert all(hasattr(view, name) for name in params), params


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry[0].replace(" ", ""))
def test_the_head_of_the_gallery_has_most_of_it(entry: tuple[str, View, float]) -> None:
    name, view, stated = entry
    assert name == f"L{view.layer} H{view.head}"
    model = mv.load(view.model)
    record = model.trace(view.text, view.pair or None)
    scores = mv.head_report(record, model)[view.sort]
    assert divmod(int(scores.idxmax()), model.n_heads) == (view.layer, view.head)
    assert stated == pytest.approx(scores.max(), abs=0.006)


def test_every_entry_of_the_gallery_is_tested() -> None:
    assert len(ENTRIES) == TEXT.count("\nDo not conclude: ") >= 8


def test_each_picture_of_the_gallery_shows_its_head() -> None:
    for path, png in pictures():
        assert f'src="images/{path.name}"' in TEXT
        stored, drawn = Image.open(path), Image.open(io.BytesIO(png))
        assert stored.size == drawn.size and changed_share(drawn, stored) < 0.01, path
