"""The printable sheet: escaped, offline, with or without answers."""

import base64
import re

from mha_viz.plots.worksheet import SheetTask, worksheet
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
