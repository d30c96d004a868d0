"""Lab 11's page: the game played, its link, its sheets, odd texts and models."""

from urllib.parse import parse_qsl, urlsplit

import mha_viz as mv
from mha_viz.learn.labs.find_the_head import boards
from mha_viz.learn.labs.find_the_head.numbers import (
    BY_KEY,
    board_of_pairs,
    board_of_scores,
    hints,
)
from tests.ui.compare_app import HOSTILE, TEXT, check, table
from tests.ui.lab_app import lab, link

K = "find-the-head-"


def choose(app, *heads):
    for slot, (layer, head) in enumerate(heads):
        app.selectbox(key=f"{K}layer-{slot}").set_value(layer)
        app.selectbox(key=f"{K}head-{slot}").set_value(head)
    app.run()


def press(app, name):
    app.button(key=K + name).click().run()
    return "\n".join([check(app), *(message.value for message in app.success)])


def best(name, metric):
    scores = mv.head_report(mv.load(name).trace(TEXT, None, keep=("pattern", "z", "value")))
    row = scores.loc[scores[metric].idxmax()]
    return int(row.layer), int(row["head"])


def test_game_of_three_tasks_sums_points_and_hints():
    app = lab("find-the-head", text=TEXT, model="tiny-gpt2", tasks="previous,self,twins")
    check(app)
    assert app.button(key=f"{K}nobody")  # a task of a label, which no head may have
    choose(app, best("tiny-gpt2", "previous_token"))
    assert "100 points" in press(app, "answer")
    press(app, "next")
    for number in (1, 2):
        press(app, "hint")
        assert len(app.info) == number
    choose(app, best("tiny-gpt2", "self_token"))
    text = press(app, "answer")
    assert "80 points" in text or "30 points" in text  # each hint costs 10
    press(app, "next")
    assert not any(button.key == f"{K}nobody" for button in app.button)
    choose(app, (0, 0), (0, 0))
    assert app.button(key=f"{K}answer").disabled  # a pair needs two heads
    choose(app, (0, 0), (1, 1))
    text = press(app, "answer")
    shown = table(app, "Your answer", "Points")
    assert f"{shown['Points'].sum()} of 300 points" in text
    assert list(shown["Hints"]) == [0, 2, 0]
    press(app, "restart")
    assert not any("Your answer" in shown.value for shown in app.dataframe)


def test_link_holds_tasks_and_seed_and_no_answers():
    app = lab("find-the-head", text=TEXT, layer="3", head="2", sort="entropy", seed="7")
    app.multiselect(key=f"{K}tasks").set_value(["twins", "self"]).run()
    before = link(app)
    assert before["tasks"] == "self,twins"
    press(app, "hint")
    press(app, "answer")
    assert link(app) == before
    shared = dict(parse_qsl(urlsplit(app.code[0].value).query))
    assert shared == {"model": "tiny-bert", "text": TEXT, "tasks": "self,twins", "seed": "7"}
    again = lab("find-the-head", **shared)
    check(again)
    assert again.header[0].value == app.header[0].value
    assert not again.success and not again.error and not again.warning


def test_sheets_hold_tasks_and_answers_and_no_markup_of_the_text():
    app = lab("find-the-head", text=HOSTILE, model="tiny-gpt2", tasks="self,twins")
    check(app)
    scene = app.session_state["scene"]
    distance = mv.head_similarity(scene.record, "hellinger").numpy()
    tasks = {
        "self": board_of_scores(BY_KEY["self"], scene.facts["self_token"], []),
        "twins": board_of_pairs(BY_KEY["twins"], distance, 8),
    }
    pupil, teacher = (boards.sheet(scene, "http://x/?a=1", tasks, a) for a in (False, True))
    for page in (pupil, teacher):
        assert "<script" not in page and "&lt;script&gt;" in page and "http-equiv" in page
    assert "Answer:" not in pupil and "Answer: L" in teacher and "http://x/?a=1" in teacher
    for board in tasks.values():
        assert hints(board)[0] not in pupil


def test_game_with_one_head_has_no_tasks(models):
    app = lab("find-the-head", text="the cat sat the cat", model=models["one"])
    check(app)
    assert not any(button.key == f"{K}answer" for button in app.button)
