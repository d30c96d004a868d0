"""The page of the lab on translation and pictures: its runs, typed sentences, digits, threads."""

import pytest

from mha_viz.core import stored_runs
from mha_viz.learn.labs.translation_and_pictures import digits, numbers
from tests.making.comparing import near
from tests.ui.compare_app import check, matrices, table
from tests.ui.lab_app import lab, link

NAME = "translation-and-pictures"


def test_page_shows_the_numbers_of_its_stored_runs():
    app = lab(NAME, "overlays", "hidden")
    text = check(app)
    translating, _, reading = map(stored_runs.read, numbers.STORED)
    titles = [matrix["title"] for matrix in matrices(app)]
    for title, share in zip(titles, translating.aligned[:4], strict=False):
        assert f"{share:.0%}" in title
    assert f"{translating.hidden['translated']:.1%}" in text and f"{reading.right:.1%}" in text
    curves = table(app, "hidden", "most ink")
    assert list(curves["most attention"]) == near(reading.hidden["attention"])


def test_digit_is_drawn_under_the_weights_of_its_record():
    app = lab(NAME, "overlays", digit="7", which="2", layer="0")
    check(app)
    tested = digits.digits(True)
    picture = tested.pictures[(tested.labels == 7).nonzero()[2, 0]]
    reading = numbers.read(stored_runs.read(numbers.STORED[2]).weights, picture)
    shown = table(app, "patch", "head 3", "rollout")
    pattern = reading.record.pattern[0, :, 0, 1:]
    assert list(shown["head 3"]) == near(pattern[3].tolist())
    assert list(shown["mean of heads"]) == near(pattern.mean(0).tolist())
    assert list(shown["rollout"]) == near((pattern.mean(0) / 2).tolist())  # one layer: half of it
    drawn = next(matrix for matrix in matrices(app) if matrix["title"] == "head 3")
    assert drawn["said"][0] == near(float(pattern[3, 0])) == drawn["said"][9]


@pytest.mark.parametrize(
    ("typed", "translated"),
    [
        ("The CAT, hears: a dog!", "audi una kela lo miro"),
        ("<b>", ""),
        ("", ""),
    ],
)
def test_typed_sentence_is_translated_or_refused(typed, translated):
    app = lab(NAME)
    before = len(app.info)
    app.text_input(key=f"{NAME}-sentence").set_value(typed).run()
    text = check(app)
    assert translated in text and (len(app.info) > before) == (not translated)
    assert link(app).get("sentence") == typed
