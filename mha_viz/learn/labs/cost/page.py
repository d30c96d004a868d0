"""The page of lab 8: costs of attention for any sizes, and for published models."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

import pandas as pd
import streamlit as st

from mha_viz.core.amounts import of_bytes, short
from mha_viz.errors import MhaVizError
from mha_viz.learn.frame import charts, frame
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.long_work import trained
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.cost import measured
from mha_viz.learn.labs.cost.measured import Measured
from mha_viz.learn.labs.cost.numbers import (
    PUBLISHED,
    Costs,
    Sizes,
    costs,
    divisors,
    even_length,
    rows,
    textbook_memory,
)
from mha_viz.plots.curves import ticks
from mha_viz.ui.run import memory
from mha_viz.ui.state import state
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.messages import plain

TEXTS = read_texts(__package__)

BYTES = {4: "4 (float32)", 2: "2 (float16, bfloat16)", 1: "1 (int8, float8)", 8: "8 (float64)"}
LONG = tuple(2**i for i in range(6, 18))  # 64 to 131,072 tokens
DEFAULTS = dict(n=512, d_model=768, n_heads=12, n_kv_heads=0, n_layers=12, n_read=0, batch=1)
PADDED = (64, 512)  # two texts of one batch
WIDTHS, HEADS = (64, 128, 256, 512, 1024), (1, 2, 4, 8, 16, 32)  # that are timed
AT = 512  # tokens at which heads are compared
LARGE = 512  # tokens from which on powers are fitted: below, calls take longer than their work
WAYS = {"projections": "projections", "weights": "weights kept", "fused": "weights never kept"}


def draw(choices: Choices) -> None:
    """Draw the growth with n, the bill of a layer, and folds.

    No fragment: a button in one does not end the run that it is drawn in, and Stop must.
    """
    checkpoint = state.current().checkpoint  # first: it begins the list of a link's problems
    asked, drawn = st.columns(2, gap="medium")
    with asked:
        cover = TEXTS.predict(choices, "long")
        TEXTS.step("calculator")
    sizes = sizes_of(choices, DEFAULTS)
    if sizes is not None:
        with drawn, cover():
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
    labels, notes = TEXTS.labels("sizes"), TEXTS.labels("sizes-help")
    with frame.row():
        chosen = {
            name: choices.number(
                name, labels[name], 0, 99_999_999, default, width=125, help=notes.get(name)
            )
            for name, default in defaults.items()
        }
        chosen["bytes_each"] = choices.menu("bytes", "Bytes per number", BYTES, n_bytes, width=190)
    try:
        return Sizes(**{"n": 1, **chosen})
    except MhaVizError as error:
        st.error(plain(str(error)), icon=":material/calculate:")
        return None


def _growth(choices: Choices, sizes: Sizes) -> None:
    """Draw what grows with n, and what with its square."""
    made = [costs(replace(sizes, n=n, n_read=n)) for n in LONG]
    lines = {
        TEXTS("growth.linear"): [c.projections for c in made],
        TEXTS("growth.square"): [c.scores + c.mixing for c in made],
    }
    even = even_length(sizes)
    charts.lines(
        choices.key("growth"),
        {name: (LONG, counts) for name, counts in lines.items()},
        moments={f"n = {even:,}": float(even)} if even < LONG[-1] else {},
        more=dict(xaxis=ticks(LONG[::2])),
        table={"n": LONG, **lines, "bytes of all attention weights": [c.pattern for c in made]},
        **TEXTS.lines("growth-figure", sizes=sizes),
    )


def _bill(choices: Choices, sizes: Sizes) -> None:
    cost = costs(sizes)
    text = TEXTS("calculator.width.text", sizes=sizes)
    if sizes.n_kv_heads != sizes.n_heads:
        text += TEXTS("calculator.width.shared", sizes=sizes)
    st.markdown(text)
    tables = {"bill": _operations(sizes, cost), "memory": _memory(sizes, cost)}
    for column, (key, table) in zip(st.columns(2), tables.items(), strict=True):
        with column:
            st.dataframe(table, hide_index=True, width="content", key=choices.key(key))
    TEXTS.caption("calculator.even.text", even=even_length(sizes))
    counted = (cost.pattern + cost.activations) / (sizes.n_layers * sizes.bytes_each)
    TEXTS.markdown(
        "calculator.total.text", textbook=short(textbook_memory(sizes)), counted=short(counted)
    )


def _operations(sizes: Sizes, cost: Costs) -> pd.DataFrame:
    named = TEXTS.labels("operations")
    counts = [getattr(cost, name) for name in named]
    columns = {
        "one head": 1 / sizes.n_heads,
        "one layer": 1,
        f"{sizes.n_layers} layers": sizes.n_layers,
    }
    table = pd.DataFrame({"Operations": named.values()})
    return table.assign(**{name: [short(k * c) for c in counts] for name, k in columns.items()})


def _memory(sizes: Sizes, cost: Costs) -> pd.DataFrame:
    named = TEXTS.labels("memory")
    taken = vars(cost) | {"parameters": cost.parameters * sizes.bytes_each}
    columns = {"one layer": sizes.n_layers, f"{sizes.n_layers} layers": 1}
    table = pd.DataFrame({"Memory": named.values()})
    return table.assign(
        **{name: [of_bytes(taken[part] / k) for part in named] for name, k in columns.items()}
    )


def _heads(choices: Choices, sizes: Sizes) -> None:
    cover = TEXTS.predict(choices, "heads", d_model=sizes.d_model)
    counts = divisors(sizes.d_model, 64)
    made = [costs(replace(sizes, n_heads=h, n_kv_heads=0)) for h in counts]
    with cover():
        charts.lines(
            choices.key("by-heads"),
            {
                "operations": (counts, [c.layer / made[0].layer for c in made]),
                "attention weights": (counts, [c.pattern / made[0].pattern for c in made]),
            },
            more=dict(xaxis=ticks([h for h in counts if h & (h - 1) == 0 or len(counts) < 6])),
            table={
                "heads": counts,
                "d_k": [sizes.d_model // h for h in counts],
                "operations of a layer": [c.layer for c in made],
                "bytes of all attention weights": [c.pattern for c in made],
            },
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
    made = [costs(sizes), costs(replace(sizes, n=2 * sizes.n, n_read=2 * sizes.n_read))]
    rows = {
        "products, weights kept": [short(c.scores + c.mixing) for c in made],
        "products, fused": [short(c.scores + c.mixing) for c in made],
        "memory, weights kept": [of_bytes(c.pattern / sizes.n_layers) for c in made],
        "memory, fused": [of_bytes(c.row_sums / sizes.n_layers) for c in made],
        "key-value cache": [of_bytes(c.cache / sizes.n_layers) for c in made],
    }
    columns = [f"n = {n:,}" for n in (sizes.n, 2 * sizes.n)]
    table = pd.DataFrame.from_dict(rows, "index", columns=columns)
    table = table.rename_axis("One layer").reset_index()
    with cover():
        st.dataframe(table, hide_index=True, width="content", key=choices.key("fused"))
        TEXTS.markdown("fused.saved.text")


def _timing(choices: Choices) -> None:
    """Draw the measurements; no fragment, as in `draw`."""
    with frame.row():
        width = choices.slide("time_width", "d_model ", WIDTHS, 256, width=190)
        heads = choices.slide("time_heads", "Heads", HEADS, 8, width=190)
        longest = choices.slide("longest", "Longest text", measured.LENGTHS[3:], 2048, width=190)
        seed = choices.seed(width=160)
    lengths = [n for n in measured.LENGTHS if n <= longest]
    runs = [(n, width, heads) for n in lengths] + [(AT, width, h) for h in HEADS]
    settings, total = (width, heads, longest, seed), len(runs) * len(WAYS)
    run = partial(measured.measure, runs, seed)
    found: Measured | None = trained(
        choices, settings, total, run, name="start", label="Measure", keep=8
    )
    if found is None:
        TEXTS.caption("measured.wait")
        return
    _by_length(choices, lengths, Sizes(longest, width, heads), found.part(slice(len(lengths))))
    _by_heads(choices, width, found.part(slice(len(lengths), None)))


def _by_length(choices: Choices, lengths: list[int], sizes: Sizes, found: Measured) -> None:
    """Draw the times by length beside what the counts say, and their powers of n."""
    counted = [costs(replace(sizes, n=n, n_read=n)) for n in lengths]
    least = min(LARGE, lengths[-2])
    powers = [measured.exponent(lengths, found.fastest[way], least) for way in WAYS]
    speed = short(found.speed)
    TEXTS.markdown("measured.powers", least=least, powers=powers, speed=speed, found=found)
    expected = {
        "projections": [c.projections / found.speed for c in counted],
        "weights": [(c.scores + c.mixing) / found.speed for c in counted],
    }
    lines = {name: (lengths, found.seconds[way]) for way, name in WAYS.items()}
    counts = {f"count: {WAYS[way]}": (lengths, seconds) for way, seconds in expected.items()}
    charts.lines(
        choices.key("lengths"),
        lines | counts,
        bands=_bands(found, WAYS),
        more=dict(xaxis=ticks(lengths), yaxis=dict(dtick=1)),
        table={
            "n": lengths,
            **_columns(found, WAYS),
            **{f"{name} (seconds)": seconds for name, (_, seconds) in counts.items()},
            "bytes of the weights, measured": found.pattern,
            "bytes, calculated": [c.pattern for c in counted],
        },
        **TEXTS.lines("lengths-figure", sizes=sizes, found=found, lab=measured, speed=speed),
    )


def _by_heads(choices: Choices, width: int, found: Measured) -> None:
    """Draw the times of one d_model in more and more heads."""
    ways, kept = ("weights", "fused"), found.seconds["weights"]
    ms, sizes = ([part[0], part[-1]] for part in (kept, found.pattern))
    TEXTS.markdown(
        "by-heads.text",
        n=AT,
        operations=short(2 * costs(Sizes(AT, width, 1)).scores),
        heads=HEADS[-1],
        ms=[1000 * seconds for seconds in ms],
        ratio=ms[1] / ms[0],
        sizes=[of_bytes(size) for size in sizes],
    )
    charts.lines(
        choices.key("time-by-heads"),
        {WAYS[way]: (HEADS, found.seconds[way]) for way in ways},
        bands=_bands(found, ways),
        more=dict(xaxis=ticks(HEADS)),
        table={
            "heads": HEADS,
            "d_k": [width // h for h in HEADS],
            **_columns(found, ways),
            "bytes of the weights": found.pattern,
        },
        **TEXTS.lines("time-by-heads-figure", n=AT, width=width, found=found, lab=measured),
    )


def _bands(found: Measured, ways: Iterable[str]) -> dict[str, tuple[list[float], list[float]]]:
    return {WAYS[way]: (found.fastest[way], found.seconds[way]) for way in ways}


def _columns(found: Measured, ways: Iterable[str]) -> dict[str, list[float]]:
    kinds = {"seconds": found.seconds, "fastest": found.fastest}
    return {f"{kind}, {WAYS[way]}": times[way] for kind, times in kinds.items() for way in ways}


def _models(choices: Choices, checkpoint: tuple[str, str, str]) -> None:
    model = memory.model(*checkpoint)
    with frame.row():
        n = choices.slide("at", "At n tokens", LONG, 512, width=320)
        size = choices.menu("at_bytes", "Bytes per number ", BYTES, 2, width=190)
    found = rows(n, size, model)
    shares = [
        words.UNDEFINED
        if row.attention is None
        else f"{short(row.attention)} ({row.attention / row.parameters:.0%})"
        for row in found
    ]
    table = pd.DataFrame(found).assign(attention=shares)
    written = table.transform({"parameters": short, "pattern": of_bytes, "cache": of_bytes})
    names = TEXTS.labels("columns")
    names |= {"pattern": f"Weights at {n:,}", "cache": f"KV cache at {n:,}"}
    table = table.assign(**written).rename(columns=names)
    st.dataframe(table, hide_index=True, key=choices.key("models"))
    limits = ", ".join(f"{given.name} {given.n_ctx:,}" for given in PUBLISHED)
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
    for name, cost in ((name, costs(size)) for name, size in sizes.items()):
        values[f"{name}_pattern"] = of_bytes(cost.pattern)
        for part in ("head", "layer", "scores", "parameters"):
            values[f"{name}_{part}"] = short(getattr(cost, part))
    for belief in ("cheaper", "longer", "layers"):
        TEXTS.markdown(f"misread.{belief}", **values)
