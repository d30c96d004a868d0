"""Lab 7 on screen: paint a pattern, fit heads of every width, see what rank forbids."""

from __future__ import annotations

from functools import partial

import numpy as np
import streamlit as st
import torch

from mha_viz.labs import any_pattern, any_pattern_digits
from mha_viz.labs.any_pattern import Fit
from mha_viz.ui.learn import charts, frame
from mha_viz.ui.learn.any_pattern_inputs import real_inputs
from mha_viz.ui.learn.any_pattern_painting import Rows, painted
from mha_viz.ui.learn.choices import Choices
from mha_viz.ui.learn.long_work import trained
from mha_viz.ui.widgets import look
from mha_viz.web.theme import format_number

ERRORS = {
    "kl": ("KL divergence", "nats, mean over rows"),
    "jensen_shannon": ("Jensen-Shannon divergence", "nats, mean over rows"),
    "largest": ("Largest difference of a weight", "probability"),
}
MAX_FITS = 12
NEAR = 0.01  # nats: as good as made


def draw(choices: Choices) -> None:
    """Pattern, training, errors over d_k, and the bound of rank.

    No fragment: a button in one does not end the run that it is drawn in, and Stop must.
    """
    frame.step(
        "Every pattern has a price in width",
        "A head has d_k numbers for each query and each key. Paint where each token should look; "
        "then heads of every width are trained to look there. Tokens are one-hot vectors, so that "
        "W_Q and W_K hold a free query and key for each token: only d_k limits what they can do.",
        r"\begin{gathered} A = \operatorname{softmax}(W_Q W_K^\top) \\"
        r"W_Q, W_K \in \mathbb{R}^{n \times d_k} \\ \min_{W_Q, W_K}\; \textstyle\frac1n\sum_q "
        r"\operatorname{KL}(\text{painted}_q \,\Vert\, A_q) \end{gathered}",
    )
    frame.predict(
        choices,
        "diagonal",
        "There are 12 tokens, and each should look only at itself. That matrix has rank 12. Which "
        "width d_k is enough to come as close to it as you like?",
        ["1", "2", "11", "12"],
        1,
        "Put the 12 keys on a circle and let each query point at its own: large queries make it as "
        "sure as you like. The rank of the pattern is not the rank of the scores. In one dimension "
        "a row’s scores are one number times the keys, so only the largest and the smallest key "
        "can win.",
    )
    rows, seed = painted(choices)
    found = _trained(choices, rows, seed)
    if found is not None:
        _errors(choices, found)
        _one_width(choices, found)
    _rank(choices, rows, found)
    real_inputs(choices, rows, seed, found)
    choices.publish()


# -- training --------------------------------------------------------------------------------------


def _trained(choices: Choices, rows: Rows, seed: int) -> Fit | None:
    """The button, and the work with its progress; None until it was done."""
    n = len(rows)
    target = any_pattern_digits.pattern_of(rows)
    found = trained(
        choices,
        (rows, seed),
        any_pattern.STEPS,
        partial(any_pattern.fit, target, seed),
        name="fit",
        label=f"Fit heads of width 1 to {n}",
        keep=MAX_FITS,
    )
    if found is None:
        st.caption(
            f"All {n} widths are trained at once, from {any_pattern.RESTARTS} random starts and "
            f"one from singular vectors: Adam, {any_pattern.STEPS:,} steps. The best is kept."
        )
    return found


def _errors(choices: Choices, found: Fit) -> None:
    n = len(found.kl)
    good = [d_k for d_k, kl in enumerate(found.kl.tolist(), 1) if kl < NEAR]
    st.markdown(
        f"The narrowest head that comes within {NEAR} nats has **d_k = {good[0]}**."
        if good
        else f"No head comes within {NEAR} nats of it."
    )
    called = {key: title for key, (title, _) in ERRORS.items()}
    error = choices.segments("error", "Error", called, "kl")
    (title, unit), widths = ERRORS[error], list(range(1, n + 1))
    lines = {"trained": (widths, _seen(getattr(found, error)))}
    if error == "kl":
        lines["singular vectors, not trained"] = (widths, _seen(found.singular_kl))
    charts.lines(
        choices.key("errors"),
        lines,
        title=f"{title} from the painted pattern",
        x_title="d_k",
        y_title=unit,
        y_axis="log",
        more=dict(yaxis=dict(dtick=1)),
        name=f"{title} over d_k",
        caption="Trained from several starts",
        table=_table(found),
        how_to_read="Every head drawn was found, so a pattern costs this width at most; training "
        "does not prove that no narrower head can do it. Differences below 1e-7 are rounding and "
        "are drawn there.",
    )


def _seen(values: object, least: float = 1e-7) -> np.ndarray:
    """Fit for a logarithmic axis."""
    return np.maximum(np.asarray(values, dtype=float), least)


