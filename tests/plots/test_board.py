"""A board of heads as one HTML page, read back."""

import base64
import re

import numpy as np

from mha_viz.plots.static import head_image
from mha_viz.plots.worksheet import HeadCard, board_html
from tests.making.tags import Tags

HOSTILE = "<script>alert(1)</script> | **b** [x](javascript:1) http://a.b `c` $x$ &lt; &amp;\nd"
LINK = "http://127.0.0.1:8501/compare?section=pins&pins=eJwrSS0u"


def card(number: int, size: int) -> HeadCard:
    weights = np.random.default_rng(number).dirichlet(np.ones(size), size).astype(np.float32)
    labels = [f"t{i}" for i in range(size)]
    return HeadCard(
        f"L{number} H2 of a/b_c",
        {"Sentence": HOSTILE, "Note": f"note {number}"},
        {"Entropy": number + 0.123456, f"Only {number}": 7.0, "Undefined": float("nan")},
        head_image(weights, (labels, labels)),
    )


CARDS = [card(3, 5), card(11, 7)]
ROWS = [
    ["Entropy", "3.12", "11.1"],
    ["Only 3", "7", "not defined"],
    ["Only 11", "not defined", "7"],
    ["Undefined", "not defined", "not defined"],
]


def test_the_page_holds_pictures_texts_and_numbers_and_runs_nothing() -> None:
    page = board_html(CARDS, LINK)
    read = Tags(page)
    assert not {"script", "iframe"} & {tag for tag, _ in read.seen} and "script-src" not in page
    assert read.text.count(HOSTILE) == 2 and "note 11" in read.text
    urls = [str(of[name]) for _, of in read.seen for name in ("src", "href") if name in of]
    pictures = [base64.b64decode(url.partition(",")[2]) for url in urls[:2]]
    assert pictures == [one.picture for one in CARDS] and urls[2:] == [LINK]
    cells = re.findall(r"<t[hd]>(.*?)</t[hd]>", page)
    start = cells.index("Entropy")
    found = [cells[i : i + 3] for i in range(start, len(cells), 3)]
    assert sorted(found) == sorted(ROWS)
    assert "href" not in board_html(CARDS)
