"""Lab 3 on screen: pick, train, draw."""

from functools import partial
from itertools import product
from typing import NamedTuple

import streamlit as st
import torch

from mha_viz.core.reprs import count
from mha_viz.learn.frame import charts, layout
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.long_work import LabRun, offer_run
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.two_places import numbers as lab
from mha_viz.plots.curves import ticks

TEXTS = read_texts(__package__)
NAMES = tuple(first + second for first in "bdfgklmn" for second in "aeio")
_POWERS = (1, 2, 4, 8, 16, 32, 64)
Runs = dict[int, lab.Run]


class _Settings(NamedTuple):
    n_steps: int
    seed: int
    d_model: int
    n_values: int

    def __str__(self) -> str:
        steps = f"{self.n_steps} steps, seed {self.seed}"
        return f"{steps}, d_model {self.d_model}, {self.n_values} values"


def draw(choices: Choices) -> None:
    """Draw one head against two, then up to sixteen.

    No fragment as a whole: a button in one does not end the run that it is drawn in.
    """
    cover, _, figure = TEXTS.opening(choices, "one", (2, 3))
    learned = layout.placeholder(choices, "learned")
    settings = _task(choices)
    heads = tuple(n_heads for n_heads in lab.HEADS if n_heads <= settings.d_model)
    n_steps, seed, d_model, n_values = settings
    make = partial(lab.learn, heads, n_steps, seed, lab.N_SEEDS, d_model, n_values)
    total = n_steps * lab.N_SEEDS * len(heads)
    runs = offer_run(choices, LabRun(make, settings, total, lab.STORED[0]))
    if runs is None:
        with figure:
            TEXTS.caption("missing.caption")
        return
    few = {n_heads: runs[n_heads] for n_heads in lab.HEADS[:2]}
    with figure, cover():
        _curves(choices, few, settings)
    with learned, cover():
        _accuracies(few, n_values)
    with cover():
        _shares(few)
        _more_heads(choices, runs, few, settings)


def _task(choices: Choices) -> _Settings:
    TEXTS.step("task", n_tokens=lab.N_TOKENS, n_names=lab.N_NAMES)
    with layout.row():
        names = ("steps", "values", "width", "seed")
        n_steps, n_values, d_model, seed = (TEXTS.choose(choices, name) for name in names)
    return _Settings(n_steps, seed, d_model, n_values)


def _accuracies(runs: Runs, n_values: int) -> None:
    for n_heads, run in runs.items():
        values = torch.stack([run.first[:, -1], run.second[:, -1]])
        shares = {"better": values.amax(0).mean(), "other": values.amin(0).mean()}
        shares["both"] = run.both[:, -1].mean()
        heads, guess = count(n_heads, "head"), 100 / n_values
        TEXTS.markdown("learned.accuracy", heads=heads, run=run, guess=guess, **shares)


def _curves(choices: Choices, runs: Runs, settings: _Settings) -> None:
    both_by_name = {count(n, "head"): (run.steps, run.both) for n, run in runs.items()}
    table: dict[str, object] = {"step": runs[1].steps}
    for name, (_, both) in both_by_name.items():
        ends = {"mean": both.mean(0), "least": both.amin(0), "most": both.amax(0)}
        table |= {f"{name}, {end}": values for end, values in ends.items()}
    charts.lines(
        choices.key("few"),
        {name: (steps, both.mean(0)) for name, (steps, both) in both_by_name.items()},
        bands={name: (both.amin(0), both.amax(0)) for name, (_, both) in both_by_name.items()},
        levels={f"1/{settings.n_values}": 1 / settings.n_values},
        table=table,
        **TEXTS.lines("learned.curves", settings=settings, n_seeds=lab.N_SEEDS),
    )


def _shares(runs: Runs) -> None:
    TEXTS.markdown("shares.heading")
    with st.container(horizontal=True):
        for n_heads, run in runs.items():
            key, heads = f"two-places-shares-{n_heads}", [f"head {i}" for i in range(n_heads)]
            columns = ("first", "second", "others")
            charts.weights(
                key, run.shares, count(n_heads, "head"), heads, columns, shape="", cell=62
            )
    TEXTS.caption("shares.caption")


def _example(choices: Choices, runs: Runs) -> None:
    number = TEXTS.choose(choices, "example") - 1
    given_text = (part[number].tolist() for part in runs[1].examples)  # the same for all
    names, values, queried, answer, positions = given_text
    tokens = [f"{NAMES[n]}={v}" for n, v in zip(names, values, strict=True)]
    first, second = (NAMES[name] for name in queried)
    lines = [TEXTS("texts.answer", first=first, second=second, answer=answer)]
    with st.container(horizontal=True):
        for n_heads, run in runs.items():
            key, heads = f"two-places-example-{n_heads}", [f"head {i}" for i in range(n_heads)]
            marked, title = list(product(range(n_heads), positions)), count(n_heads, "head")
            charts.weights(key, run.looked[number], title, heads, tokens, shape="", marked=marked)
            answers = run.answers[number].tolist()
            verdict = "right" if answers == answer else "wrong"
            lines.append(TEXTS(f"texts.answers.{verdict}", heads=title, given=answers))
    st.markdown(" ".join(lines))


@layout.part
def _more_heads(choices: Choices, runs: Runs, few: Runs, settings: _Settings) -> None:
    TEXTS.fold(choices, "texts", partial(_example, choices, few))
    TEXTS.step("more-heads")
    heads = list(runs)
    final = torch.stack([run.both[:, -1] for run in runs.values()])  # (heads, seed)
    mean = final.mean(1)
    best, most = (count(heads[i], "head") for i in (int(mean.argmax()), -1))
    TEXTS.markdown("best.accuracy", best=best, most=most, highest=mean.max(), last=mean[-1])
    correct = "both values right"
    charts.lines(
        choices.key("many"),
        {correct: (heads, mean)},
        bands={correct: (final.amin(1), final.amax(1))},
        more=dict(xaxis=ticks(heads)),
        table={
            "heads": heads,
            "d_head": [runs[n].d_head for n in heads],
            "parameters": [runs[n].n_parameters for n in heads],
            **{f"run {i}": accuracies for i, accuracies in enumerate(final.T, 1)},
        },
        **TEXTS.lines("accuracy", settings=settings, n_seeds=lab.N_SEEDS),
    )
    TEXTS.fold(choices, "rank", partial(_ranks, choices, runs, settings))


def _ranks(choices: Choices, runs: Runs, settings: _Settings) -> None:
    heads = list(runs)
    drawn = {
        "scores Q Kᵀ": [max(run.score_ranks) for run in runs.values()],
        "weights, after softmax": [max(run.weight_ranks) for run in runs.values()],
        "d_head": [run.d_head for run in runs.values()],
    }
    charts.lines(
        choices.key("rank"),
        {name: (heads, ranks) for name, ranks in drawn.items()},
        more=dict(xaxis=ticks(heads), yaxis=ticks(_POWERS)),
        **TEXTS.lines("rank", settings=settings),
    )
