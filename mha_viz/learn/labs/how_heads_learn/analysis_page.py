"""Lab 9's gradients and loss: one step, the rate of decay, curvature, and a plane of the loss."""

from functools import partial

import pandas as pd
import streamlit as st
import torch
from torch import Tensor

from mha_viz.learn import loss_landscape
from mha_viz.learn.frame import layout
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.long_work import LabRun, offer_run
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.how_heads_learn import numbers as lab
from mha_viz.learn.labs.how_heads_learn.film import (
    MIN_STEPS,
    N_LAYERS,
    PERIODS,
    WARMUP,
    Film,
    Settings,
    weights_at,
)
from mha_viz.plots.curves import LossPlane, landscape
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.exports import figures
from mha_viz.web.labels import head_name

TEXTS = read_texts(__package__)

ROUNDING = 1e-6  # of float32, in weights that are hardly larger than 1


def folds(choices: Choices, film: Film, settings: Settings, about: str) -> None:
    """Draw the folds on one step, the decay of gradients, curvature and the loss around the end."""
    TEXTS.fold(choices, "one-step", partial(_one_step, choices, film, settings))
    TEXTS.fold(choices, "decay", partial(_decay, choices, film, settings[-1], about))
    TEXTS.fold(choices, "curvature", partial(_curvature, choices, film, settings))
    plane = partial(_plane, choices, film, settings, about)
    TEXTS.fold(choices, "landscape", plane, count=len(film.weights[0]))


def _one_step(choices: Choices, film: Film, settings: Settings) -> None:
    """Draw one step of a weight, and the chain rule of its gradient; no fragment: it may train."""
    with layout.row():
        moment, head = TEXTS.choose(choices, "at"), 0
        if film.n_heads > 1:
            head = TEXTS.choose(choices, "which", positions=range(film.n_heads))
    step = film.snapshots[round(moment * (len(film.snapshots) - 1))]
    row = film.steps.index(step)
    before, gradient, after = film.entry[row][-1, head].double().tolist()
    rate, off = film.rates[row], film.off_rule[row]
    verdict = "rounding" if off <= ROUNDING else settings[-1]
    TEXTS.markdown(
        "arithmetic.text",
        step=step,
        head=head_name(N_LAYERS - 1, head),
        weights=(before, before - rate * gradient, after),
        rate=rate,
        gradient=gradient,
        count=len(film.weights[0]),
        off=off,
        verdict=TEXTS(f"arithmetic.{verdict}", warmup=WARMUP),
    )
    weights = film.weights.get(step)
    if weights is None:
        make = partial(weights_at, settings, step)
        run = LabRun(make, (*settings, step), max(step, MIN_STEPS))
        weights = offer_run(choices, run, name="again", label="Train up to here")
    if weights is None:
        TEXTS.caption("chain.again", steps=list(film.weights))
    else:
        _chain(film, weights, step, head)


def _chain(film: Film, weights: Tensor, step: int, head: int) -> None:
    chain = lab.chain_rule(film.n_heads, weights, film.ids, PERIODS[1], head)
    TEXTS.markdown("chain.text", step=step)
    st.markdown("\n".join(TEXTS("chain.link", factor=factor) for factor in chain.factors))
    TEXTS.markdown("chain.largest", **lab.largest_term(chain))


@layout.part
def _decay(choices: Choices, film: Film, optimizer: str, about: str) -> None:
    """Draw the running mean of the squared gradient against C / sqrt(t)."""
    bound = lab.bound(film.steps, film.squared)
    if bound is None:
        TEXTS.markdown("decay.verdict.unknown")
        return
    run = TEXTS(f"decay.verdict.{optimizer}", warmup=WARMUP)
    verdict = TEXTS(f"decay.verdict.{'holds' if bound.holds else 'fails'}", bound=bound)
    TEXTS.markdown("decay.verdict.text", run=run, factor=bound.factor, verdict=verdict)
    table = pd.DataFrame({"t": bound.steps, "mean": bound.mean, "line": bound.line})
    table["single"] = [norm**2 for norm in film.gradient]
    axes = {"moments": {"formed": film.formed + 1.0} if film.formed else {}}
    TEXTS.curves(choices, "rate-figure", table, axes, about=about, first=lab.FIRST_STEP)


def _curvature(choices: Choices, film: Film, settings: Settings) -> None:
    """Draw the ends of the Hessian's spectrum, behind a button: they take a while."""
    cover = TEXTS.predict(choices, "saddle")
    loss, weights = partial(lab.loss_at, film.n_heads), film.weights[film.steps[-1]]
    make = partial(loss_landscape.curvature, loss, weights)
    run = LabRun(make, settings, loss_landscape.N_PRODUCTS, lab.CURVATURE)
    curvature = offer_run(choices, run, name="curvature", label="Measure the curvature")
    if curvature is None:
        return
    with cover():
        TEXTS.markdown("curvature.found.table", curvature=curvature)
        verdict = TEXTS(f"curvature.verdicts.{curvature.verdict}")
        TEXTS.markdown("curvature.found.text", verdict=verdict, curvature=curvature)
        counts = {"n_texts": lab.N_TEXTS, "n_products": loss_landscape.N_PRODUCTS}
        TEXTS.caption("curvature.found.caption", **counts)


def _plane(choices: Choices, film: Film, settings: Settings, about: str) -> None:
    """Draw the loss on a plane, behind a button."""
    kind = TEXTS.choose(choices, "plane")
    total = film.steps[-1] + loss_landscape.SIDE**2
    make = partial(lab.plane_of_run, settings, kind)
    run = LabRun(make, (*settings, kind), total, lab.PLANES[kind])
    plane = offer_run(choices, run, name="landscape", label="Train and measure the plane")
    if plane is None:
        return
    title = TEXTS("landscape.figure", kind=TEXTS.labels("planes")[kind].lower())
    figure = landscape(
        LossPlane(plane.x, plane.y, plane.loss, plane.path),
        film.snapshots,
        title=title,
        note=TEXTS("landscape.note"),
        x_title="first direction",
        y_title="second direction",
        dark=look.dark(),
    )
    y, x = torch.cartesian_prod(plane.y, plane.x).T
    table = {"first direction": x, "second direction": y, "loss": plane.loss.flatten()}
    figures.show(
        figure,
        key=choices.key("landscape-figure"),
        table=pd.DataFrame(table),
        **TEXTS.figure("landscape-figure", title=title, about=about, share=plane.share),
    )
