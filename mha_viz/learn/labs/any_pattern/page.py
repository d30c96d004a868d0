"""The page of lab 7: a pattern, heads of every width that are fitted to it, and folds."""

import re
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

import pandas as pd
import streamlit as st
import torch
from torch import Tensor

from mha_viz.errors import ArgumentError
from mha_viz.learn.frame import charts, frame
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.long_work import trained
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.any_pattern import numbers as any_pattern
from mha_viz.learn.labs.any_pattern import patterns
from mha_viz.learn.labs.any_pattern.numbers import Fit
from mha_viz.ui.state import state
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.messages.messages import plain
from mha_viz.web.theme import format_number

TEXTS = read_texts(__package__)
OWN = "own"
NAMES = TEXTS.labels("patterns")
Rows = tuple[str, ...]  # digits of the pattern

ERRORS = TEXTS.labels("error-titles")
WIDTHS = (1, 2, 3, 4, 6, 8, 12)  # of real tokens
MAX_FITS = 12
LEAST = 1e-7  # of a logarithmic axis: smaller differences are rounding
NEAR = 0.01  # nats: as good as made


def draw(choices: Choices) -> None:
    """Draw the pattern that a head makes, the painted one, errors over d_k, and folds.

    No fragment: a button in one does not end the run that it is drawn in, and Stop must.
    """
    asked, drawn = st.columns(2, gap="medium")
    with asked:
        cover = TEXTS.predict(choices, "diagonal")
        TEXTS.step("price")
    rows, seed = painted(choices)
    n, target = len(rows), patterns.pattern_of(rows)
    fit, label = partial(any_pattern.fit, target, seed), f"Fit heads of width 1 to {n}"
    total, stored = any_pattern.STEPS, any_pattern.STORED[0]
    found = trained(
        choices, (rows, seed), total, fit, name="fit", label=label, keep=MAX_FITS, stored=stored
    )
    if found is None:
        TEXTS.caption("fit.text", n=n, lab=any_pattern)
    else:
        with drawn, cover():
            _one_width(choices, found)
        with cover():
            _errors(choices, found)
    TEXTS.fold(choices, "rank", partial(_rank, choices, rows, found))
    TEXTS.fold(choices, "real-inputs", partial(_real_inputs, choices, rows, seed, found))
    TEXTS.fold(choices, "fixed-pattern", partial(_fixed_pattern, choices, target, seed, found))


def _errors(choices: Choices, found: Fit) -> None:
    good = [d_k for d_k, kl in enumerate(found.kl.tolist(), 1) if kl < NEAR]
    TEXTS.markdown("errors.found" if good else "errors.none", near=NEAR, good=good)
    error = choices.segments("error", "Error", ERRORS, "kl")
    title, unit = ERRORS[error], TEXTS(f"error-units.{error}")
    shown = {"trained": getattr(found, error)}
    if error == "kl":
        shown["singular vectors, not trained"] = found.singular_kl
    table = {
        "d_k": range(1, len(found.kl) + 1),
        "KL": found.kl.numpy(),
        "Jensen-Shannon": found.jensen_shannon.numpy(),
        "largest difference": found.largest.numpy(),
        "KL, singular vectors": found.singular_kl.numpy(),
        "scores off": found.off.numpy(),
        "scores off, at least": any_pattern.singular(found.target).left_over.numpy(),
    }
    _over_widths(choices, "errors", shown, table=table, title=title, unit=unit)


def _over_widths(
    choices: Choices,
    name: str,
    shown: Mapping[str, Tensor],
    *,
    least: float = LEAST,
    levels: Mapping[str, float] = MappingProxyType({}),
    table: Mapping[str, object] | None = None,
    **texts: object,
) -> None:
    """Draw values of all widths d_k on a logarithmic axis that begins at `least`."""
    values = {label: line.clamp(min=least).numpy() for label, line in shown.items()}
    widths = list(range(1, len(next(iter(values.values()))) + 1))
    charts.lines(
        choices.key(name),
        {label: (widths, line) for label, line in values.items()},
        y_axis="log",
        levels=levels,
        more=dict(yaxis=dict(dtick=1)),
        table={"d_k": widths, **values} if table is None else table,
        **TEXTS.lines(f"{name}-figure", **texts),
    )


