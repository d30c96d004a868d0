"""Lab 9's gradients and loss: one step, the rate of decay, curvature, and a plane of the loss."""

from functools import partial

import pandas as pd
import streamlit as st
from torch import Tensor

from mha_viz.learn.frame import charts, frame
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.long_work import trained
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.how_heads_learn import film, loss_landscape
from mha_viz.learn.labs.how_heads_learn import gradient_descent as lab
from mha_viz.learn.labs.how_heads_learn.film import N_LAYERS, PERIODS, WARMUP, Film, Settings
from mha_viz.learn.labs.how_heads_learn.numbers import CURVATURE, PLANES
from mha_viz.plots.curves import LossPlane, landscape
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.exports import figures
from mha_viz.web.labels import head_name
from mha_viz.web.theme import format_number

TEXTS = read_texts(__package__)

VERDICTS = TEXTS.labels("curvature.verdicts")
ROUNDING = 1e-6  # of float32, in weights that are hardly larger than 1
START = 0.0  # the moment at which a step is taken apart: gradients are large there


def one_step(choices: Choices, found: Film, settings: Settings) -> None:
    """Draw one step of a weight, and the chain rule of its gradient; no fragment: it may train."""
    with frame.row():
        moment = choices.amount("at", TEXTS("one-step.at"), 0.0, 1.0, START, step=0.025)
        head = 0
        if found.n_heads > 1:
            label, end = f"Head of layer {N_LAYERS - 1}", found.n_heads - 1
            head = choices.place("which", label, 0, end, 0, most=max(film.HEADS) - 1, width=170)
    step = found.snapshots[round(moment * (len(found.snapshots) - 1))]
    st.markdown(_arithmetic(found, found.steps.index(step), head, settings[-1]))
    weights = found.weights.get(step)
    if weights is None:
        train, key = partial(film.weights_at, settings, step), (*settings, step)
        weights = trained(
            choices, key, max(step, film.FEWEST), train, name="again", label="Train up to here"
        )
    if weights is None:
        TEXTS.caption("chain.again", steps=list(found.weights))
    else:
        _chain(found, weights, step, head)


def _arithmetic(found: Film, row: int, head: int, optimizer: str) -> str:
    """Write the update of one weight with all its digits, and the deviation of all weights."""
    before, gradient, after = found.entry[row][-1, head].double().tolist()
    rate, off = found.rates[row], found.off_rule[row]
    verdict = "rounding" if off <= ROUNDING else optimizer
    return TEXTS(
        "arithmetic.text",
        step=found.steps[row],
        head=head_name(N_LAYERS - 1, head),
        weights=(before, before - rate * gradient, after),
        rate=rate,
        gradient=gradient,
        count=len(found.weights[0]),
        off=format_number(off),
        verdict=TEXTS(f"arithmetic.{verdict}", warmup=WARMUP),
    )


def _chain(found: Film, weights: Tensor, step: int, head: int) -> None:
    chain = lab.chain_rule(found.n_heads, weights, found.ids, PERIODS[1], head)
    TEXTS.markdown("chain.text", step=step)
    st.markdown("\n".join(map(_link, chain.factors)))
    row, column = place = _largest(chain.gradient)
    factors = chain.tokens[:, row], chain.factors[-2].value[:, column]
    terms = factors[0] * factors[1]
    query = int(terms.abs().argmax())
    numbers = [*(part[query] for part in (*factors, terms)), terms.sum()]
    shown = [format_number(number) for number in numbers]
    shown.append(format_number(chain.difference))
    TEXTS.markdown("chain.largest", place=place, query=query, numbers=shown, count=len(terms))


def _link(factor: lab.Factor) -> str:
    """Write a factor with its shape and its numbers as an item of a list, for narrow screens."""
    place = _largest(factor.value)
    norm, largest = format_number(factor.value.norm()), format_number(factor.value[place])
    return TEXTS("chain.link", factor=factor, norm=norm, largest=largest, place=place)


