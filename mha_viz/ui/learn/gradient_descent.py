"""Lab 9 on screen, its gradients: one step with its chain rule, and how fast gradients shrink."""

from __future__ import annotations

import streamlit as st
from torch import Tensor

from mha_viz.labs import gradient_descent as lab
from mha_viz.labs.how_heads_learn import HEADS, N_LAYERS, PERIODS, WARMUP, Film
from mha_viz.ui.learn import charts, frame
from mha_viz.ui.learn.choices import Choices
from mha_viz.web.labels import head_name
from mha_viz.web.theme import format_number

ROUNDING = 1e-6  # of float32, in weights that are hardly larger than 1
START = 0.0  # the moment at which a step is taken apart: gradients are large there


# -- one step ------------------------------------------------------------------------------------


@frame.part
def one_step(choices: Choices, found: Film, optimizer: str) -> None:
    """What one step does to a weight, and where its gradient comes from.

    Args:
        choices: of the lab.
        found: the training.
        optimizer: that it was trained with.
    """
    frame.step(
        "One step, to the digit",
        "Gradient descent takes from each weight its share of the blame for the loss, times the "
        "learning rate η.",
        r"W \leftarrow W - \eta\, \frac{\partial L}{\partial W}",
    )
    with frame.row():
        moment = choices.amount("at", "The step: 0 is the first, 1 the last", 0.0, 1.0, START)
        head = 0
        if found.n_heads > 1:
            label, end = f"Head of layer {N_LAYERS - 1}", found.n_heads - 1
            head = choices.place("which", label, 0, end, 0, most=max(HEADS) - 1, width=170)
    number = round(moment * (len(found.snapshots) - 1))
    row = found.steps.index(found.snapshots[number])
    st.markdown(_arithmetic(found, row, head, optimizer))
    _chain(choices, found, number, head)
    choices.publish()


def _arithmetic(found: Film, row: int, head: int, optimizer: str) -> str:
    """The rule for one weight, with all its digits, and whether all weights keep to it."""
    before, gradient, after = found.entry[row][-1, head].double().tolist()
    rate, off = found.rates[row], found.off_rule[row]
    count = f"{found.weights[0].numel():,}"
    told = (
        f"Step {found.steps[row]}, W_Q[0, 0] of {head_name(N_LAYERS - 1, head)}: "
        f"{before:.9f} − {rate:g} × {gradient:.9f} = **{before - rate * gradient:.9f}**. "
        f"After the step it is **{after:.9f}**. Over all {count} weights, the step is at most "
        f"{format_number(off)} away from this rule: "
    )
    if off <= ROUNDING:
        return told + "that is rounding in float32."
    if optimizer == "sgd":
        return told + "more than rounding, and that should not happen."
    return told + (
        "**Adam does something else.** It divides a running mean of gradients by the root of a "
        f"running mean of their squares, and for the first {WARMUP} steps its rate grows. Plain "
        "SGD, above, keeps to the rule."
    )


def _chain(choices: Choices, found: Film, number: int, head: int) -> None:
    chain = lab.chain_rule(found.n_heads, found.weights[number], found.ids, PERIODS[1], head)
    st.markdown(
        f"**Where ∂L/∂W_Q comes from.** The chain rule leads from the loss back to the head, here "
        f"with the weights of step {found.snapshots[number]} on the film’s text. X is what the "
        "layer reads, r what stands behind it (the residual stream), y is r after LayerNorm, whose "
        "standard deviation is σ; a line over a letter is a mean over d_model; N counts the places "
        "that can be known."
    )
    st.markdown(_links(chain))
    row, column = _largest(chain.gradient)
    terms = chain.tokens[:, row] * chain.factors[-2].value[:, column]
    query = int(terms.abs().argmax())
    st.markdown(
        f"The largest entry of ∂L/∂W_Q, at [{row}, {column}], is a sum over all queries of "
        f"X[q, {row}] · ∂L/∂Q[q, {column}]. Query {query} has the largest share: "
        f"{format_number(chain.tokens[query, row])} × "
        f"{format_number(chain.factors[-2].value[query, column])} = "
        f"{format_number(terms[query])}; all {len(terms)} come to "
        f"**{format_number(terms.sum())}**. This chain differs from torch’s own gradient by at "
        f"most {format_number(chain.difference)}. A head of layer 0 is reached in the same way, "
        "once more through each head of layer 1."
    )