def _table(found: Fit) -> dict[str, object]:
    return {
        "d_k": range(1, len(found.kl) + 1),
        "KL": found.kl.numpy(),
        "Jensen-Shannon": found.jensen_shannon.numpy(),
        "largest difference": found.largest.numpy(),
        "KL, singular vectors": found.singular_kl.numpy(),
        "scores off": found.off.numpy(),
        "scores off, at least": any_pattern.singular(found.target).left_over.numpy(),
    }


def _one_width(choices: Choices, found: Fit) -> None:
    """Painted, made, and the difference, for one width; W_Q and W_K where they are small."""
    n = len(found.kl)
    most = any_pattern_digits.SIZES[-1]
    d_k = choices.place("width", "Width d_k", 1, n, 2, most=most, width=260)
    made = found.pattern[d_k - 1]
    cell = 40 if n <= 7 else 32 if n <= 9 else 24
    if look.large():
        cell = min(cell, 215 // n)  # so that all three still stand beside each other
    names = [str(i) for i in range(n)]
    largest = float(torch.maximum(found.target, made).max())
    apart = max(0.1, float(found.largest[d_k - 1]))  # rounding shall not look like a difference
    with st.container(horizontal=True):
        for title, values, diverging, limits in (
            ("painted", found.target, False, (0.0, largest)),
            (f"made with d_k = {d_k}", made, False, (0.0, largest)),
            ("difference", made - found.target, True, (-apart, apart)),
        ):
            charts.matrix(
                f"any-pattern-{title[:4]}",
                values,
                title,
                rows=names,
                columns=names,
                cell=cell,
                diverging=diverging,
                limits=limits,
            )
    st.markdown(
        f"KL **{format_number(found.kl[d_k - 1])}** nats, Jensen-Shannon "
        f"**{format_number(found.jensen_shannon[d_k - 1])}** nats, largest difference "
        f"**{format_number(found.largest[d_k - 1])}**. {_largest_score(found, d_k)}"
    )


def _largest_score(found: Fit, d_k: int) -> str:
    most = (found.query[d_k - 1] @ found.key[d_k - 1].T).abs().max()
    why = ""
    if any_pattern.exact_width(found.target) is None:
        why = ": a weight of 0 can only be approached, by ever larger scores"
    return f"Its largest score is {format_number(most)}{why}."


# -- rank ------------------------------------------------------------------------------------------


def _rank(choices: Choices, rows: Rows, found: Fit | None) -> None:
    n = len(rows)
    frame.step(
        "What rank forbids, and what it does not",
        "Scores W_Q W_Kᵀ have rank d_k at most. Softmax forgets a number added to a whole "
        "row, so what must be met is ln A with each row’s mean taken off. A pattern **without "
        "zeros** is made exactly by a head of that matrix’s rank and by no narrower one, and the "
        "rank is never above n − 1.",
        r"\begin{gathered} S = \ln A\,\big(I - \tfrac1n \mathbf{1}\mathbf{1}^\top\big) \\ "
        r"\text{exact: } d_k \ge \operatorname{rank} S \\ \min_{W_Q, W_K} \lVert S - "
        r"W_Q W_K^\top \rVert_F = \textstyle\sqrt{\sum_{i > d_k} \sigma_i(S)^2} \end{gathered}",
    )
    frame.predict(
        choices,
        "random",
        "8 tokens, weights drawn at random, none of them 0. Which width makes "
        "this pattern exactly?",
        ["4", "7", "8"],
        1,
        "n − 1: the centred logarithms have rank 7, since every row sums to 0. A width below n "
        "is the low-rank bottleneck of Bhojanapalli et al. 2020: some patterns are out of reach.",
    )
    target = any_pattern_digits.pattern_of(rows)
    exact = any_pattern.exact_width(target)
    st.markdown(
        f"The painted pattern has no zeros: **d_k = {exact}** is the least that makes it exactly."
        if exact is not None
        else "The painted pattern has zeros: **no** width makes it exactly, since no finite score "
        "gives a weight of 0; the question is how wide a head must be to come near. Below, zeros "
        f"stand as {any_pattern.FLOOR:g} in S."
    )
    widths, bound = list(range(1, n + 1)), any_pattern.singular(target).left_over
    lines = {"least of any head (Eckart and Young)": (widths, _seen(bound, 1e-3))}
    if found is not None:
        lines["trained head"] = (widths, _seen(found.off, 1e-3))
    charts.lines(
        choices.key("rank"),
        lines,
        title="How far scores are from S",
        x_title="d_k",
        y_title="Frobenius norm of the difference",
        y_axis="log",
        more=dict(yaxis=dict(dtick=1)),
        name="Scores and rank",
        table={"d_k": widths} | {name: line[1] for name, line in lines.items()},
        caption=f"Digits: {' '.join(rows)}",
        how_to_read="The lower line is a bound on scores, not on weights: no head of that width "
        "comes nearer to S. A head can stay far from S and still make the pattern, where weights "
        "are near 0 and scores may be as low as they like. Norms below 0.001 are drawn there.",
    )
