"""Lab 11's page: the game played, its link, its sheets, odd texts and models."""

import functools
import re
from urllib.parse import parse_qsl, urlsplit

import pytest

import mha_viz as mv
from mha_viz.learn.labs.find_the_head import boards
from mha_viz.learn.labs.find_the_head.numbers import (
    BY_KEY,
    TASKS,
    board_of_pairs,
    board_of_scores,
    hints,
    labelled,
    points,
)
from mha_viz.reports.report import KEEP, report
from tests.making.pairwise import pairwise
from tests.ui.compare_app import HOSTILE, TEXT, check, table
from tests.ui.lab_app import heavy, lab, link

K = "find-the-head-"


def choose(app, *heads):
    for slot, (layer, head) in enumerate(heads):
        app.selectbox(key=f"{K}layer-{slot}").set_value(layer)
        app.selectbox(key=f"{K}head-{slot}").set_value(head)
    app.run()


def chosen(app, n_heads=1):
    return tuple(
        tuple(app.selectbox(key=f"{K}{axis}-{slot}").value for axis in ("layer", "head"))
        for slot in range(n_heads)
    )


def press(app, name):
    app.button(key=K + name).click().run()
    return "\n".join([check(app), *(message.value for message in app.success)])


def best(name, metric):
    scores = mv.head_report(mv.load(name).trace(TEXT, None, keep=("pattern", "z", "value")))
    row = scores.loc[scores[metric].idxmax()]
    return int(row.layer), int(row["head"])


def test_a_game_from_its_first_task_to_its_total():
    app = lab("find-the-head", text=TEXT, model="tiny-gpt2", tasks="previous,self,twins")
    check(app)
    assert app.header[0].value == "Task 1 of 3: The token before"
    choose(app, best("tiny-gpt2", "previous_token"))
    assert "**100 points.**" in press(app, "answer")
    text = press(app, "next")
    assert "Task 2 of 3: Itself" in text
    press(app, "hint")
    press(app, "hint")
    assert len(app.info) == 2
    choose(app, best("tiny-gpt2", "self_token"))
    text = press(app, "answer")
    assert "hints cost 20" in text and ("**80 points.**" in text or "**30 points.**" in text)
    press(app, "next")
    choose(app, (0, 0), (0, 0))
    assert app.button(key=f"{K}answer").disabled  # one head twice is no pair
    choose(app, (0, 0), (1, 1))
    text = press(app, "answer")
    shown = table(app, "Your answer", "Points")
    assert f"Total: {shown['Points'].sum()} of 300 points" in text
    assert list(shown["Hints"]) == [0, 2, 0]
    assert "Total" not in press(app, "restart")
    assert "0 of 3 tasks answered" in app.get("progress")[0].proto.text


@functools.cache
def boards_of(name):
    """The boards of all tasks that need no loss, by their keys, as the library measures them."""
    model = mv.load(name)
    record = model.trace(TEXT, None, keep=KEEP)
    found = report(record, model)
    boards = {
        task.key: board_of_scores(task, found.scores[task.metric], labelled(task, found.labels))
        for task in BY_KEY.values()
        if task.metric in found.scores
    }
    distance = mv.head_similarity(record, "hellinger").numpy()
    boards["twins"] = board_of_pairs(BY_KEY["twins"], distance, model.n_heads)
    return {key: board for key, board in boards.items() if board is not None}


@pytest.mark.parametrize(("name", "n_tasks"), [("tiny-bert", 9), ("tiny-gpt2", 7)])
def test_what_is_chosen_to_begin_with_is_never_right(name, n_tasks):
    boards = boards_of(name)
    assert len(boards) == n_tasks
    for board in boards.values():
        assert points(board, board.start) < 100, board.task.key
    app = lab("find-the-head", text=TEXT, model=name)
    assert f"Task 1 of {n_tasks}: The token before" in check(app)
    assert chosen(app) == boards["previous"].start
    assert "**100 points.**" not in press(app, "answer")
    press(app, "back")  # round to the last one
    assert chosen(app, 2) == boards["twins"].start
    assert "**100 points.**" not in press(app, "answer")


