"""The page of lab 9: pick, train, and scrub through the film."""

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from mha_viz.core.metrics import METRICS
from mha_viz.corpus.run.sample_study import shipped_steps
from mha_viz.learn.frame import charts, frame
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.long_work import trained
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.how_heads_learn import analysis_page
from mha_viz.learn.labs.how_heads_learn import film as lab
from mha_viz.learn.labs.how_heads_learn.numbers import FILM
from mha_viz.plots.curves import ticks
from mha_viz.plots.heatmap import head_tiles
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.exports import figures
from mha_viz.web.labels import head_name
from mha_viz.web.theme import format_number

TEXTS = read_texts(__package__)

STEPS = (100, 200, 400, 800, 1600)
# For each optimiser its name, its learning rates, and the one to begin with.
OPTIMIZERS = {
    "adam": ("Adam, with warm-up", (0.001, 0.003, 0.01, 0.03), 0.003),
    "sgd": ("Plain SGD", (0.01, 0.03, 0.1, 0.3, 1.0), 1.0),
}
FRAMES = tuple(round(0.025 * i, 3) for i in range(41))  # of the film when it is played
KEPT = 4  # films that a session remembers: one is 1 MB
MODEL = "tiny-gpt2"  # whose recipe was run again, with checkpoints
FULL = 1.0  # where the film is opened: at its end
# What is drawn over the steps: title, unit, and where it is found in a film.
CURVES: dict[str, tuple[str, str, Callable[[lab.Film], Any]]] = {
    "induction": ("Induction score", "mean weight", lambda film: film.scores["induction"]),
    "previous": ("Previous token", "mean weight", lambda film: film.scores["previous_token"]),
    "entropy": ("Entropy", "nats", lambda film: film.scores["entropy"]),
    "gradient": ("Gradient of W_Q", "‖dL/dW_Q‖", lambda film: film.head_gradient),
    "update": ("Update of W_Q", "‖ΔW_Q‖ / ‖W_Q‖", lambda film: film.update),
    "loss": ("Loss", "nats", lambda film: film.loss),
}


def draw(choices: Choices) -> None:
    """Draw the induction score over training, the task, the film, and folds on its gradients.

    No fragment as a whole: a button in one does not end the run that it is drawn in.
    """
    asked, drawn = st.columns(2, gap="medium")
    with asked:
        cover = TEXTS.predict(choices, "sudden")
        formula = TEXTS("task.score", induction=METRICS["induction"].formula)
        TEXTS.step("task", formula=formula, lab=lab)
    n_heads, n_steps, lr, seed, optimizer = settings = _settings(choices)
    train = partial(lab.film, n_heads, n_steps, lr, seed, optimizer=optimizer)
    found = trained(choices, settings, n_steps, train, keep=KEPT, stored=FILM)
    if found is not None:
        about = TEXTS("settings.text", values=settings, optimizer=OPTIMIZERS[optimizer][0])
        with drawn, cover():
            _curves(choices, found, "induction", about)
        with cover():
            st.markdown(_summary(found))
            _film(choices, found, about)
        one_step = partial(analysis_page.one_step, choices, found, settings)
        TEXTS.fold(choices, "one-step", one_step)
        TEXTS.fold(choices, "decay", partial(analysis_page.decay, choices, found, optimizer, about))
        curvature = partial(analysis_page.curvature, choices, found, settings)
        TEXTS.fold(choices, "curvature", curvature)
        plane = partial(analysis_page.plane, choices, found, settings, about)
        TEXTS.fold(choices, "landscape", plane, count=len(found.weights[0]))
    frame.fold(choices, "real", TEXTS("real.title"), partial(_real_run, choices))


def _settings(choices: Choices) -> lab.Settings:
    with frame.row():
        called = {key: name for key, (name, *_) in OPTIMIZERS.items()}
        optimizer = choices.segments("optimizer", "Optimiser", called, "adam")
        _, rates, begin = OPTIMIZERS[optimizer]
        # What is a small step for one of them is a large one for the other.
        name = "rate" if optimizer == "adam" else f"{optimizer}-rate"
        lr = choices.slide(name, "Learning rate", rates, begin, width=150)
        n_heads = choices.slide("heads", "Heads in each layer", lab.HEADS, 4, width=150)
        n_steps = choices.slide("steps", "Steps", STEPS, 400, width=150)
        seed = choices.seed(width=110)
    return n_heads, n_steps, lr, seed, optimizer


def _summary(found: lab.Film) -> str:
    losses = format_number(found.loss[0]), format_number(found.loss[-1])
    end = TEXTS("summary.end", accuracy=found.accuracy[-1], losses=losses)
    if found.formed is None:
        return TEXTS("summary.none", lab=lab, end=end)
    previous = [float(found.scores["previous_token"][i][0].max()) for i in (0, -1)]
    score = float(found.scores["induction"][-1].max())
    best = head_name(*found.best_head)
    return TEXTS(
        "summary.formed", found=found, lab=lab, best=best, score=score, previous=previous, end=end
    )


