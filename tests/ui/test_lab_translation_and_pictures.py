"""The page of the lab on translation and pictures: odd sentences, links, what is said of a run."""

import functools

import pytest
import torch

from mha_viz.learn.frame import stored_runs
from mha_viz.learn.labs.translation_and_pictures import digits, numbers
from mha_viz.ui.run import page_lock
from tests.making.comparing import near
from tests.ui.compare_app import check, matrices, table
from tests.ui.lab_app import answers, lab, link, warns_of

pytestmark = pytest.mark.slow

NAME = "translation-and-pictures"


def test_the_lab_opens_with_its_runs_and_says_their_numbers():
    app = lab(NAME, "overlays", "hidden")
    text = check(app)
    found, _, read = map(stored_runs.read, numbers.STORED)
    assert "**vidi uno tilo ruto lo miro piko** · Right." in text
    assert f"mean over heads {found.aligned[-1]:.0%}" in " ".join(c.value for c in app.caption)
    assert f"**{found.hidden['translated']:.1%}** if it is the word translated" in text
    assert f"reads {read.right:.1%} right" in text and f"the same pixels {read.linear:.1%}" in text
    titles = [matrix["title"] for matrix in matrices(app)]
    assert titles[:4] == [f"head {i}: {found.aligned[i]:.0%}" for i in range(4)]
    assert titles[-2:] == ["mean of heads", "rollout"]
    curves = table(app, "hidden", "most ink")
    assert list(curves["most attention"]) == near(read.hidden["attention"])


def test_a_lab_computes_in_one_thread_and_leaves_the_number_as_it_was(monkeypatch):
    """Matrices this small took seconds in two threads of a busy machine, and 11 ms in one."""
    seen, usual, translate = [], torch.get_num_threads(), numbers.translate

    def noted(weights, words):
        seen.append(torch.get_num_threads())
        return translate(weights, words)

    monkeypatch.setattr(numbers, "translate", noted)
    torch.set_num_threads(3)
    try:
        monkeypatch.setattr(page_lock, "_usual_threads", functools.cache(torch.get_num_threads))
        check(lab(NAME))
        assert seen == [1] and torch.get_num_threads() == 3
        given = stored_runs.read(numbers.STORED[0]).weights, ["the", "cat", "hears", "a", "dog"]
        with page_lock.one_thread():
            alone = translate(*given)
        assert torch.equal(alone.pattern, translate(*given).pattern)
    finally:
        torch.set_num_threads(usual)


def test_a_digit_is_drawn_under_the_weights_of_its_record():
    app = lab(NAME, "overlays", digit="7", which="2", layer="0")
    check(app)
    tested = digits.digits(True)
    picture = tested.pictures[(tested.labels == 7).nonzero()[2, 0]]
    made = numbers.read(stored_runs.read(numbers.STORED[2]).weights, picture)
    shown = table(app, "patch", "head 3", "rollout")
    pattern = made.record.pattern[0, :, 0, 1:]
    assert list(shown["head 3"]) == near(pattern[3].tolist())
    assert list(shown["mean of heads"]) == near(pattern.mean(0).tolist())
    assert list(shown["rollout"]) == near((pattern.mean(0) / 2).tolist())  # one layer: half of it
    drawn = next(m for m in matrices(app) if m["title"] == "head 3")
    assert drawn["said"][0] == near(float(pattern[3, 0])) == drawn["said"][9]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("The CAT, hears: a dog!", "audi una kela lo miro"),  # as people write
        ("cat dog", "no sentence of this form"),
        ("the zebra sees a cat", "does not know “zebra”"),
        ("<b>", "does not know “b”"),
        ("", "Type 1 to 7 words"),
        ("the cat sees the cat sees the cat", "Type 1 to 7 words"),
    ],
)
def test_a_typed_sentence_is_translated_or_answered(typed, said):
    app = lab(NAME)
    app.text_input(key=f"{NAME}-sentence").set_value(typed).run()
    text = check(app) + " ".join(info.value for info in app.info)
    assert said in text
    assert link(app).get("sentence") == typed


def test_a_seed_that_is_not_trained_yet_says_so():
    app = lab(NAME, seed="3")
    check(app)
    assert any("not trained with this seed" in caption.value for caption in app.caption)


def test_what_a_link_says_in_vain_is_told():
    warns_of(NAME, digit="10", layer="2", seed="x")


def test_the_answer_is_the_one_that_is_measured():
    (said,) = answers(NAME, "where")
    assert said.startswith("**About four of five")
