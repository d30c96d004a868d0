"""The page of lab 7: a pattern, heads of every width that are fitted to it, and folds."""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st
import torch
from torch import Tensor

from mha_viz.errors import ArgumentError
from mha_viz.learn.frame import charts, layout
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.long_work import LabRun, offer_run
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.any_pattern import numbers as any_pattern
from mha_viz.learn.labs.any_pattern import patterns
from mha_viz.learn.labs.any_pattern.numbers import Fit
from mha_viz.learn.labs.any_pattern.patterns import Digits
from mha_viz.plots.pictures import MatrixLook
from mha_viz.ui.state import selection
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.messages.notices import plain
from mha_viz.web.theme import format_number

TEXTS = read_texts(__package__)
PAINTED = "own"  # the choice of a pattern that was painted or typed
ERRORS = TEXTS.labels("error-titles")
MIN_DRAWN = 1e-7  # of a logarithmic axis: smaller differences are rounding
EXACT_NATS = 0.01  # nats: as good as exact


def draw(choices: Choices) -> None:
    """Draw the pattern that a head makes, the painted one, errors over d_k, and folds.

    No fragment: a button in one does not end the run that it is drawn in, and Stop must.
    """
    cover, question, matrices = TEXTS.opening(choices, "diagonal")
    with question:
        TEXTS.step("price")
    rows, seed = painted(choices)
    n, target = len(rows), patterns.pattern_of(rows)
    make, (stored, _) = partial(any_pattern.fit, target, seed), any_pattern.STORED
    run = LabRun(make, (rows, seed), any_pattern.STEPS, stored)
    fit = offer_run(choices, run, name="fit", label=f"Fit heads of width 1 to {n}", keep=12)
    if fit is None:
        TEXTS.caption("fit.text", n=n, lab=any_pattern)
    else:
        with matrices, cover():
            _one_width(choices, fit)
        with cover():
            _errors(choices, fit)
    TEXTS.fold(choices, "rank", partial(_rank, choices, rows, fit))
    TEXTS.fold(choices, "real-inputs", partial(_real_inputs, choices, rows, seed, fit))
    TEXTS.fold(choices, "fixed-pattern", partial(_fixed_pattern, choices, target, seed, fit))


def _errors(choices: Choices, fit: Fit) -> None:
    good = [d_k for d_k, kl in enumerate(fit.kl.tolist(), 1) if kl < EXACT_NATS]
    TEXTS.markdown("errors.found" if good else "errors.none", near=EXACT_NATS, good=good)
    error = choices.segments("error", "Error", ERRORS, "kl")
    lines = {"trained": getattr(fit, error)}
    if error == "kl":
        lines["singular vectors, not trained"] = fit.singular_kl
    table = {
        "d_k": range(1, len(fit.kl) + 1),
        "KL": fit.kl.numpy(),
        "Jensen-Shannon": fit.jensen_shannon.numpy(),
        "largest difference": fit.largest.numpy(),
        "KL, singular vectors": fit.singular_kl.numpy(),
        "scores off": fit.off.numpy(),
        "scores off, at least": any_pattern.singular(fit.target).left_over.numpy(),
    }
    texts = {"title": ERRORS[error], "unit": TEXTS(f"error-units.{error}")}
    _over_widths(choices, "errors", lines, texts, table=table)


def _over_widths(
    choices: Choices,
    name: str,
    lines: Mapping[str, Tensor],
    texts: Mapping[str, object],
    least: float = MIN_DRAWN,
    **axes: Any,
) -> None:
    """Draw values of all widths d_k on a logarithmic axis that begins at `least`."""
    values = {label: line.clamp(min=least).numpy() for label, line in lines.items()}
    widths = list(range(1, len(next(iter(values.values()))) + 1))
    axes.setdefault("table", {"d_k": widths, **values})
    axes |= dict(y_axis="log", more=dict(yaxis=dict(dtick=1)))
    charts.lines(
        choices.key(name), values, x=widths, **axes, **TEXTS.lines(f"{name}-figure", **texts)
    )