def _largest(values: Tensor) -> tuple[int, int]:
    """Return row and column of the entry that is the farthest from 0."""
    return divmod(int(values.abs().argmax()), values.shape[1])


@frame.part
def decay(choices: Choices, found: Film, optimizer: str, settings: str) -> None:
    """Draw the running mean of the squared gradient against C / sqrt(t)."""
    bound = lab.bound(found.steps, found.squared)
    if bound is None:
        TEXTS.markdown("decay.verdict.unknown")
        return
    run = TEXTS(f"decay.verdict.{optimizer}", warmup=WARMUP)
    verdict = TEXTS(f"decay.verdict.{'holds' if bound.holds else 'fails'}", bound=bound)
    factor = format_number(bound.factor)
    TEXTS.markdown("decay.verdict.text", run=run, factor=factor, verdict=verdict)
    lines = {"running mean of ‖∇L‖²": bound.mean, "C/√t": bound.line}
    single = [norm**2 for norm in found.gradient]
    charts.lines(
        choices.key("rate-figure"),
        {name: (bound.steps, line) for name, line in lines.items()}
        | {"‖gradient of 32 texts‖²": (bound.steps, single)},
        moments={"formed": found.formed + 1.0} if found.formed else {},
        table={"t": bound.steps, **lines, "of 32 texts": single},
        **TEXTS.lines("rate-figure", settings=settings, first=lab.FIRST),
    )


def curvature(choices: Choices, found: Film, settings: Settings) -> None:
    """Draw the ends of the Hessian's spectrum, behind a button: they take a while."""
    cover = TEXTS.predict(choices, "saddle")
    measure = partial(loss_landscape.curvature, found.n_heads, found.weights[found.steps[-1]])
    total, label = loss_landscape.N_PRODUCTS, "Measure the curvature"
    curved = trained(
        choices, settings, total, measure, name="curvature", label=label, stored=CURVATURE
    )
    if curved is None:
        return
    lines = ["| | λ, by Lanczos | can be off by | by the loss itself |", "|---" * 4 + "|"]
    rows = ("largest", curved.largest), ("smallest", curved.smallest)
    for (name, value), off, seen in zip(rows, curved.unsure, curved.measured, strict=True):
        numbers = " | ".join(format_number(number) for number in (value, off, seen))
        lines.append(f"| {name} eigenvalue | {numbers} |")
    with cover():
        st.markdown("\n".join(lines))
        gradient, loss = format_number(curved.gradient), format_number(curved.loss)
        verdict = VERDICTS[curved.verdict]
        TEXTS.markdown("curvature.found.text", verdict=verdict, gradient=gradient, loss=loss)
        TEXTS.caption("curvature.found.caption", lab=loss_landscape)


def plane(choices: Choices, found: Film, settings: Settings, about: str) -> None:
    """Draw the loss on a plane, behind a button."""
    planes = TEXTS.labels("planes")
    kind = choices.segments("plane", "Plane", planes, "path")
    measure, key = partial(loss_landscape.plane_of_run, settings, kind), (*settings, kind)
    total, label = found.steps[-1] + loss_landscape.SIDE**2, "Train and measure the plane"
    stored = PLANES[kind]
    seen = trained(choices, key, total, measure, name="landscape", label=label, stored=stored)
    if seen is None:
        return
    title = TEXTS("landscape.figure", kind=planes[kind].lower())
    figures.show(
        landscape(
            LossPlane(seen.x, seen.y, seen.loss, seen.path),
            found.snapshots,
            title=title,
            x_title="first direction",
            y_title="second direction",
            note=TEXTS("landscape.note"),
            dark=look.dark(),
        ),
        key=choices.key("landscape-figure"),
        table=pd.DataFrame(
            {
                "first direction": seen.x.repeat(len(seen.y)),
                "second direction": seen.y.repeat_interleave(len(seen.x)),
                "loss": seen.loss.flatten(),
            }
        ),
        **TEXTS.figure("landscape-figure", title=title, about=about, share=seen.share),
    )