def _links(chain: lab.Chain) -> str:
    """Each factor with its shape and its numbers: as a list, for which a phone is wide enough."""
    lines = []
    for factor in chain.factors:
        rows, columns = factor.value.shape
        row, column = _largest(factor.value)
        lines.append(
            f"1. ${factor.symbol} = {factor.rule}$  \n"
            f"{factor.axes}: {rows} × {columns}; size ‖·‖ {format_number(factor.value.norm())}; "
            f"largest entry {format_number(factor.value[row, column])} at [{row}, {column}]"
        )
    return "\n".join(lines)


def _largest(values: Tensor) -> tuple[int, int]:
    """Row and column of the entry that is the farthest from 0."""
    return divmod(int(values.abs().argmax()), values.shape[1])


# -- how gradients shrink ------------------------------------------------------------------------


@frame.part
def rate(choices: Choices, found: Film, optimizer: str, settings: str) -> None:
    """The running mean of the squared gradient, against C / sqrt(t).

    Args:
        choices: of the lab.
        found: the training.
        optimizer: that it was trained with.
        settings: the training in words.
    """
    frame.step(
        "Do gradients shrink like 1/√t?",
        "Textbooks shorten a theorem to this rule. What it bounds, from above, is the **mean over "
        "steps** of the **squared** norm: single gradients may grow, and this mean may well fall "
        "faster. It is proved for plain SGD on a smooth loss, with steps that are as small as "
        "1/√(their number) (Ghadimi and Lan 2013), and for Adam under conditions of its own.",
        r"\frac{1}{t} \sum_{s \le t} \lVert \nabla L(W_s) \rVert^2 \;\le\; \frac{C}{\sqrt{t}}",
    )
    bound = lab.bound(found.steps, found.squared)
    if bound is None:
        st.markdown("There are too few steps to tell: not defined.")
        return
    trained = (
        f"This run: Adam, whose rate grows for {WARMUP} steps and then stays."
        if optimizer == "adam"
        else "This run: plain SGD, whose rate stays the same."
    )
    verdict = (
        "**holds** in the second half"
        if bound.holds
        else f"**does not hold** in the second half: it is passed at t = {bound.exceeded}"
    )
    st.markdown(
        f"{trained} With the C that the first half requires, {format_number(bound.factor)}, the "
        f"bound {verdict}. One run cannot prove a bound, nor refute it: a larger C may hold."
    )
    lines = {"running mean of ‖∇L‖²": bound.mean, "C/√t": bound.line}
    single = [norm**2 for norm in found.gradient]
    charts.lines(
        choices.key("rate-figure"),
        {name: (bound.steps, line) for name, line in lines.items()}
        | {"‖gradient of 32 texts‖²": (bound.steps, single)},
        title="Squared norm of the gradient",
        x_title="gradients taken, t",
        y_title="squared norm",
        x_axis="log",
        y_axis="log",
        note=settings,
        moments={"formed": found.formed + 1.0} if found.formed else {},
        table={"t": bound.steps, **lines, "of 32 texts": single},
        caption=settings,
        how_to_read="Both axes are logarithmic. C is taken from the first half, from "
        f"t = {lab.FIRST} on, with a tenth to spare. The squared gradient of one batch is too "
        "large on average, because its texts are drawn by chance. So ‖∇L‖² is taken as the product "
        "of the gradients of two independent batches, which is right on average.",
    )