def _one_width(choices: Choices, fit: Fit) -> None:
    n = len(fit.kl)
    d_k = TEXTS.choose(choices, "width", positions=range(1, n + 1))
    fitted = fit.pattern[d_k - 1]
    # two fit beside each other
    cell = 130 // n if look.large() else min(40, 200 // n) if n <= 8 else 24
    names = list(map(str, range(n)))
    most = float(torch.maximum(fit.target, fitted).max())
    apart = max(0.1, float(fit.largest[d_k - 1]))  # rounding shall not look like a difference
    matrix_look: MatrixLook = {"rows": names, "columns": names, "cell": cell}
    shares: MatrixLook = matrix_look | {"diverging": False, "limits": (0.0, most)}
    with st.container(horizontal=True):
        charts.matrix(choices.key("pain"), fit.target, "painted", **shares)
        charts.matrix(choices.key("made"), fitted, f"made with d_k = {d_k}", **shares)
        difference = fitted - fit.target
        matrix_look["limits"] = (-apart, apart)
        charts.matrix(choices.key("diff"), difference, "difference", **matrix_look)
    errors = {name: format_number(getattr(fit, name)[d_k - 1]) for name in ERRORS}
    score = format_number((fit.query[d_k - 1] @ fit.key[d_k - 1].T).abs().max())
    zeros = TEXTS("one-width.zeros") if (fit.target == 0).any() else ""
    st.markdown(f"{TEXTS('one-width.errors', **errors, score=score)}{zeros}.")


def _rank(choices: Choices, rows: Digits, fit: Fit | None) -> None:
    cover = TEXTS.predict(choices, "random")
    target = patterns.pattern_of(rows)
    exact = any_pattern.exact_width(target)
    kind = "exact" if exact else "zeros"
    lines = {"least of any head (Eckart and Young)": any_pattern.singular(target).left_over}
    if fit is not None:
        lines["trained head"] = fit.off
    with cover():
        TEXTS.markdown(f"rank.painted.{kind}", exact=exact, floor=any_pattern.FLOOR)
    with cover():
        _over_widths(choices, "rank", lines, {"digits": " ".join(rows)}, 1e-3)


def _real_inputs(choices: Choices, rows: Digits, seed: int, one_hot: Fit | None) -> None:
    """Draw the section about patterns that tokens rule out at any width of the head."""
    cover = TEXTS.predict(choices, "equal")
    with layout.row():
        d_model, repeat = (TEXTS.choose(choices, name) for name in ("d_model", "repeat"))
    n, target = len(rows), patterns.pattern_of(rows)
    tokens = patterns.real_tokens(n, d_model, repeat, seed)
    make, (_, stored) = partial(any_pattern.fit, target, seed, tokens=tokens), any_pattern.STORED
    run = LabRun(make, (rows, seed, d_model, repeat), any_pattern.STEPS, stored)
    label = f"Fit on {n} tokens of width {d_model}"
    fit = offer_run(choices, run, name="real", label=label)
    least = float(patterns.divergence(target, patterns.tied(target, 0, n - 1))) if repeat else 0.0
    if repeat:
        TEXTS.markdown("real-inputs.bound.text", least=format_number(least))
    if fit is None:
        return
    names = [*map(str, range(n - 1)), "0 again" if repeat else str(n - 1)]
    lines = {f"tokens of d_model = {d_model}": fit.kl}
    if one_hot is not None:
        lines["one-hot tokens"] = one_hot.kl
    levels = {"equal tokens, at least": least} if least > MIN_DRAWN else {}
    repeats = ", the last repeats the first" * repeat
    texts = {"n": n, "width": f"d_model = {d_model}", "repeats": repeats}
    with cover():
        with st.container(horizontal=True):
            for title, pattern in (("painted", target), (f"made, d_k = {n}", fit.pattern[-1])):
                key = choices.key(f"real-{title[:4]}")
                charts.weights(key, pattern, title, names, names, cell=40 if n <= 7 else 28)
        _over_widths(choices, "real-errors", lines, texts, levels=levels)


