"""Lab 8's comparisons: two texts, a fused kernel, this machine, and a recurrent network."""

from collections.abc import Callable
from dataclasses import replace

import pandas as pd
import streamlit as st

from mha_viz.core.amounts import of_bytes, short
from mha_viz.learn.frame import charts, frame
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.cost import measured, recurrence
from mha_viz.learn.labs.cost.measured import Measured, OnProgress, exponent
from mha_viz.learn.labs.cost.numbers import Sizes, costs
from mha_viz.learn.labs.cost.recurrence import KERNEL, KINDS, WIDTH, Reached
from mha_viz.plots.curves import ticks
from mha_viz.ui.jobs.ticket import Work
from mha_viz.ui.widgets.messages import progress

TEXTS = read_texts(__package__)

NAMES = {"attention": "attention", "recurrent": "RNN", "convolution": "convolution"}
PADDED = (64, 512)  # two texts of one batch
WIDTHS = (64, 128, 256, 512, 1024)
HEADS = (1, 2, 4, 8, 16, 32)
LONGEST = (512, 1024, 2048, 4096)
AT = 512  # tokens at which heads are compared
LARGE = 512  # n from which on the exponent is fitted: below, calls take longer than their work
WAYS = {"projections": "projections", "weights": "weights kept", "fused": "weights never kept"}
Both = tuple[Measured, Measured]
Key = tuple[int, int, int, int]


def two_texts(choices: Choices, sizes: Sizes) -> None:
    """Draw the section on cross attention and batches."""
    TEXTS.step("two-texts")
    TEXTS.predict(choices, "batch")
    kind = "self-attention" if sizes.n_read == sizes.n else "cross attention"
    few, many = PADDED
    useful, padded = few**2 + many**2, 2 * many**2
    values = {"pairs": sizes.batch * sizes.n * sizes.n_read, "kind": kind, "sizes": sizes}
    values["bytes"] = of_bytes(costs(sizes).pattern / sizes.n_layers)
    padding = dict(few=few, many=many, useful=useful, padded=padded, ratio=padded / useful)
    TEXTS.markdown("two-texts.now.text", **values, **padding)


def fused(choices: Choices, sizes: Sizes) -> None:
    """Draw the section on FlashAttention."""
    TEXTS.step("fused")
    TEXTS.predict(choices, "flash")
    made = [costs(sizes), costs(replace(sizes, n=2 * sizes.n, n_read=2 * sizes.n_read))]
    rows = {
        "products, weights kept": [short(c.scores + c.mixing) for c in made],
        "products, fused": [short(c.scores + c.mixing) for c in made],
        "memory, weights kept": [of_bytes(c.pattern / sizes.n_layers) for c in made],
        "memory, fused": [of_bytes(c.row_sums / sizes.n_layers) for c in made],
        "key-value cache": [of_bytes(c.cache / sizes.n_layers) for c in made],
    }
    columns = [f"n = {n:,}" for n in (sizes.n, 2 * sizes.n)]
    table = pd.DataFrame(list(rows.values()), columns=columns)
    table.insert(0, "One layer", list(rows))
    st.dataframe(table, hide_index=True, width="content", key=choices.key("fused"))
    TEXTS.markdown("fused.saved.text")


def timing(choices: Choices) -> None:
    """Draw the measurements; no fragment, as in `cost.page.draw`."""
    TEXTS.step("measured")
    TEXTS.predict(choices, "long")
    with frame.row():
        width = choices.slide("time_width", "d_model ", WIDTHS, 256, width=190)
        heads = choices.slide("time_heads", "Heads", HEADS, 8, width=190)
        longest = choices.slide("longest", "Longest text", LONGEST, 2048, width=190)
        seed = choices.number("seed", "Seed", 0, 9_999, 0, width=110)
    key = width, heads, longest, seed
    found: Both | None = progress.results("cost").get(key)
    if found is None:
        TEXTS.caption("measured.wait.text")
    if st.button("Measure", icon=":material/play_arrow:", key=choices.key("start"), type="primary"):
        progress.keep("cost", key, _measure(key, choices))
        st.rerun()
    if found is not None:
        _by_length(choices, key, found[0])
        _by_heads(choices, key, found[1])


def _measure(key: Key, choices: Choices) -> Both:
    width, heads, longest, seed = key
    lengths = [n for n in measured.LENGTHS if n <= longest]

    def measure(on_progress: Callable[..., None]) -> Both:
        def phase(what: str, begin: float) -> OnProgress:
            return lambda done, total: on_progress(
                begin + done / total / 2, f"{what}: {done} of {total} runs"
            )

        return (
            measured.measure_lengths(width, heads, lengths, seed, phase("Growing texts", 0.0)),
            measured.measure_heads(width, AT, HEADS, seed, phase("More heads", 0.5)),
        )

    # Here, with the threads that pages have: another process gives way, and time is what is asked.
    work = Work(("cost", key), measure)
    found: Both = progress.done(work, choices.key("stop"), "Measuring …", lambda *line: line)
    return found