@frame.part
def _film(choices: Choices, found: lab.Film, settings: str) -> None:
    st.header("The film", anchor=False)
    with frame.row():
        label = "Step: 0 is the start, 1 the end"
        moment = choices.amount("moment", label, 0.0, 1.0, FULL, step=0.025)
        choices.play("moment", moment, FRAMES, "the film, from its start to its end")
    number = round(moment * (len(found.snapshots) - 1))
    tiles, curves = st.columns(2, gap="medium")
    with tiles:
        _heads(choices, found, number, settings)
    with curves:
        called = {key: title for key, (title, *_) in CURVES.items() if key != "induction"}
        aspect = choices.segments("aspect", "Over the steps", called, "previous")
        _curves(choices, found, aspect, settings, now=found.snapshots[number])


def _heads(choices: Choices, found: lab.Film, number: int, settings: str) -> None:
    patterns, step = found.patterns[number].float(), found.snapshots[number]
    layers, heads, n, _ = patterns.shape
    most, keys = patterns.max(-1)
    figures.show(
        head_tiles(
            patterns,
            title=f"All heads at step {step}",
            marked=[found.best_head],
            note=TEXTS("heads-film.note"),
            dark=look.dark(),
            visible=np.tri(n, dtype=bool),
        ),
        key=choices.key("heads-film"),
        table=pd.DataFrame(
            [
                (head_name(i, j), q, int(keys[i, j, q]), float(most[i, j, q]))
                for i, j, q in product(range(layers), range(heads), range(n))
            ],
            columns=["head", "query", "key with the largest weight", "weight"],
        ),
        **TEXTS.figure("heads-figure", step=step, settings=settings, offset=lab.PERIODS[1] - 1),
    )


def _curves(
    choices: Choices, found: lab.Film, aspect: str, settings: str, now: int | None = None
) -> None:
    """Draw a quantity over the steps; `now` is the step that the film shows."""
    title, unit, values = CURVES[aspect]
    series = _series(values(found))
    moments, end = {}, found.steps[-1]
    if found.formed is not None:
        moments["formed"] = float(found.formed)
    if now is not None:
        near = found.formed is not None and abs(now - found.formed) < 0.2 * end
        moments["" if near else "now"] = float(now)  # two names would overlap
    charts.lines(
        choices.key("curves" if now is None else "quantity"),
        {name: (found.steps, line) for name, line in series.items()},
        moments=moments,
        levels={f"{lab.FORMED:g}": lab.FORMED} if aspect == "induction" else {},
        y_axis="log" if aspect in ("gradient", "update") else "linear",
        height=300 + 12 * len(series),
        more=dict(
            xaxis=dict(range=[0, 1.08 * end]),  # room for a name beside the last step
            margin=dict(b=56 + 24 * -(-len(series) // 3)),  # names are short: three in a row
        ),
        table={"step": found.steps, **series},
        **TEXTS.lines("curves-figure", title=title, unit=unit, settings=settings, lab=lab),
    )


def _real_run(choices: Choices) -> None:
    """Draw the strongest heads of a run of tiny-gpt2's recipe, studied at its checkpoints."""
    steps = shipped_steps(MODEL)
    assert steps is not None
    lines, bands, heads = {}, {}, {}
    for metric in ("previous_token", "induction"):
        rows = steps[steps["name"] == metric]
        best = rows[rows["step"] == rows["step"].max()].nlargest(1, "mean").iloc[0]
        own = rows[(rows["layer"] == best["layer"]) & (rows["head"] == best["head"])]
        heads[metric] = head_name(best["layer"], best["head"])
        name = f"{METRICS[metric].title}, {heads[metric]}"
        lines[name] = (np.arange(len(own)), own["mean"])
        bands[name] = (own["low"], own["high"])
    named = steps["step"].drop_duplicates().tolist()
    TEXTS.markdown("real.statement", model=MODEL, heads=heads, last=named[-1])
    charts.lines(
        choices.key("real"),
        lines,
        bands=bands,
        more=dict(xaxis=ticks(named, range(len(named)))),
        table={"step": named, **{name: y.tolist() for name, (_, y) in lines.items()}},
        **TEXTS.lines("real-figure", model=MODEL),
    )


def _series(values: Any) -> dict[str, list[float]]:
    """Return a line for each head, or the only one."""
    if isinstance(values[0], float):
        return {"loss": list(values)}
    layers, heads = values[0].shape
    return {
        head_name(i, j): [float(now[i, j]) for now in values]
        for i, j in product(range(layers), range(heads))
    }
