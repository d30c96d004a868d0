"""Lab 9 on screen, where training has led: the Hessian's ends, and a plane through the loss."""

from __future__ import annotations

from functools import partial

import pandas as pd
import streamlit as st

from mha_viz.labs import loss_landscape as lab
from mha_viz.labs.how_heads_learn import Film
from mha_viz.plots.landscape import landscape
from mha_viz.ui.learn import frame
from mha_viz.ui.learn.choices import Choices
from mha_viz.ui.learn.long_work import trained
from mha_viz.ui.widgets import figures, look
from mha_viz.web.theme import format_number

PLANES = {"path": "Along the path of training", "random": "At random"}
VERDICTS = {
    "down": "**No minimum**: in one direction at least, the loss curves down, as at a saddle point",
    "up": "**As in a minimum**: the loss curves up in every direction that was found",
    "level": "**No direction curves down** by more than what is measured here can tell, and some "
    "are level",
}


def draw(choices: Choices, found: Film, settings: tuple[object, ...], about: str) -> None:
    """Two measurements of the trained model, each behind a button: they take a while.

    Args:
        choices: of the lab.
        found: the training.
        settings: all that it depended on.
        about: the same in words.
    """
    _curvature(choices, found, settings)
    _plane(choices, found, settings, about)


def _curvature(choices: Choices, found: Film, settings: tuple[object, ...]) -> None:
    frame.step(
        "A minimum, or a saddle point?",
        "Where the gradient is 0, the loss may still go down. The **Hessian** H holds all second "
        "derivatives, and its eigenvalues λ say how the loss curves along its eigenvectors: all "
        "above 0 in a minimum, some below 0 at a saddle point. The largest and the smallest are "
        "found here without H, which would have more than a billion entries, from products H v "
        "(two passes of backpropagation each) by the method of Lanczos.",
        r"\begin{gathered} L(W + \epsilon v) \approx L(W) + \epsilon\, \nabla L \cdot v \\ "
        r"{} + \tfrac{\epsilon^2}{2}\, v^\top H\, v, \qquad H v = \lambda v \end{gathered}",
    )
    frame.predict(
        choices,
        "saddle",
        "The model is trained, and nearly every answer is right. Does the loss curve up in every "
        "direction there?",
        ["Yes, training ends in a minimum", "No, in some direction it curves down"],
        1,
        "Training stops long before the gradient is 0, and among tens of thousands of directions "
        "there are nearly always some that curve down a little. What is steep is steep in few "
        "directions: compare the two eigenvalues. Measure it.",
    )
    curved = trained(
        choices,
        settings,
        lab.N_PRODUCTS,
        partial(lab.curvature, found.n_heads, found.weights[-1]),
        name="curvature",
        label="Measure the curvature",
    )
    if curved is None:
        return
    lines = ["| | λ, by Lanczos | can be off by | by the loss itself |", "|---" * 4 + "|"]
    rows = ("largest", curved.largest), ("smallest", curved.smallest)
    for (name, value), off, seen in zip(rows, curved.unsure, curved.measured, strict=True):
        numbers = " | ".join(format_number(number) for number in (value, off, seen))
        lines.append(f"| {name} eigenvalue | {numbers} |")
    st.markdown("\n".join(lines))
    st.markdown(
        f"{VERDICTS[curved.verdict]}. The gradient is not 0: ‖∇L‖ = "
        f"{format_number(curved.gradient)}, at a loss of {format_number(curved.loss)} nats. So "
        "strictly it is neither; the eigenvalues only say how the loss curves here."
    )
    st.caption(
        f"On {lab.N_TEXTS} texts never trained on, in double precision, {lab.N_PRODUCTS} products. "
        "“Can be off by”: ‖H v − λ v‖. “By the loss itself”: (L(W + εv) − 2 L(W) + "
        "L(W − εv)) / ε², with the eigenvector v found."
    )


def _plane(choices: Choices, found: Film, settings: tuple[object, ...], about: str) -> None:
    frame.step(
        "The landscape of the loss",
        "All weights of the model are one point in a space of "
        f"{found.weights[0].numel():,} dimensions, and training is a path through it. This is a "
        "plane through the end of that path, and the loss on it. **Along the path** takes the two "
        "directions in which the weights moved most. **At random** takes two random directions, "
        "in which each column is as long as the column of weights that it moves (filter "
        "normalisation): without that, large weights would make any valley look wide.",
    )
    kind = choices.segments("plane", "The plane", PLANES, "path")
    choices.publish()
    seen = trained(
        choices,
        (*settings, kind),
        lab.SIDE**2,
        partial(lab.plane, found.n_heads, found.weights, kind),
        name="landscape",
        label="Measure the plane",
    )
    if seen is None:
        return
    title = f"Loss, {PLANES[kind].lower()}"
    figures.show(
        landscape(
            seen.x,
            seen.y,
            seen.loss,
            seen.path,
            found.snapshots,
            title=title,
            x_title="first direction",
            y_title="second direction",
            note="nats; a dot for each picture of the film, the last one is larger",
            dark=look.dark(),
        ),
        key=choices.key("landscape-figure"),
        name=title,
        table=pd.DataFrame(
            {
                "first direction": seen.x.repeat(len(seen.y)),
                "second direction": seen.y.repeat_interleave(len(seen.x)),
                "loss": seen.loss.flatten(),
            }
        ),
        caption=about,
        how_to_read="Lines join points of equal loss; colours are logarithmic. Of the squared "
        f"distances between the dots and the end, {seen.share:.1%} lies in this plane. The rest "
        "leads out of it: except at the end, the loss below a dot is not what the model had "
        "there. Two directions of so many cannot show that there is no saddle (Li et al. 2018).",
    )
