"""The page of lab 9: pick, train, scrub through the film, and take its gradients and loss apart."""

from functools import partial

import numpy as np
import pandas as pd
import streamlit as st
import torch

from mha_viz.core.metrics import METRICS
from mha_viz.corpus.run.sample_study import shipped_steps
from mha_viz.learn import loss_landscape
from mha_viz.learn.frame import charts, layout
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.long_work import LabRun, offer_run
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.how_heads_learn import numbers as lab
from mha_viz.learn.networks import induction_transformer as network
from mha_viz.learn.networks.induction_transformer import Film, Settings
from mha_viz.plots.curves import LossPlane, landscape, ticks
from mha_viz.plots.heatmap import head_tiles
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.exports import figures
from mha_viz.web.labels import head_name

TEXTS = read_texts(__package__)
FRAMES = tuple(round(0.025 * i, 3) for i in range(41))  # of the film when it is played
MODEL = "tiny-gpt2"  # whose recipe was run again, with checkpoints
ROUNDING = 1e-6  # of float32, in weights that are hardly larger than 1


def draw(choices: Choices) -> None:
    """Draw the induction score over training, the task, the film, and folds on its gradients.

    No fragment as a whole: a button in one does not end the run that it is drawn in.
    """
    cover, question, figure = TEXTS.opening(choices, "sudden")
    with question:
        formula = TEXTS("task.score", induction=METRICS["induction"].formula)
        TEXTS.step("task", formula=formula, network=network)
    settings = _settings(choices)
    run = LabRun(partial(network.film, *settings), settings, settings[1], lab.FILM)
    film = offer_run(choices, run)
    if film is not None:
        optimizer = TEXTS.labels("optimizers")[settings[-1]]
        about = TEXTS("settings.text", values=settings, optimizer=optimizer)
        with figure, cover():
            _curves(choices, "curves", film, "induction", about)
        with cover():
            st.markdown(_summary(film))
            _film(choices, film, about)
        TEXTS.fold(choices, "one-step", partial(_one_step, choices, film, settings))
        TEXTS.fold(choices, "decay", partial(_decay, choices, film, settings[-1], about))
        TEXTS.fold(choices, "curvature", partial(_curvature, choices, film, settings))
        plane = partial(_plane, choices, film, settings, about)
        TEXTS.fold(choices, "landscape", plane, count=len(film.weights[0]))
    TEXTS.fold(choices, "real", partial(_real_run, choices))


def _settings(choices: Choices) -> Settings:
    with layout.row():
        optimizer = TEXTS.choose(choices, "optimizer")
        # What is a small step for one of them is a large one for the other.
        lr = TEXTS.choose(choices, "rate" if optimizer == "adam" else f"{optimizer}-rate")
        n_heads, n_steps, seed = (TEXTS.choose(choices, key) for key in ("heads", "steps", "seed"))
    return n_heads, n_steps, lr, seed, optimizer


def _summary(film: Film) -> str:
    loss, accuracy = (film.numbers[name][[0, -1]].tolist() for name in ("loss", "accuracy"))
    end = TEXTS("summary.end", accuracy=accuracy, loss=loss)
    if film.formed is None:
        return TEXTS("summary.none", network=network, end=end)
    previous = film.numbers["previous"][[0, -1], 0].amax(-1)
    best, score = head_name(*film.best_head), film.numbers["induction"][-1].max()
    values = {"best": best, "score": score, "previous": previous, "end": end}
    return TEXTS("summary.formed", film=film, network=network, **values)


def _pictured_step(film: Film, moment: float) -> int:
    """Return a step that has patterns: 0 is the first, 1 the last."""
    return list(film.patterns)[round(moment * (len(film.patterns) - 1))]


@layout.part
def _film(choices: Choices, film: Film, about: str) -> None:
    TEXTS.header("tiles.heading")
    with layout.row():
        step = _pictured_step(film, TEXTS.choose(choices, "moment", frames=FRAMES))
    patterns = film.patterns[step].float()
    tiles, curves = st.columns(2, gap="medium")
    with tiles:
        texts = {key: TEXTS(f"tiles.{key}", step=step) for key in ("title", "note")}
        visible, best = np.tri(patterns.shape[-1], dtype=bool), [film.best_head]
        figure = head_tiles(patterns, marked=best, dark=look.dark(), visible=visible, **texts)
        figures.show(
            figure,
            key=choices.key("heads-film"),
            table=lab.largest_weights(patterns),
            **TEXTS.figure("heads-figure", step=step, about=about, offset=network.PERIODS[1] - 1),
        )
    with curves:
        _curves(choices, "quantity", film, TEXTS.choose(choices, "aspect"), about, step)


