"""Printable sheets and boards of heads as pages: escaped, offline, with or without answers."""

import base64
import re

import numpy as np

from mha_viz.plots.static import head_image
from mha_viz.plots.worksheet import HeadCard, SheetTask, board_html, worksheet
from tests.making.tags import Tags

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
EVIL = "<script>alert(1)</script>\"'&<img src=x onerror=alert(1)>"
TASKS = [
    SheetTask("Before", "Which head?", "From 0.5 on.", ("L1 H2: 0.9",), PNG),
    SheetTask(EVIL, EVIL, EVIL, (EVIL,)),
]


def test_all_text_is_text():
    document = worksheet(EVIL, [EVIL], TASKS, tokens=[EVIL, "a"], grid=PNG, answers=True)
    page = Tags(document)
    harmless = "html head meta title style body h1 h2 p b small section figure img div span"
    assert {tag for tag, _ in page.seen} <= set(harmless.split())
    assert not any(name.startswith("on") for _, attributes in page.seen for name in attributes)
    assert page.text.count("<script>alert(1)</script>") >= 6


def test_nothing_is_asked_of_a_network():
    document = worksheet("Sheet", [], TASKS, grid=PNG, answers=True)
    sources = re.findall(r'(?:src|href)="([^"]*)"', document)
    assert len(sources) == 2 and all(s.startswith("data:image/png;base64,") for s in sources)
    assert "default-src 'none'" in document and "url(" not in document


def test_pupils_get_room_and_teachers_answers():
    pupil, teacher = (worksheet("Sheet", ["About"], TASKS, answers=a) for a in (False, True))
    assert pupil.count("Because") == 2 and "L1 H2" not in pupil and "<img" not in pupil
    assert "L1 H2: 0.9" in teacher and "Because" not in teacher and teacher.count("<img") == 1


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