def _one_width(choices: Choices, found: Fit) -> None:
    n, most = len(found.kl), patterns.SIZES[-1]
    d_k = choices.place("width", "Width d_k", 1, n, 2, most=most, width=260)
    made = found.pattern[d_k - 1]
    # two fit beside each other
    cell = 130 // n if look.large() else min(40, 200 // n) if n <= 8 else 24
    names = list(map(str, range(n)))
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
    errors = {name: format_number(getattr(found, name)[d_k - 1]) for name in ERRORS}
    score = format_number((found.query[d_k - 1] @ found.key[d_k - 1].T).abs().max())
    text = TEXTS("one-width.errors", **errors, score=score)
    if any_pattern.exact_width(found.target) is None:
        text += TEXTS("one-width.zeros")
    st.markdown(f"{text}.")


def _rank(choices: Choices, rows: Rows, found: Fit | None) -> None:
    cover = TEXTS.predict(choices, "random")
    target = patterns.pattern_of(rows)
    exact = any_pattern.exact_width(target)
    kind = "zeros" if exact is None else "exact"
    with cover():
        TEXTS.markdown(f"rank.painted.{kind}", exact=exact, floor=any_pattern.FLOOR)
    shown = {"least of any head (Eckart and Young)": any_pattern.singular(target).left_over}
    if found is not None:
        shown["trained head"] = found.off
    with cover():
        _over_widths(choices, "rank", shown, least=1e-3, digits=" ".join(rows))


def _real_inputs(choices: Choices, rows: Rows, seed: int, one_hot: Fit | None) -> None:
    """Draw the section about patterns that tokens rule out at any width of the head."""
    cover = TEXTS.predict(choices, "equal")
    with frame.row():
        d_model = choices.slide("d_model", "d_model", WIDTHS, any_pattern.D_MODEL, width=220)
        repeat = choices.toggle("repeat", "The last token repeats the first")
    n, target = len(rows), patterns.pattern_of(rows)
    tokens = patterns.real_tokens(n, d_model, repeat, seed)
    fit = partial(any_pattern.fit, target, seed, tokens=tokens)
    key, label = (rows, seed, d_model, repeat), f"Fit on {n} tokens of width {d_model}"
    total, stored = any_pattern.STEPS, any_pattern.STORED[1]
    found = trained(choices, key, total, fit, name="real", label=label, stored=stored)
    least = float(patterns.divergence(target, patterns.tied(target, 0, n - 1))) if repeat else 0.0
    if repeat:
        TEXTS.markdown("real-inputs.bound.text", least=format_number(least))
    if found is not None:
        with cover():
            _fitted(choices, found, one_hot, least, f"d_model = {d_model}", repeat)


def _fitted(
    choices: Choices, found: Fit, one_hot: Fit | None, least: float, width: str, repeat: bool
) -> None:
    n = len(found.kl)
    names = [*map(str, range(n - 1)), "0 again" if repeat else str(n - 1)]
    with st.container(horizontal=True):
        for title, pattern in (("painted", found.target), (f"made, d_k = {n}", found.pattern[-1])):
            key = choices.key(f"real-{title[:4]}")
            charts.weights(key, pattern, title, names, names, cell=40 if n <= 7 else 28)
    shown = {f"tokens of {width}": found.kl}
    if one_hot is not None:
        shown["one-hot tokens"] = one_hot.kl
    levels = {"equal tokens, at least": least} if least > LEAST else {}
    repeats = ", the last repeats the first" * repeat
    _over_widths(choices, "real-errors", shown, levels=levels, n=n, width=width, repeats=repeats)


