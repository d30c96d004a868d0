"""The lesson of 45 minutes in lesson_plan.toml: its phases, stops, questions and exercises.

Must not import torch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from string import ascii_uppercase
from urllib.parse import urlencode

from mha_viz.learn.frame.contents import LABS, read_records
from mha_viz.learn.frame.questions import Question
from mha_viz.learn.frame.texts import read_texts
from mha_viz.ui.pages import FIRST
from mha_viz.ui.state import own_address

_LABS = {lab.address: lab for lab in LABS}


@dataclass(frozen=True)
class Phase:
    """The minutes before the first stop, or after the last one."""

    title: str
    minutes: int
    do: str


@dataclass(frozen=True)
class Exercise:
    """A task on the printed sheet; `params` open Heads on the head that it names."""

    ask: str
    solution: str
    params: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Stop:
    """One stop of the lesson.

    Args:
        page: its address in the app.
        minutes: that it takes.
        do: the activity of the class.
        often: frequent wrong answers of pupils, with the reason.
        exercise: the tasks of the printed sheet.
        ask: the lab's prediction that is voted on, by its table in the lab's texts.toml.
        values: the values in the texts of that prediction, and `right` where these decide it.
        question: the one that is voted on where the page is no lab.
        params: the case that the stop is about, as parameters of the address.
    """

    page: str
    minutes: int
    do: str
    often: str
    exercise: tuple[Exercise, ...]
    ask: str = ""
    values: Mapping[str, int] = field(default_factory=dict)
    question: tuple[Question, ...] = ()
    params: Mapping[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The name of its page."""
        lab = _LABS.get(self.page)
        return self.page.capitalize() if lab is None else f"{LABS.index(lab) + 1}. {lab.title}"

    @property
    def vote_question(self) -> Question:
        """The question that is voted on, without the emphasis of a lab's page."""
        if self.question:
            return self.question[0]
        texts = read_texts(_LABS[self.page].module.rpartition(".")[0])
        values = {name: value for name, value in self.values.items() if name != "right"}
        question = texts.question(self.ask, right=self.values.get("right"), **values)
        plain = {key: getattr(question, key).replace("**", "") for key in ("question", "because")}
        return replace(question, **plain)

    @property
    def vote_key(self) -> tuple[str, tuple[str, ...]]:
        """The key by which a class's votes on its question are counted."""
        lab = _LABS.get(self.page)
        key = f"lesson-{self.page}" if lab is None else f"{lab.key}-predict-{self.ask}"
        return key, self.vote_question.options


PHASES = read_records(Phase, Path(__file__).with_suffix(".toml"), "phase")
STOPS = read_records(Stop, Path(__file__).with_suffix(".toml"), "stop")


def link(page: str, params: Mapping[str, str]) -> str:
    """Return the address of a page of this app, as pupils open it."""
    base = own_address.reached().url.rpartition("/")[0]
    page = "" if page == FIRST else page  # it is at the path itself
    return f"{base}/{page}" + (f"?{urlencode(params)}" if params else "")


def sheet(number: int, address: str, exercises: Sequence[str], answers: bool) -> str:
    """Return the printable sheet of a stop, counted from 1, or its answers; HTML.

    `exercises` are the addresses on which its exercises are done, "" for one on paper. Runs outside
    of the page: reads only its arguments.
    """
    from mha_viz.plots.worksheet import SheetTask, worksheet

    stop, question = STOPS[number - 1], STOPS[number - 1].vote_question
    options = [f"{ascii_uppercase[i]}: {option}" for i, option in enumerate(question.options)]
    right = (f"{options[question.right]}.", question.because, f"Often answered: {stop.often}")
    tasks = [SheetTask("Predict", question.question, " · ".join(options), right)]
    for exercise, opens in zip(stop.exercise, exercises, strict=True):
        about = "{model}: “{text}”.".format_map(exercise.params) + f" Open {opens}" if opens else ""
        tasks.append(SheetTask("Compute or measure", exercise.ask, about, (exercise.solution,)))
    title = f"Stop {number}: {stop.title.lstrip('0123456789. ')}" + ": answers" * answers
    return worksheet(title, [address], tasks, answers=answers)
