"""Lab 7 on screen, its last part: tokens that are no one-hot vectors."""

from __future__ import annotations

from functools import partial

import streamlit as st

from mha_viz.labs import any_pattern, any_pattern_digits
from mha_viz.labs.any_pattern import Fit
from mha_viz.labs.any_pattern_inputs import divergence, real_tokens, tied
from mha_viz.ui.learn import charts, frame
from mha_viz.ui.learn.any_pattern_painting import Rows
from mha_viz.ui.learn.choices import Choices
from mha_viz.ui.learn.long_work import trained
from mha_viz.web.theme import format_number

WIDTHS = (1, 2, 3, 4, 6, 8, 12)
LEAST = 1e-7  # of a logarithmic axis


def real_inputs(choices: Choices, rows: Rows, seed: int, one_hot: Fit | None) -> None:
    """What tokens themselves forbid, whatever the width of the head.

    Args:
        choices: of the lab.
        rows: the painted pattern, in digits.
        seed: of the tokens and the random starts.
        one_hot: what was fitted above, if it was.
    """
    frame.step(
        "Real inputs: equal tokens, and more tokens than d_model",
        "One-hot tokens are the best case. In a model X has d_model columns, and queries and keys "
        "are made from it. With **more tokens than d_model** scores have rank d_model at most, "
        "however wide the head is. And **equal tokens** (the same word, no positions) ask the same "
        "and are found the same: their rows are equal, and their columns.",
        r"\begin{gathered} S = X\, W_Q W_K^\top X^\top \\ "
        r"\operatorname{rank} S \le \min(d_k, d_\text{model}) \end{gathered}",
    )
    frame.predict(
        choices,
        "equal",
        "Each token should look only at itself, and two of them are the same word. How much weight "
        "can such a token have on itself, at most?",
        ["1, with a head that is wide enough", "1/2", "1/n"],
        1,
        "Both have the same key, so every query gives both the same weight: at most half each. "
        "Positions are there to tell them apart.",
    )
    with frame.row():
        d_model = choices.slide("d_model", "d_model", WIDTHS, 4, width=220)
        repeat = choices.toggle("repeat", "The last token repeats the first")
    n = len(rows)
    target = any_pattern_digits.pattern_of(rows)
    tokens = real_tokens(n, d_model, repeat, seed)
    found = trained(
        choices,
        (rows, seed, d_model, repeat),
        any_pattern.STEPS,
        partial(any_pattern.fit, target, seed, tokens=tokens),
        name="real",
        label=f"Fit on {n} tokens of width {d_model}",
    )
    least = float(divergence(target, tied(target, 0, n - 1))) if repeat else 0.0
    if repeat:
        st.markdown(
            f"With the last token equal to the first no head comes nearer than "
            f"**{format_number(least)}** nats, whatever its width: the best pattern gives both the "
            "same row and the same column."
        )
    if found is not None:
        _fitted(choices, found, one_hot, least, f"d_model = {d_model}", repeat)


def _fitted(
    choices: Choices, found: Fit, one_hot: Fit | None, least: float, width: str, repeat: bool
) -> None:
    """The painted pattern, the nearest one, and the error over d_k."""
    n = len(found.kl)
    names = [*map(str, range(n - 1)), "0 again" if repeat else str(n - 1)]
    with st.container(horizontal=True):
        for title, pattern in (("painted", found.target), (f"made, d_k = {n}", found.pattern[-1])):
            key = choices.key(f"real-{title[:4]}")
            charts.weights(key, pattern, title, names, names, cell=40 if n <= 7 else 28)
    widths = list(range(1, n + 1))
    lines = {f"tokens of {width}": (widths, found.kl.clamp(min=LEAST).numpy())}
    if one_hot is not None:
        lines["one-hot tokens"] = (widths, one_hot.kl.clamp(min=LEAST).numpy())
    charts.lines(
        choices.key("real-errors"),
        lines,
        title="KL from the painted pattern",
        x_title="d_k",
        y_title="nats, mean over rows",
        y_axis="log",
        levels={"equal tokens, at least": least} if least > LEAST else {},
        more=dict(yaxis=dict(dtick=1)),
        name="Real inputs",
        table={"d_k": widths} | {name: line[1] for name, line in lines.items()},
        caption=f"{n} random tokens, {width}" + ", the last repeats the first" * repeat,
        how_to_read="From d_k = d_model on a wider head gains nothing but luck in training: the "
        "tokens are the limit. The dotted line is a bound that no head passes.",
    )