def test_answers_are_in_no_link():
    app = lab("find-the-head", text=TEXT, tasks="sink,self", seed="7")
    before = link(app)
    choose(app, (2, 3))
    press(app, "hint")
    press(app, "answer")
    assert link(app) == before
    asked = dict(parse_qsl(urlsplit(app.code[0].value).query))
    assert asked == {"model": "tiny-bert", "text": TEXT, "tasks": "sink,self", "seed": "7"}
    again = lab("find-the-head", **asked)
    check(again)
    assert again.header[1].value == app.header[0].value
    assert not again.success and not again.error and not again.warning


def test_a_link_from_another_page_hands_out_no_heads():
    app = lab("find-the-head", text=TEXT, layer="3", head="2", sort="entropy")
    check(app)
    assert not {"layer", "head", "sort"} & dict(parse_qsl(urlsplit(app.code[0].value).query)).keys()


def test_choosing_tasks_changes_the_link():
    app = lab("find-the-head", text=TEXT)
    assert "tasks" not in link(app)
    app.multiselect(key=f"{K}tasks").set_value(["twins", "self"]).run()
    check(app)
    assert link(app)["tasks"] == "self,twins"
    app.number_input(key=f"{K}seed").set_value(3).run()
    assert link(app)["seed"] == "3"


def test_a_link_that_makes_no_sense_is_told():
    for tasks in ("previous,nonsense", "self,self", "<script>", ","):
        with pytest.raises(ValueError):
            boards._read_tasks(tasks)
    app = lab("find-the-head", text=TEXT, tasks="self,<script>", seed="-4")
    assert "is not valid" in check(app)
    assert len(app.warning) == 2


def test_tasks_that_have_no_meaning_here_are_left_out():
    app = lab("find-the-head", text=TEXT, model="tiny-gpt2", tasks="next,self")
    text = check(app)
    assert "does not see the future" in text and "Task 1 of 1: Itself" in text
    app = lab("find-the-head", text="A cat sat", tasks="duplicate")
    text = check(app)
    assert "No token of this text occurs twice" in text and "no answer to these tasks" in text


def test_no_head_does_is_right_where_none_does(models):
    """Random weights: no head looks at itself with half of its weight."""
    app = lab("find-the-head", text="the cat sat the cat", tasks="self", model=models["gpt2"])
    text = press(app, "nobody")
    assert "**100 points.**" in text and "No head does. The nearest is" in text
    app = lab("find-the-head", text=TEXT, tasks="previous", model="tiny-gpt2")
    press(app, "nobody")
    assert "**0 points.** Some head does" in app.warning[0].value


def test_losses_are_measured_on_request():
    app = lab("find-the-head", text=TEXT, model="tiny-gpt2", tasks="spare,needed")
    check(app)
    assert not any(b.key == f"{K}answer" for b in app.button)
    text = press(app, "measure")
    assert "Task 1 of 2: A head that can be removed" in text
    change = mv.head_importance(mv.load("tiny-gpt2"), TEXT, "ablation").mean
    press(app, "next")
    choose(app, divmod(int(change.argmax()), 8))
    assert "**100 points.**" in press(app, "answer")
    press(app, "back")
    choose(app, divmod(int(change.abs().argmin()), 8))
    assert "**100 points.**" in press(app, "answer")


def test_hints_are_those_of_the_seed():
    app = lab("find-the-head", text=TEXT, tasks="sink", seed="5")
    for _ in range(3):
        press(app, "hint")
    assert app.button(key=f"{K}hint").disabled
    expected = hints(boards_of("tiny-bert")["sink"], 5)
    assert [info.value for info in app.info] == [
        f"**Hint {number}.** {text}" for number, text in enumerate(expected, 1)
    ]
    assert "A dark column" in app.info[0].value


