"""Lab 11's page: the game played, its link, its sheets, odd texts and models."""

import mha_viz as mv
from tests.ui.compare_app import TEXT, check, table
from tests.ui.lab_app import lab

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