def _fixed_pattern(choices: Choices, target: Tensor, seed: int, found: Fit | None) -> None:
    """Draw what can be compared with a painted pattern, and what cannot."""
    n, last = len(target), target.shape[1] - 1
    tokens = patterns.real_tokens(n, any_pattern.D_MODEL, True, seed)
    swapped = target[:, [last, *range(1, last), 0]]
    rows = (
        {} if found is None else {f"fitted head, d_k = {k}": found.pattern[k - 1] for k in (1, 2)}
    )
    rows[TEXTS("fixed-pattern.swapped")] = swapped
    made = {name: vars(any_pattern.distances(target, one, tokens)) for name, one in rows.items()}
    shapes = {"pattern": f"‖A − Â‖, {n} × {n}", "output": f"‖AX − ÂX‖, {n} × {tokens.shape[1]}"}
    table = pd.DataFrame(made).T.map(format_number).rename(columns=shapes | {"bound": "at most"})
    table = table.rename_axis("Â").reset_index()
    st.dataframe(table, hide_index=True, width="content", key=choices.key("fixed"))
    TEXTS.markdown("fixed-pattern.found")


# -- the pattern: chosen, painted by clicks, or typed as digits ------------------------------------


def painted(choices: Choices) -> tuple[Rows, int]:
    """Draw the controls and the grid; return the pattern as rows of digits, and the seed."""
    with frame.row():
        name = choices.menu("pattern", "Where tokens look", NAMES, "diagonal", width=220)
        n = choices.slide("tokens", "Tokens n", patterns.SIZES, 8, width=180)
        seed_help = TEXTS("painting.seed")
        seed = choices.number("seed", "Seed", 0, 9_999, 0, width=120, help=seed_help)
    rows = _rows(choices, name, n, seed)
    left, right = st.columns([3, 2], gap="medium")
    with right:
        brush_help = TEXTS("painting.brush")
        brush = choices.slide("brush", "A click paints", range(10), 9, width=220, help=brush_help)
        _typed(choices, rows, n)
    with left:
        _grid(choices, rows, brush)
    return rows, seed


def _rows(choices: Choices, name: str, n: int, seed: int) -> Rows:
    """Return the chosen pattern as digits; warn of a typed one that is not valid."""
    if name != OWN:
        return patterns.preset(name, n, seed)
    rows = _split(choices.get(f"own{n}", "-".join(patterns.preset("diagonal", n)), _readable))
    try:
        if len(rows) != n:
            raise ArgumentError(f"there must be {n} rows, got {len(rows)}.")
        patterns.pattern_of(rows)
    except ArgumentError as error:
        st.warning(TEXTS("painting.invalid", error=plain(str(error))))
        return patterns.preset("diagonal", n)
    return rows


def _split(text: str) -> Rows:
    return tuple(part for part in re.split(r"[\s,;/-]+", text) if part)


def _readable(raw: str) -> str:
    if len(raw) > 400:
        raise ValueError
    return "-".join(_split(raw))


def _own(choices: Choices, rows: Rows, n: int) -> None:
    choices.set(f"own{n}", "-".join(rows))
    choices.set("pattern", OWN)


def _typed(choices: Choices, rows: Rows, n: int) -> None:
    state.control(
        choices.key(f"typed-{n}"),
        st.text_area,
        "Or type it: a row for each query, a digit for each key",
        height=30 + 25 * n,
        max_chars=400,
        value="\n".join(rows),
        take=lambda raw: _own(choices, _split(raw), n),
    )


def _grid(choices: Choices, rows: Rows, brush: int) -> None:
    target, n = patterns.pattern_of(rows), len(rows)

    def paint(query: int, key: int) -> None:
        digit = "0" if rows[query][key] == str(brush) else str(brush)
        line = rows[query][:key] + digit + rows[query][key + 1 :]
        _own(choices, (*rows[:query], line, *rows[query + 1 :]), n)

    names = [str(i) for i in range(n)]
    charts.weights(choices.key("painted"), target, "Painted", names, names, on_click=paint)
    empty = [str(i) for i, row in enumerate(rows) if set(row) == {"0"}]
    text = TEXTS("painting.grid")
    st.caption(f"{text} {TEXTS('painting.empty', rows=', '.join(empty))}" if empty else text)