def _fixed_pattern(choices: Choices, target: Tensor, seed: int, fit: Fit | None) -> None:
    """Draw the distances of a painted pattern from others, and of their outputs."""
    n, last = len(target), target.shape[1] - 1
    tokens = patterns.real_tokens(n, any_pattern.D_MODEL, True, seed)
    compared = {f"fitted head, d_k = {k}": fit.pattern[k - 1] for k in (1, 2)} if fit else {}
    compared[TEXTS("fixed-pattern.swapped")] = target[:, [last, *range(1, last), 0]]
    rows = [any_pattern.distances(target, pattern, tokens) for pattern in compared.values()]
    columns = [f"‖A − Â‖, {n} × {n}", f"‖AX − ÂX‖, {n} × {tokens.shape[1]}", "at most"]
    table = pd.DataFrame(rows, index=list(compared)).map(format_number).set_axis(columns, axis=1)
    charts.table(choices.key("fixed"), table.rename_axis("Â").reset_index())
    TEXTS.markdown("fixed-pattern.found")


# -- the pattern: chosen, painted by clicks, or typed as digits ------------------------------------


def painted(choices: Choices) -> tuple[Digits, int]:
    """Draw the controls and the grid; return the pattern as rows of digits, and the seed."""
    with layout.row():
        name, n, seed = (TEXTS.choose(choices, key) for key in ("pattern", "tokens", "seed"))
    rows = _rows(choices, name, n, seed)
    grid_column, text_column = st.columns([3, 2], gap="medium")
    with text_column:
        brush = TEXTS.choose(choices, "brush")
        selection.control(
            choices.key(f"typed-{n}"),
            st.text_area,
            "Or type it: a row for each query, a digit for each key",
            height=30 + 25 * n,
            max_chars=400,
            value="\n".join(rows),
            take=lambda raw: _take(choices, _split(raw), n),
        )
    with grid_column:
        _grid(choices, rows, brush)
    return rows, seed


def _rows(choices: Choices, name: str, n: int, seed: int) -> Digits:
    """Return the chosen pattern as digits; warn of a typed one that is not valid."""
    if name != PAINTED:
        return patterns.preset(name, n, seed)

    def readable(raw: str) -> str:
        if len(raw) > 400:
            raise ValueError
        return "-".join(_split(raw))

    rows = _split(choices.get(f"own{n}", "-".join(patterns.preset("diagonal", n)), readable))
    try:
        if len(rows) != n:
            raise ArgumentError(f"there must be {n} rows, got {len(rows)}.")
        patterns.pattern_of(rows)
    except ArgumentError as error:
        st.warning(TEXTS("painting.invalid", error=plain(str(error))))
        return patterns.preset("diagonal", n)
    return rows


def _split(text: str) -> Digits:
    return tuple(part for part in re.split(r"[\s,;/-]+", text) if part)


def _take(choices: Choices, rows: Digits, n: int) -> None:
    choices.set(f"own{n}", "-".join(rows))
    choices.set("pattern", PAINTED)


def _grid(choices: Choices, rows: Digits, brush: int) -> None:
    target, n = patterns.pattern_of(rows), len(rows)

    def paint(query: int, key: int) -> None:
        digit = "0" if rows[query][key] == str(brush) else str(brush)
        line = rows[query][:key] + digit + rows[query][key + 1 :]
        _take(choices, (*rows[:query], line, *rows[query + 1 :]), n)

    names = [str(i) for i in range(n)]
    charts.weights(choices.key("painted"), target, "Painted", names, names, on_click=paint)
    empty = ", ".join(str(i) for i, row in enumerate(rows) if set(row) == {"0"})
    note = f" {TEXTS('painting.empty', rows=empty)}" if empty else ""
    st.caption(TEXTS("painting.grid") + note)