def test_the_predicted_share_is_counted():
    app = lab("find-the-head", text=TEXT)
    text = press(app, "predict-places-button")
    assert re.search(r"On this text \d+ of 32 heads do", text)


def test_sheets_hold_tasks_and_answers_and_no_markup_of_the_text(monkeypatch):
    app = lab("find-the-head", text=HOSTILE, model="tiny-gpt2", tasks="self,twins")
    check(app)
    scene = app.session_state["scene"]
    found = {}
    for key in ("self", "twins"):
        values = scene.facts["self_token"]
        found[key] = (
            board_of_scores(BY_KEY[key], values, [])
            if key == "self"
            else board_of_pairs(
                BY_KEY[key], mv.head_similarity(scene.record, "hellinger").numpy(), 8
            )
        )
    pupil, teacher = (boards.sheet(scene, "http://x/?a=1", found, a) for a in (False, True))
    for page in (pupil, teacher):
        assert "<script" not in page and "&lt;script&gt;" in page and "http-equiv" in page
        assert "Which two heads look most alike" in page
    assert "Because" in pupil and "Answer:" not in pupil
    for board in found.values():
        assert hints(board)[0] not in pupil
    assert "The nearest: L" in teacher and "Answer: L" in teacher and "http://x/?a=1" in teacher


def test_sheets_ask_for_nothing_that_no_picture_shows():
    """Induction is measured on a text of its own, losses by switching heads off."""
    assert [task.key for task in TASKS if not task.on_paper] == ["induction", "spare", "needed"]
    app = lab("find-the-head", text="a b a b a", model="tiny-gpt2", tasks="induction,self")
    assert (
        "Not on the sheets, because no picture shows it: The token that came next last time."
        in check(app)
    )
    app = lab("find-the-head", text="a b a b a", model="tiny-gpt2", tasks="induction")
    check(app)
    assert not app.get("download_button")


TEXTS = {"one": "a", "equal": "the the the the", "hostile": HOSTILE, "long": "the cat " * 5_000}


@pairwise(dear=True, model=["tiny-bert", "tiny-gpt2"], text=TEXTS)
def test_any_text(model, text):
    app = lab("find-the-head", text=TEXTS[text], model=model)
    check(app)
    press(app, "answer")


def test_one_head_is_nothing_to_find(models):
    app = lab("find-the-head", text="the cat sat the cat", model=models["one"])
    assert "there is nothing to find" in check(app)


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        pytest.param("tall", "2", marks=pytest.mark.extended),
        ("deberta", "3"),
        ("t5", "5"),
        pytest.param("gpt2", "7", marks=pytest.mark.extended),
    ],
)
def test_any_model(models, name, seed):
    """Boards of all tasks are made at once; the one that the seed brings first is played, and the
    one about two heads.
    """
    link = {
        "model": models[name],
        "text": "the cat sat the cat",
        "pair": "the dog" * (name == "t5"),
    }
    app = lab("find-the-head", seed=seed, **link)
    assert re.search(r"Task 1 of [5-9]:", check(app))
    press(app, "answer")
    press(app, "next")
    app.multiselect(key=f"{K}tasks").set_value(["twins"]).run()
    assert "Task 1 of 1: The two most alike" in check(app)
    press(app, "answer")


def test_any_part_of_an_encoder_decoder(models):
    link = {"model": models["t5"], "text": "the cat sat the cat", "pair": "the dog"}
    for part in ("decoder", "cross"):
        check(lab("find-the-head", part=part, **link))
    app = lab("find-the-head", tasks="spare", **link)
    app.button(key=f"{K}measure").click().run()
    assert len(app.error) == 1 and not app.exception


def test_a_click_runs_no_model_and_measures_nothing_again(monkeypatch):
    app = lab("find-the-head", text=TEXT)
    choose(app, (1, 1))
    calls = heavy(monkeypatch)
    choose(app, (2, 2))
    assert not app.exception and not calls and app.selectbox(key=f"{K}head-0").value == 2
