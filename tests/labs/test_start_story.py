"""Numbers that the story of "Start here" tells, beside those of the run."""

import re

import pytest

import mha_viz as mv
from mha_viz.learn.start import numbers, story
from mha_viz.reports.report import KEEP, report


def numbers_in(text: str) -> list[float]:
    return [float(number.replace("−", "-")) for number in re.findall(r"[-−]?\d+\.?\d*", text)]


@pytest.mark.parametrize("text", [numbers.SENTENCE, "Tom had a red ball. Tom threw his red"])
def test_steps_tell_score_weight_and_probability_of_the_run(text: str) -> None:
    model = mv.load(numbers.MODEL)
    run = numbers.follow(model, text)
    labels = report(model.trace(text, keep=KEEP), model, untrained=False).labels
    steps = {step["key"]: step["text"] for step in story.steps(run, labels)}
    layer, head = run.author
    row = run.pattern[layer, head, -1]
    best = int(row.argmax())
    query, key = run.query[layer, head, -1], run.key[layer, head, best]
    score = float(query @ key) / len(key) ** 0.5
    assert float(f"{score:.3g}") in numbers_in(steps["scores"])
    weights = numbers_in(steps["softmax"])
    assert any(abs(number - float(row[best])) < 0.01 for number in weights), steps["softmax"]
    probability = float(run.guesses.with_all[0])
    told = numbers_in(steps["prediction"])
    assert any(abs(number - probability) < 0.01 for number in told) or any(
        abs(number - 100 * probability) < 1 for number in told
    )


def test_steps_claim_no_idea_where_the_likeliest_token_has_less_than_five_percent() -> None:
    model = mv.load(numbers.MODEL)
    for text in ("qq zz xv", numbers.SENTENCE):
        run = numbers.follow(model, text)
        labels = report(model.trace(text, keep=KEEP), model, untrained=False).labels
        steps = {step["key"]: step["text"] for step in story.steps(run, labels)}
        is_sure = float(run.guesses.with_all[0]) >= 0.05
        assert is_sure == (text == numbers.SENTENCE)
        assert ("no idea" not in steps["question"]) == is_sure
        assert ("no idea" not in steps["prediction"]) == is_sure
        lens = [place[0][1] >= 0.05 for place in run.lens]
        assert steps["layers"].count("no idea") == lens.count(False)
        assert text != numbers.SENTENCE or steps["head"].index("layers") < steps["head"].index(
            "L1 H7"
        )


@pytest.mark.parametrize(
    ("text", "is_english"),
    [(numbers.SENTENCE, True), ("Die Katze sitzt auf der Matte", False), ("猫が座っている", False)],
)
def test_tokens_are_explained_by_whole_and_split_words(text: str, is_english: bool) -> None:
    model = mv.load(numbers.MODEL)
    run = numbers.follow(model, text)
    labels = report(model.trace(text, keep=KEEP), model, untrained=False).labels
    told = {step["key"]: step["text"] for step in story.steps(run, labels)}["tokens"]
    assert ("English only" not in told) == is_english
    assert f"cut into {'3: “Z”, “or”, “val”' if is_english else ''}" in told
    assert not is_english or "whole tokens: “In”, “spring”, “Captain”" in told