def _by_length(choices: Choices, key: Key, found: Measured) -> None:
    width, heads, *_ = key
    counted = [costs(Sizes(n, width, heads)) for n in found.places]
    expected = {
        "projections": [c.projections / found.speed for c in counted],
        "weights": [(c.scores + c.mixing) / found.speed for c in counted],
    }
    least = min(LARGE, found.places[-2])
    TEXTS.markdown("by-length.speed", speed=short(found.speed), threads=found.threads)
    st.dataframe(_powers(found, least), hide_index=True, width="content", key=choices.key("powers"))
    lines = {WAYS[way]: (found.places, found.seconds[way]) for way in WAYS}
    lines |= {f"count: {WAYS[way]}": (found.places, expected[way]) for way in expected}
    charts.lines(
        choices.key("lengths"),
        lines,
        bands={WAYS[way]: (found.fastest[way], found.seconds[way]) for way in WAYS},
        more=dict(xaxis=ticks(found.places), yaxis=dict(dtick=1)),
        table={
            "n": found.places,
            **{f"seconds, {WAYS[way]}": found.seconds[way] for way in WAYS},
            **{f"fastest, {WAYS[way]}": found.fastest[way] for way in WAYS},
            **{f"count, {WAYS[way]} (seconds)": expected[way] for way in expected},
            "bytes of the weights, measured": found.pattern,
            "bytes, calculated": [c.pattern for c in counted],
        },
        **TEXTS.lines(
            "lengths-figure", width=width, heads=heads, found=found, speed=short(found.speed)
        ),
    )
    sizes = of_bytes(found.pattern[-1]), of_bytes(counted[-1].pattern)
    TEXTS.caption("by-length.weights", n=found.places[-1], sizes=sizes)


def _powers(found: Measured, least: int) -> pd.DataFrame:
    def slopes(times: dict[str, list[float]]) -> list[str]:
        return [f"{exponent(found.places, times[way], least):.2f}" for way in WAYS]

    return pd.DataFrame(
        {
            f"From n = {least:,} on": list(WAYS.values()),
            "median runs": slopes(found.seconds),
            "fastest runs": slopes(found.fastest),
            "the count says": ["1", "2", "2"],
        }
    )


def _by_heads(choices: Choices, key: Key, found: Measured) -> None:
    width, ways = key[0], ("weights", "fused")
    kept = found.seconds["weights"]
    TEXTS.markdown(
        "by-heads.text",
        n=AT,
        operations=short(costs(Sizes(AT, width, 1)).scores * 2),
        heads=found.places[-1],
        ms=(1000 * kept[0], 1000 * kept[-1]),
        ratio=kept[-1] / kept[0],
        sizes=(of_bytes(found.pattern[0]), of_bytes(found.pattern[-1])),
    )
    charts.lines(
        choices.key("time-by-heads"),
        {WAYS[way]: (found.places, found.seconds[way]) for way in ways},
        bands={WAYS[way]: (found.fastest[way], found.seconds[way]) for way in ways},
        more=dict(xaxis=ticks(found.places)),
        table={
            "heads": found.places,
            "d_k": [width // h for h in found.places],
            **{f"seconds, {WAYS[way]}": found.seconds[way] for way in ways},
            "bytes of the weights": found.pattern,
        },
        **TEXTS.lines("time-by-heads-figure", n=AT, width=width, threads=found.threads),
    )


@frame.part
def against_rnn(choices: Choices) -> None:
    """Draw path lengths and operations, as in table 1 of Vaswani et al."""
    TEXTS.step("against-rnn")
    TEXTS.predict(choices, "path")
    width = choices.slide("rnn_width", "Width d", (4, 16, 64), WIDTH, width=200)
    found, lengths = _reached(width), recurrence.LENGTHS
    charts.lines(
        choices.key("paths"),
        {NAMES[kind]: (lengths, [r.path for r in found[kind]]) for kind in KINDS},
        more=dict(xaxis=ticks(lengths)),
        table=_table(found, width),
        **TEXTS.lines("paths-figure", width=width, kernel=KERNEL),
    )
    most = found["attention"][-1].products / found["recurrent"][-1].products
    last = {kind: rows[-1] for kind, rows in found.items()}
    TEXTS.markdown("against-rnn.found.text", n=lengths[-1], width=width, most=most, **last)


def _table(found: dict[str, list[Reached]], width: int) -> dict[str, list[int]]:
    columns: dict[str, list[int]] = {"n": list(recurrence.LENGTHS)}
    for kind, rows in found.items():
        columns |= {
            f"path, {NAMES[kind]}": [row.path for row in rows],
            f"in turn, {NAMES[kind]}": [row.in_turn for row in rows],
            f"products, {NAMES[kind]}": [row.products for row in rows],
            f"formula, {NAMES[kind]}": [recurrence.formula(kind, n, width) for n in columns["n"]],
        }
    return columns


@st.cache_data(max_entries=3, show_spinner="Walking through the graphs …")
def _reached(width: int) -> dict[str, list[Reached]]:
    return {
        kind: [recurrence.reached(kind, n, width) for n in recurrence.LENGTHS] for kind in KINDS
    }
