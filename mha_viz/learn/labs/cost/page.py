"""The page of lab 8: costs of attention for any sizes, and for published models."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from mha_viz.core.amounts import format_share, of_bytes, short
from mha_viz.errors import MhaVizError
from mha_viz.learn.frame import charts, layout
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.long_work import LabRun, offer_run
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.cost import measured
from mha_viz.learn.labs.cost.measured import Measured
from mha_viz.learn.labs.cost.numbers import (
    MAX_SIZES,
    PUBLISHED,
    Sizes,
    costs,
    divisors,
    even_length,
    rows,
    textbook_memory,
)
from mha_viz.plots.curves import ticks
from mha_viz.ui.run import memory
from mha_viz.ui.state import selection
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.notices import plain

TEXTS = read_texts(__package__)

BYTES = {4: "4 (float32)", 2: "2 (float16, bfloat16)", 1: "1 (int8, float8)", 8: "8 (float64)"}
LENGTHS = tuple(2**i for i in range(6, 18))  # 64 to 131,072 tokens
DEFAULTS = dict(n=512, d_model=768, n_heads=12, n_kv_heads=0, n_layers=12, n_read=0, batch=1)
PADDED = (64, 512)  # two texts of one batch
HEADS = (1, 2, 4, 8, 16, 32)  # that are timed
N_TOKENS = 512  # tokens at which heads are compared
MIN_FITTED = 512  # tokens from which on powers are fitted: below, calls take longer than their work
WAYS = TEXTS.labels("ways")


def draw(choices: Choices) -> None:
    """Draw the growth with n, the bill of a layer, and folds.

    No fragment: a button in one does not end the run that it is drawn in, and Stop must.
    """
    checkpoint = selection.current().checkpoint  # first: it begins the list of a link's problems
    cover, question, figure = TEXTS.opening(choices, "long")
    with question:
        TEXTS.step("calculator")
    sizes = sizes_of(choices, DEFAULTS)
    if sizes is not None:
        with figure, cover():
            _growth(choices, sizes)
        _bill(choices, sizes)
        TEXTS.fold(choices, "more-heads", partial(_heads, choices, sizes))
        TEXTS.fold(choices, "two-texts", partial(_two_texts, choices, sizes))
        TEXTS.fold(choices, "fused", partial(_fused, choices, sizes))
    TEXTS.fold(choices, "measured", partial(_timing, choices))
    TEXTS.fold(choices, "models", partial(_models, choices, checkpoint))
    TEXTS.fold(choices, "misread", _misread)


def sizes_of(choices: Choices, defaults: Mapping[str, int], n_bytes: int = 4) -> Sizes | None:
    """Draw controls of these sizes; None, and an error on screen, where they do not fit."""
    with layout.row():
        sizes = {
            name: TEXTS.choose(choices, name, high=MAX_SIZES[name], default=default)
            for name, default in defaults.items()
        }
        sizes["bytes_each"] = TEXTS.choose(choices, "bytes", options=BYTES, default=n_bytes)
    try:
        return Sizes(**{"n": 1, **sizes})
    except MhaVizError as error:
        st.error(plain(str(error)), icon=":material/calculate:")
        return None


def _growth(choices: Choices, sizes: Sizes) -> None:
    """Draw the costs that grow with n, and those that grow with its square."""
    counted = [costs(replace(sizes, n=n, n_read=n)) for n in LENGTHS]
    lines = {
        TEXTS("growth.linear"): [cost.projections for cost in counted],
        TEXTS("growth.square"): [cost.scores + cost.mixing for cost in counted],
    }
    patterns = {"bytes of all attention weights": [cost.pattern for cost in counted]}
    even = even_length(sizes)
    charts.lines(
        choices.key("growth"),
        lines,
        x=LENGTHS,
        moments={f"n = {even:,}": float(even)} if even < LENGTHS[-1] else {},
        more=dict(xaxis=ticks(LENGTHS[::2])),
        table={"n": LENGTHS, **lines, **patterns},
        **TEXTS.lines("growth-figure", sizes=sizes),
    )


def _bill(choices: Choices, sizes: Sizes) -> None:
    cost, layers = costs(sizes), f"{sizes.n_layers} layers"
    text = TEXTS("calculator.width.text", sizes=sizes)
    if sizes.n_kv_heads != sizes.n_heads:
        text += TEXTS("calculator.width.shared", sizes=sizes)
    st.markdown(text)
    amounts = cost._asdict() | {"parameters": cost.parameters * sizes.bytes_each}
    shares = {"one head": 1 / sizes.n_heads, "one layer": 1, layers: sizes.n_layers}
    operations, memory = st.columns(2)
    with operations:
        names = TEXTS.labels("operations")
        columns = {
            column: [short(amounts[name] * share) for name in names]
            for column, share in shares.items()
        }
        charts.table(choices.key("bill"), pd.DataFrame({"Operations": names.values(), **columns}))
    with memory:
        names = TEXTS.labels("memory")
        columns = {
            column: [of_bytes(amounts[name] / share) for name in names]
            for column, share in (("one layer", sizes.n_layers), (layers, 1))
        }
        charts.table(choices.key("memory"), pd.DataFrame({"Memory": names.values(), **columns}))
    TEXTS.caption("calculator.even.text", even=even_length(sizes))
    counted = (cost.pattern + cost.activations) / (sizes.n_layers * sizes.bytes_each)
    textbook = textbook_memory(sizes)
    TEXTS.markdown("calculator.total.text", textbook=short(textbook), counted=short(counted))


def _heads(choices: Choices, sizes: Sizes) -> None:
    cover = TEXTS.predict(choices, "heads", d_model=sizes.d_model)
    counts = divisors(sizes.d_model, 64)
    counted = [costs(replace(sizes, n_heads=h, n_kv_heads=0)) for h in counts]
    operations = [cost.layer for cost in counted]
    patterns = [cost.pattern for cost in counted]
    table = {"heads": counts, "d_k": [sizes.d_model // h for h in counts]}
    table |= {"operations of a layer": operations, "bytes of all attention weights": patterns}
    with cover():
        charts.lines(
            choices.key("by-heads"),
            {
                "operations": [operation / operations[0] for operation in operations],
                "attention weights": [pattern / patterns[0] for pattern in patterns],
            },
            x=counts,
            more=dict(xaxis=ticks([h for h in counts if h & (h - 1) == 0 or len(counts) < 6])),
            table=table,
            **TEXTS.lines("by-heads-figure", sizes=sizes),
        )


def _two_texts(choices: Choices, sizes: Sizes) -> None:
    """Draw the section on cross attention and batches."""
    cover = TEXTS.predict(choices, "batch")
    kind = "self-attention" if sizes.n_read == sizes.n else "cross attention"
    few, many = PADDED
    useful, padded = few**2 + many**2, 2 * many**2
    values = {"pairs": sizes.batch * sizes.n * sizes.n_read, "kind": kind, "sizes": sizes}
    values["bytes"] = of_bytes(costs(sizes).pattern / sizes.n_layers)
    padding = dict(few=few, many=many, useful=useful, padded=padded, ratio=padded / useful)
    with cover():
        TEXTS.markdown("two-texts.now.text", **values, **padding)


def _fused(choices: Choices, sizes: Sizes) -> None:
    """Draw the section on FlashAttention."""
    cover = TEXTS.predict(choices, "flash")
    twice = replace(sizes, n=2 * sizes.n, n_read=2 * sizes.n_read)
    columns: dict[str, object] = {"One layer": TEXTS.labels("fused.rows").values()}
    for size in (sizes, twice):
        cost = costs(size)
        memory = cost.pattern, cost.row_sums, cost.cache
        products = [short(cost.scores + cost.mixing)] * 2  # weights kept, fused
        columns[f"n = {size.n:,}"] = products + [of_bytes(m / sizes.n_layers) for m in memory]
    with cover():
        charts.table(choices.key("fused"), pd.DataFrame(columns))
        TEXTS.markdown("fused.saved.text")


def _timing(choices: Choices) -> None:
    """Draw the measurements; no fragment, as in `draw`."""
    with layout.row():
        names = ("time_width", "time_heads", "longest", "seed")
        width, heads, longest, seed = settings = tuple(
            TEXTS.choose(choices, name) for name in names
        )
    lengths = [n for n in measured.LENGTHS if n <= longest]
    runs = [(n, width, heads) for n in lengths] + [(N_TOKENS, width, h) for h in HEADS]
    run = LabRun(partial(measured.measure, runs, seed), settings, len(runs) * len(WAYS))
    times = offer_run(choices, run, name="start", label="Measure", keep=8)
    if times is None:
        TEXTS.caption("measured.wait")
        return
    _by_length(choices, lengths, Sizes(longest, width, heads), times.part(slice(len(lengths))))
    _by_heads(choices, width, times.part(slice(len(lengths), None)))


def _by_length(choices: Choices, lengths: list[int], sizes: Sizes, times: Measured) -> None:
    """Draw the times by length beside what the counts say, and their powers of n."""
    counted = [costs(replace(sizes, n=n, n_read=n)) for n in lengths]
    least = min(MIN_FITTED, lengths[-2])
    powers = [measured.exponent(lengths, list(times.fastest[way]), least) for way in WAYS]
    speed = short(times.speed)
    TEXTS.markdown("measured.powers", least=least, powers=powers, speed=speed, times=times)
    counts = {
        "projections": [cost.projections / times.speed for cost in counted],
        "weights": [(cost.scores + cost.mixing) / times.speed for cost in counted],
    }
    counts = {f"count: {WAYS[way]}": seconds for way, seconds in counts.items()}
    bytes_of_weights = {
        "bytes of the weights, measured": times.pattern,
        "bytes, calculated": [cost.pattern for cost in counted],
    }
    seconds = {f"{name} (seconds)": values for name, values in counts.items()}
    columns = {"n": lengths, **_columns(times, WAYS), **seconds, **bytes_of_weights}
    texts = TEXTS.lines("lengths-figure", sizes=sizes, times=times, lab=measured, speed=speed)
    axes = dict(xaxis=ticks(lengths), yaxis=dict(dtick=1))
    _times(choices.key("lengths"), lengths, times, WAYS, counts, table=columns, more=axes, **texts)


def _by_heads(choices: Choices, width: int, times: Measured) -> None:
    """Draw the times of one d_model in more and more heads."""
    seconds, sizes = ((part[0], part[-1]) for part in (list(times.seconds.weights), times.pattern))
    TEXTS.markdown(
        "by-heads.text",
        n=N_TOKENS,
        operations=short(2 * costs(Sizes(N_TOKENS, width, 1)).scores),
        heads=HEADS[-1],
        ms=[1000 * second for second in seconds],
        ratio=seconds[1] / seconds[0],
        sizes=[of_bytes(size) for size in sizes],
    )
    ways = ("weights", "fused")
    columns = {"heads": HEADS, "d_k": [width // h for h in HEADS], **_columns(times, ways)}
    columns["bytes of the weights"] = times.pattern
    texts = TEXTS.lines("time-by-heads-figure", n=N_TOKENS, width=width, times=times, lab=measured)
    axes, key = dict(xaxis=ticks(HEADS)), choices.key("time-by-heads")
    _times(key, HEADS, times, ways, {}, table=columns, more=axes, **texts)


def _times(
    key: str,
    x: Sequence[int],
    times: Measured,
    ways: Iterable[str],
    counts: Mapping[str, list[float]],
    **texts: Any,
) -> None:
    """Draw the median time of each way, shaded down to the fastest run, and counted times."""
    lines: dict[str, Any] = {WAYS[way]: times.seconds[way] for way in ways}
    bands = {WAYS[way]: (times.fastest[way], times.seconds[way]) for way in ways}
    charts.lines(key, {**lines, **counts}, x=x, bands=bands, **texts)


def _columns(times: Measured, ways: Iterable[str]) -> dict[str, Any]:
    kinds = {"seconds": times.seconds, "fastest": times.fastest}
    return {
        f"{kind}, {WAYS[way]}": list(seconds[way])
        for kind, seconds in kinds.items()
        for way in ways
    }


def _models(choices: Choices, checkpoint: tuple[str, str, str]) -> None:
    model = memory.model(*checkpoint)
    with layout.row():
        n = TEXTS.choose(choices, "at", options=LENGTHS)
        size = TEXTS.choose(choices, "at_bytes", options=BYTES)
    table = rows(n, size, model)
    shares = [
        words.UNDEFINED if part is None else f"{short(part)} ({format_share(part / total)})"
        for part, total in zip(table.attention, table.parameters, strict=True)
    ]
    written = table.transform({"parameters": short, "pattern": of_bytes, "cache": of_bytes})
    names = TEXTS.labels("columns")
    names |= {"pattern": f"Weights at {n:,}", "cache": f"KV cache at {n:,}"}
    table = table.assign(attention=shares, **written).rename(columns=names)
    st.dataframe(table, hide_index=True, key=choices.key("models"))
    limits = ", ".join(f"{model.name} {model.n_ctx:,}" for model in PUBLISHED)
    TEXTS.caption("models.caption.text", limits=limits)


def _misread() -> None:
    n, d, h, layers = 512, 768, 12, 12
    sizes = {
        "one": Sizes(n, d, 1, 0, layers),
        "many": Sizes(n, d, h, 0, layers),
        "long": Sizes(2 * n, d, h, 0, layers),
        "wide": Sizes(n, d, 2 * h, 0, layers),
        "deep": Sizes(n, d, h, 0, 2 * layers),
    }
    values: dict[str, object] = {"n": n, "twice": 2 * n, "h": h}
    for name, size in sizes.items():
        cost = costs(size)
        values[f"{name}_pattern"] = of_bytes(cost.pattern)
        for part in ("head", "layer", "scores", "parameters"):
            values[f"{name}_{part}"] = short(getattr(cost, part))
    for belief in ("cheaper", "longer", "layers"):
        TEXTS.markdown(f"misread.{belief}", **values)
