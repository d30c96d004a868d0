"""The page of lab 9: pick, train, and scrub through the film."""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

import numpy as np
import streamlit as st

from mha_viz.core.metrics import METRICS
from mha_viz.corpus.run.sample_study import shipped_steps
from mha_viz.learn.frame import charts, layout
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.long_work import LabRun, offer_run
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

FRAMES = tuple(round(0.025 * i, 3) for i in range(41))  # of the film when it is played
MODEL = "tiny-gpt2"  # whose recipe was run again, with checkpoints


def draw(choices: Choices) -> None:
    """Draw the induction score over training, the task, the film, and folds on its gradients.

    No fragment as a whole: a button in one does not end the run that it is drawn in.
    """
    cover, question, figure = TEXTS.opening(choices, "sudden")
    with question:
        formula = TEXTS("task.score", induction=METRICS["induction"].formula)
        TEXTS.step("task", formula=formula, lab=lab)
    n_heads, n_steps, lr, seed, optimizer = settings = _settings(choices)
    make = partial(lab.film, n_heads, n_steps, lr, seed, optimizer=optimizer)
    film = offer_run(choices, LabRun(make, settings, n_steps, FILM))
    if film is not None:
        name = TEXTS.labels("optimizers")[optimizer]
        about = TEXTS("settings.text", values=settings, optimizer=name)
        with figure, cover():
            _curves(choices, "curves", film, "induction", about)
        with cover():
            st.markdown(_summary(film))
            _film(choices, film, about)
        analysis_page.folds(choices, film, settings, about)
    TEXTS.fold(choices, "real", partial(_real_run, choices))


def _settings(choices: Choices) -> lab.Settings:
    with layout.row():
        optimizer = TEXTS.choose(choices, "optimizer")
        # What is a small step for one of them is a large one for the other.
        lr = TEXTS.choose(choices, "rate" if optimizer == "adam" else f"{optimizer}-rate")
        n_heads, n_steps, seed = (TEXTS.choose(choices, key) for key in ("heads", "steps", "seed"))
    return n_heads, n_steps, lr, seed, optimizer


def _summary(film: lab.Film) -> str:
    losses = format_number(film.loss[0]), format_number(film.loss[-1])
    end = TEXTS("summary.end", accuracy=film.accuracy[-1], losses=losses)
    if film.formed is None:
        return TEXTS("summary.none", lab=lab, end=end)
    previous = [float(film.scores["previous_token"][i][0].max()) for i in (0, -1)]
    score = float(film.scores["induction"][-1].max())
    best = head_name(*film.best_head)
    values = {"film": film, "lab": lab, "previous": previous, "end": end}
    return TEXTS("summary.formed", best=best, score=score, **values)


@layout.part
def _film(choices: Choices, film: lab.Film, about: str) -> None:
    st.header("The film", anchor=False)
    with layout.row():
        moment = TEXTS.choose(choices, "moment", frames=FRAMES)
    number = round(moment * (len(film.snapshots) - 1))
    patterns, step = film.patterns[number].float(), film.snapshots[number]
    tiles, curves = st.columns(2, gap="medium")
    with tiles:
        figure = head_tiles(
            patterns,
            title=f"All heads at step {step}",
            marked=[film.best_head],
            note=TEXTS("heads-film.note"),
            dark=look.dark(),
            visible=np.tri(patterns.shape[-1], dtype=bool),
        )
        texts = TEXTS.figure("heads-figure", step=step, about=about, offset=lab.PERIODS[1] - 1)
        table = lab.largest_weights(patterns)
        figures.show(figure, key=choices.key("heads-film"), table=table, **texts)
    with curves:
        aspect = TEXTS.choose(choices, "aspect")
        _curves(choices, "quantity", film, aspect, about, {"now": float(step)})


def _curves(
    choices: Choices,
    name: str,
    film: lab.Film,
    aspect: str,
    about: str,
    moments: Mapping[str, float] = MappingProxyType({}),
) -> None:
    """Draw a quantity over the steps, with the step at which a head formed and `moments`."""
    title, unit = TEXTS.labels("aspects")[aspect], TEXTS(f"aspect-units.{aspect}")
    table = lab.series(film, aspect)
    n_lines = table.shape[1] - 1
    formed = {} if film.formed is None else {"formed": float(film.formed)}
    axes = dict(
        moments={**formed, **moments},
        levels={f"{lab.FORMED:g}": lab.FORMED} if aspect == "induction" else {},
        y_axis="log" if aspect in ("gradient", "update") else "linear",
        height=300 + 12 * n_lines,
        # Names are short: three in a row.
        more=dict(margin=dict(b=56 + 24 * -(-n_lines // 3))),
    )
    TEXTS.curves(choices, name, table, axes, title=title, unit=unit, about=about, lab=lab)


def _real_run(choices: Choices) -> None:
    """Draw the strongest heads of a run of tiny-gpt2's recipe, studied at its checkpoints."""
    steps = shipped_steps(MODEL)
    assert steps is not None
    lines, bands, heads = {}, {}, {}
    for metric in ("previous_token", "induction"):
        rows = steps[steps["name"] == metric].set_index(["layer", "head"])
        best = rows.loc[rows["mean"][rows["step"] == rows["step"].max()].idxmax()]
        heads[metric] = head_name(*best.index[0])
        name = f"{METRICS[metric].title}, {heads[metric]}"
        lines[name], bands[name] = best["mean"].tolist(), (best["low"], best["high"])
    numbers = steps["step"].drop_duplicates().tolist()
    TEXTS.markdown("real.text", model=MODEL, heads=heads, last=numbers[-1])
    charts.lines(
        choices.key("real"),
        lines,
        x=range(len(numbers)),
        bands=bands,
        more=dict(xaxis=ticks(numbers, range(len(numbers)))),
        table={"step": numbers, **lines},
        **TEXTS.lines("real-figure", model=MODEL),
    )
