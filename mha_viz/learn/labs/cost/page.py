"""The page of lab 8: costs of attention for any sizes, and for published models."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from mha_viz.errors import MhaVizError
from mha_viz.learn.frame import layout
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.long_work import LabRun, offer_run
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.cost import measured
from mha_viz.learn.labs.cost import numbers as lab
from mha_viz.learn.labs.cost.measured import WAYS, Measured
from mha_viz.learn.labs.cost.numbers import LENGTHS, Sizes, costs
from mha_viz.plots.curves import ticks
from mha_viz.ui.run import memory
from mha_viz.ui.state import selection
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.notices import plain

TEXTS = read_texts(__package__)

BYTES = {4: "4 (float32)", 2: "2 (float16, bfloat16)", 1: "1 (int8, float8)", 8: "8 (float64)"}
SIZES = ("n", "d_model", "n_heads", "n_kv_heads", "n_layers", "n_read", "batch")
PADDED = (64, 512)  # two texts of one batch
HEADS = (1, 2, 4, 8, 16, 32)  # that are timed
N_TOKENS = 512  # tokens at which heads are compared
MIN_FITTED = 512  # tokens from which on powers are fitted: below, calls take longer than their work


def draw(choices: Choices) -> None:
    """Draw the growth with n, the bill of a layer, and folds.

    No fragment: a button in one does not end the run that it is drawn in, and Stop must.
    """
    checkpoint = selection.current().checkpoint  # first: it begins the list of a link's problems
    cover, question, figure = TEXTS.opening(choices, "long")
    with question:
        TEXTS.step("calculator")
    sizes = sizes_of(choices, dict.fromkeys(SIZES))
    if sizes is not None:
        even = lab.even_length(sizes)
        moments = {f"n = {even:,}": float(even)} if even < LENGTHS[-1] else {}
        with figure, cover():
            TEXTS.curves(choices, "growth", lab.by_length(sizes), {"moments": moments}, sizes=sizes)
        _bill(sizes)
        TEXTS.fold(choices, "more-heads", partial(_heads, choices, sizes))
        TEXTS.fold(choices, "two-texts", partial(_two_texts, choices, sizes))
        TEXTS.fold(choices, "fused", partial(_fused, choices, sizes))
    TEXTS.fold(choices, "measured", partial(_timing, choices))
    TEXTS.fold(choices, "models", partial(_models, choices, checkpoint))
    examples = TEXTS.tables["misread"]["sizes"]
    counted = {name: costs(Sizes(**example)) for name, example in examples.items()}
    TEXTS.fold(choices, "misread", partial(TEXTS.markdown, "misread.beliefs", **counted))


def sizes_of(
    choices: Choices, defaults: Mapping[str, int | None], n_bytes: int = 4
) -> Sizes | None:
    """Draw controls of these sizes; None, and an error on screen, where they do not fit.

    A size without a default begins as its control declares.
    """
    with layout.row():
        sizes = {
            name: TEXTS.choose(choices, name, **({} if default is None else {"default": default}))
            for name, default in defaults.items()
        }
        sizes["bytes_each"] = TEXTS.choose(choices, "bytes", options=BYTES, default=n_bytes)
    try:
        return Sizes(**{"n": 1, **sizes})
    except MhaVizError as error:
        st.error(plain(str(error)), icon=":material/calculate:")
        return None


def _bill(sizes: Sizes) -> None:
    cost, layer = costs(sizes), costs(replace(sizes, n_layers=1))
    shared = "" if sizes.n_kv_heads == sizes.n_heads else TEXTS("bill.shared", sizes=sizes)
    TEXTS.markdown("bill.width", sizes=sizes, shared=shared)
    head, layers = layer.times(1 / sizes.n_heads), layer.times(sizes.n_layers)
    operations, memory = st.columns((5, 4))
    with operations:
        TEXTS.markdown("bill.operations", head=head, layer=layer, layers=layers, sizes=sizes)
    with memory:
        matrices = [part.parameters * sizes.bytes_each for part in (layer, cost)]
        TEXTS.markdown("bill.memory", layer=layer, cost=cost, matrices=matrices, sizes=sizes)
    TEXTS.caption("bill.even", even=lab.even_length(sizes))
    counted = (layer.pattern + layer.activations) / sizes.bytes_each
    TEXTS.markdown("bill.textbook", total=lab.textbook_memory(sizes), counted=counted)


def _heads(choices: Choices, sizes: Sizes) -> None:
    cover = TEXTS.predict(choices, "heads", d_model=sizes.d_model)
    table = lab.by_heads(sizes)
    counts = [int(h) for h in table.heads if h & (h - 1) == 0 or len(table) < 6]
    with cover():
        axes = {"more": dict(xaxis=ticks(counts))}
        TEXTS.curves(choices, "by-heads", table, axes, sizes=sizes)


def _two_texts(choices: Choices, sizes: Sizes) -> None:
    """Draw the section on cross attention and batches."""
    cover = TEXTS.predict(choices, "batch")
    kind = "self-attention" if sizes.n_read == sizes.n else "cross attention"
    useful, padded = sum(n**2 for n in PADDED), len(PADDED) * max(PADDED) ** 2
    pairs, weights = sizes.batch * sizes.n * sizes.n_read, costs(sizes).pattern / sizes.n_layers
    values = {"kind": kind, "pairs": pairs, "weights": weights, "sizes": sizes}
    with cover():
        padding = {"useful": useful, "padded": padded, "ratio": padded / useful}
        TEXTS.markdown("two-texts.now", **values, **padding)


def _fused(choices: Choices, sizes: Sizes) -> None:
    """Draw the section on FlashAttention."""
    cover = TEXTS.predict(choices, "flash")
    once = replace(sizes, n_layers=1)
    twice = replace(once, n=2 * once.n, n_read=2 * once.n_read)
    counted = {"cost": costs(once), "twice": costs(twice)}
    with cover():
        TEXTS.markdown("saved.table", n=[once.n, twice.n], **counted)
        TEXTS.markdown("saved.text")


def _timing(choices: Choices) -> None:
    """Draw the measurements; no fragment, as in `draw`."""
    settings = TEXTS.row(choices, "time_width", "time_heads", "longest", "seed")
    width, heads, longest, seed = settings
    lengths = [n for n in measured.LENGTHS if n <= longest]
    runs = [(n, width, heads) for n in lengths] + [(N_TOKENS, width, h) for h in HEADS]
    run = LabRun(partial(measured.measure, runs, seed), settings, len(runs) * len(WAYS))
    result = offer_run(choices, run, name="start", label="Measure", keep=8)
    if result is None:
        TEXTS.caption("measured.wait")
        return
    _by_length(choices, Sizes(longest, width, heads), result, result.times[: len(lengths)])
    _by_heads(choices, Sizes(N_TOKENS, width, 1), result, result.times[len(lengths) :])


def _by_length(choices: Choices, sizes: Sizes, result: Measured, times: pd.DataFrame) -> None:
    """Draw the times by length beside what the counts say, and their powers of n."""
    least = min(MIN_FITTED, times.n.iloc[-2])
    powers = [measured.exponent(times, way, least) for way in WAYS]
    TEXTS.markdown("measured.powers", least=least, powers=powers, measured=result)
    counted = lab.by_length(sizes, times.n)
    counted[["projections", "pairs"]] /= result.speed
    table = times.join(counted.drop(columns="n").add_prefix("counted_"))
    axes = {"bands": _bands(times, WAYS), "more": dict(yaxis=dict(dtick=1))}
    TEXTS.curves(choices, "lengths", table, axes, sizes=sizes, measured=result, lab=measured)


def _by_heads(choices: Choices, sizes: Sizes, result: Measured, times: pd.DataFrame) -> None:
    """Draw the times of one d_model in more and more heads."""
    first, last = times.iloc[0], times.iloc[-1]
    values = {"first": first, "last": last, "products": 2 * costs(sizes).scores, "n": N_TOKENS}
    values |= {"ms": [1000 * row.weights for row in (first, last)], "heads": HEADS[-1]}
    TEXTS.markdown("more-measured.text", ratio=last.weights / first.weights, **values)
    axes = {"bands": _bands(times, ("weights", "fused"))}
    about = {"n": N_TOKENS, "width": sizes.d_model, "measured": result, "lab": measured}
    TEXTS.curves(choices, "time-by-heads", times.drop(columns="n"), axes, **about)


def _bands(times: pd.DataFrame, ways: Iterable[str]) -> dict[str, Any]:
    """Return the range from the fastest run to the median, by way."""
    return {way: (times[f"fastest_{way}"], times[way]) for way in ways}


def _models(choices: Choices, checkpoint: tuple[str, str, str]) -> None:
    model = memory.model(*checkpoint)
    with layout.row():
        n = TEXTS.choose(choices, "at", options=LENGTHS)
        size = TEXTS.choose(choices, "at_bytes", options=BYTES)
    table = lab.written(lab.rows(n, size, model), words.UNDEFINED)
    headers = TEXTS.control("model-table", n=n)
    st.dataframe(table.rename(columns=headers), hide_index=True, key=choices.key("models"))
    limits = ", ".join(f"{model.name} {model.n_ctx:,}" for model in lab.PUBLISHED)
    TEXTS.caption("limits.caption", limits=limits)