def _curves(
    choices: Choices, name: str, film: Film, aspect: str, about: str, now: int | None = None
) -> None:
    """Draw a quantity over the steps, with the step at which a head formed and the one shown."""
    title, unit = TEXTS.labels("aspects")[aspect], TEXTS(f"aspect-units.{aspect}")
    table, moments = lab.series(film, aspect), {"formed": film.formed, "now": now}
    n_lines = table.shape[1] - 1
    axes = dict(
        moments={name: float(step) for name, step in moments.items() if step is not None},
        levels={f"{network.FORMED:g}": network.FORMED} if aspect == "induction" else {},
        y_axis="log" if aspect in ("gradient", "update") else "linear",
        height=300 + 12 * n_lines,
        # Names are short: three in a row.
        more=dict(margin=dict(b=56 + 24 * -(-n_lines // 3))),
    )
    TEXTS.curves(choices, name, table, axes, title=title, unit=unit, about=about, network=network)


def _one_step(choices: Choices, film: Film, settings: Settings) -> None:
    """Draw one step of a weight, and the chain rule of its gradient; no fragment: it may train."""
    n_heads, head = settings[0], 0
    with layout.row():
        step = _pictured_step(film, TEXTS.choose(choices, "at"))
        if n_heads > 1:
            head = TEXTS.choose(choices, "which", positions=range(n_heads))
    row = film.numbers["step"].tolist().index(step)
    rate, off, entries = (film.numbers[name][row] for name in ("rate", "off_rule", "entry"))
    before, gradient, after = entries[-1, head].double()
    verdict = "rounding" if off <= ROUNDING else settings[-1]
    values = {"weights": (before, before - rate * gradient, after), "gradient": gradient}
    values |= {"step": step, "head": head_name(network.N_LAYERS - 1, head), "rate": rate}
    values |= {"verdict": TEXTS(f"arithmetic.{verdict}", warmup=network.WARMUP), "off": off}
    TEXTS.markdown("arithmetic.text", count=len(film.weights[0]), **values)
    weights = film.weights.get(step)
    if weights is None:
        make = partial(network.weights_at, settings, step)
        run = LabRun(make, (*settings, step), max(step, network.MIN_STEPS))
        weights = offer_run(choices, run, name="again", label="Train up to here")
    if weights is None:
        TEXTS.caption("chain.again", steps=list(film.weights))
        return
    chain = lab.chain_rule(n_heads, weights, film.ids, network.PERIODS[1], head)
    TEXTS.markdown("chain.text", step=step)
    lines = []
    for link, derivative in zip(TEXTS.tables["links"], chain.links, strict=True):
        position = lab.largest(derivative)
        sizes = {"shape": derivative.shape, "norm": derivative.norm(), "position": position}
        lines.append(TEXTS("chain.link", **link, **sizes, largest=derivative[position]))
    st.markdown("\n".join(lines))
    TEXTS.markdown("chain.largest", **lab.largest_term(chain))


@layout.part
def _decay(choices: Choices, film: Film, optimizer: str, about: str) -> None:
    """Draw the running mean of the squared gradient against C / sqrt(t)."""
    bound = lab.bound(film.numbers["step"], film.numbers["squared"])
    if bound is None:
        TEXTS.markdown("decay.verdict.unknown")
        return
    run = TEXTS(f"decay.verdict.{optimizer}", warmup=network.WARMUP)
    verdict = TEXTS(f"decay.verdict.{'fails' if bound.exceeded else 'holds'}", bound=bound)
    TEXTS.markdown("decay.verdict.text", run=run, factor=bound.factor, verdict=verdict)
    table = bound.curves.assign(single=film.numbers["gradient_norm"].double().numpy() ** 2)
    axes = {"moments": {"formed": film.formed + 1.0} if film.formed else {}}
    TEXTS.curves(choices, "rate-figure", table, axes, about=about, first=lab.FIRST_STEP)


def _curvature(choices: Choices, film: Film, settings: Settings) -> None:
    """Draw the ends of the Hessian's spectrum, behind a button: they take a while."""
    cover = TEXTS.predict(choices, "saddle")
    loss, n_products = partial(network.loss_at, settings[0]), loss_landscape.N_PRODUCTS
    make = partial(loss_landscape.curvature, loss, film.weights[settings[1]])
    run = LabRun(make, settings, n_products, lab.CURVATURE)
    curvature = offer_run(choices, run, name="curvature", label="Measure the curvature")
    if curvature is None:
        return
    with cover():
        TEXTS.markdown("curvature.found.table", curvature=curvature)
        verdict = TEXTS(f"curvature.verdicts.{curvature.verdict}")
        TEXTS.markdown("curvature.found.text", verdict=verdict, curvature=curvature)
        TEXTS.caption("curvature.found.caption", n_texts=network.N_TEXTS, n_products=n_products)


def _plane(choices: Choices, film: Film, settings: Settings, about: str) -> None:
    """Draw the loss on a plane, behind a button."""
    kind = TEXTS.choose(choices, "plane")
    make = partial(lab.plane_of_run, settings, kind)
    total = settings[1] + loss_landscape.SIDE**2
    run = LabRun(make, (*settings, kind), total, lab.PLANES[kind])
    plane = offer_run(choices, run, name="landscape", label="Train and measure the plane")
    if plane is None:
        return
    title = TEXTS("landscape.figure", kind=TEXTS.labels("planes")[kind].lower())
    surface = LossPlane(plane.x, plane.y, plane.loss, plane.path)
    axes, steps = TEXTS.labels("landscape.axes"), list(film.patterns)
    figure = landscape(surface, steps, title=title, dark=look.dark(), **axes)
    y, x = torch.cartesian_prod(plane.y, plane.x).T
    table = pd.DataFrame({axes["x_title"]: x, axes["y_title"]: y, "loss": plane.loss.flatten()})
    texts = TEXTS.figure("landscape-figure", title=title, about=about, share=plane.share)
    figures.show(figure, key=choices.key("landscape-figure"), table=table, **texts)


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
    at = steps["step"].drop_duplicates().tolist()
    TEXTS.markdown("real.text", model=MODEL, heads=heads, last=at[-1])
    charts.lines(
        choices.key("real"),
        lines,
        x=range(len(at)),
        bands=bands,
        more=dict(xaxis=ticks(at, range(len(at)))),
        table={"step": at, **lines},
        **TEXTS.lines("real-figure", model=MODEL),
    )
