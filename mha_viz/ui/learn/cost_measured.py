"""The measured part of lab 8 on screen: a button, progress, Stop, and times beside the count."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import streamlit as st

from mha_viz.core.amounts import of_bytes, short
from mha_viz.labs.cost import Sizes, costs
from mha_viz.labs.cost_measured import (
    LENGTHS,
    Measured,
    OnProgress,
    exponent,
    measure_heads,
    measure_lengths,
)
from mha_viz.plots.curves import ticks
from mha_viz.ui.lanes.work import Work
from mha_viz.ui.learn import charts, frame
from mha_viz.ui.learn.choices import Choices
from mha_viz.ui.widgets import progress

WIDTHS = (64, 128, 256, 512, 1024)
HEADS = (1, 2, 4, 8, 16, 32)
LONGEST = (512, 1024, 2048, 4096)
AT = 512  # tokens at which heads are compared
LARGE = 512  # n from which on the exponent is fitted: below, calls take longer than their work
NAMES = {"projections": "projections", "weights": "weights kept", "fused": "weights never kept"}
_HELD = 8  # results that a session remembers
Both = tuple[Measured, Measured]
Key = tuple[int, int, int, int]


def draw(choices: Choices) -> None:
    """Not in a fragment: see `cost.draw`."""
    frame.step(
        "Measured on this machine",
        "The same layer with random numbers, timed here: the four projections, attention with all "
        "its weights in memory, and attention by torch’s fused kernel, which never holds all of "
        "them at once. The values of the numbers make no difference.",
    )
    frame.predict(
        choices,
        "long",
        "A long text is made twice as long. How much longer do Q Kᵀ, softmax and weights × V take?",
        ["Twice as long", "About four times", "About eight times"],
        1,
        "Every token is compared with every other one: n². The projections only double. Measure it "
        "below; for short texts time grows more slowly, because every call takes a while to start.",
    )
    key = _settings(choices)
    held: dict[Key, Both] = st.session_state.setdefault("measured_cost", {})
    if key not in held:
        st.caption("Takes some seconds, longer for long texts and wide tokens.")
    if st.button("Measure", icon=":material/play_arrow:", key=choices.key("start"), type="primary"):
        held[key] = _measure(key, choices)
        if len(held) > _HELD:
            held.pop(next(iter(held)))
        st.rerun()
    if key in held:
        _by_length(choices, key, held[key][0])
        _by_heads(choices, key, held[key][1])


def _settings(choices: Choices) -> Key:
    with frame.row():
        width = choices.slide("time_width", "d_model ", WIDTHS, 256, width=190)
        heads = choices.slide("time_heads", "Heads", HEADS, 8, width=190)
        longest = choices.slide("longest", "Longest text", LONGEST, 2048, width=190)
        seed = choices.number("seed", "Seed", 0, 9_999, 0, width=110)
    return width, heads, longest, seed


def _measure(key: Key, choices: Choices) -> Both:
    """Both series, with progress."""
    width, heads, longest, seed = key
    lengths = [n for n in LENGTHS if n <= longest]

    def measure(on_progress: Callable[..., None]) -> Both:
        def telling(what: str, begin: float) -> OnProgress:
            return lambda done, total: on_progress(
                begin + done / total / 2, f"{what}: {done} of {total} runs"
            )

        return (
            measure_lengths(width, heads, lengths, seed, telling("Growing texts", 0.0)),
            measure_heads(width, AT, HEADS, seed, telling("More heads", 0.5)),
        )

    # Here, with the threads that pages have: another process gives way, and time is what is asked.
    work = Work(("cost", key), measure)
    found: Both = progress.done(work, choices.key("stop"), "Measuring …", lambda *said: said)
    return found


def _by_length(choices: Choices, key: Key, found: Measured) -> None:
    width, heads, *_ = key
    counted = [costs(Sizes(n, width, heads)) for n in found.places]
    expected = {
        "projections": [c.projections / found.speed for c in counted],
        "weights": [(c.scores + c.mixing) / found.speed for c in counted],
    }
    least = min(LARGE, found.places[-2])
    st.markdown(
        f"One large matrix product does **{short(found.speed)}** products a second here "
        f"({found.threads} threads). The lines named “count” are what the counted products would "
        "take at that speed; what lies above them is memory traffic, softmax, and how long a call "
        "takes to begin. How steeply time grows, as a power of n:"
    )
    st.dataframe(_powers(found, least), hide_index=True, width="content", key=choices.key("powers"))
    lines = {NAMES[way]: (found.places, found.seconds[way]) for way in NAMES}
    lines |= {f"count: {NAMES[way]}": (found.places, expected[way]) for way in expected}
    charts.lines(
        choices.key("lengths"),
        lines,
        title="One layer, by length of the text",
        x_title="tokens n",
        y_title="seconds",
        x_axis="log",
        y_axis="log",
        height=420,
        note=f"measured: d_model = {width}, {heads} heads; shaded: down to the fastest run",
        bands={NAMES[way]: (found.fastest[way], found.seconds[way]) for way in NAMES},
        more=dict(xaxis=ticks(found.places), yaxis=dict(dtick=1)),
        name="Time by length of the text",
        table={
            "n": found.places,
            **{f"seconds, {NAMES[way]}": found.seconds[way] for way in NAMES},
            **{f"fastest, {NAMES[way]}": found.fastest[way] for way in NAMES},
            **{f"count, {NAMES[way]} (seconds)": expected[way] for way in expected},
            "bytes of the weights, measured": found.pattern,
            "bytes, calculated": [c.pattern for c in counted],
        },
        caption=f"Measured medians · d_model {width}, {heads} heads, float32, {found.threads} "
        f"threads, {short(found.speed)} products a second",
        how_to_read="On these axes a power of n is a straight line: twice as steep for n² as for "
        "n. Other work on this machine makes lines rough.",
    )
    st.caption(
        f"The weights of {found.places[-1]:,} tokens are {of_bytes(found.pattern[-1])}, as "
        f"calculated ({of_bytes(counted[-1].pattern)}); where they are many, some heads are done "
        "at a time."
    )


def _powers(found: Measured, least: int) -> pd.DataFrame:
    return pd.DataFrame(
        {
            f"From n = {least:,} on": list(NAMES.values()),
            "median runs": [
                f"{exponent(found.places, found.seconds[w], least):.2f}" for w in NAMES
            ],
            "fastest runs": [
                f"{exponent(found.places, found.fastest[w], least):.2f}" for w in NAMES
            ],
            "the count says": ["1", "2", "2"],
        }
    )


def _by_heads(choices: Choices, key: Key, found: Measured) -> None:
    width, ways = key[0], ("weights", "fused")
    kept = found.seconds["weights"]
    operations = costs(Sizes(AT, width, 1)).scores * 2
    st.markdown(
        f"At {AT} tokens all of these take the same {short(operations)} products. Measured: "
        f"{1000 * kept[0]:.3g} ms with 1 head, {1000 * kept[-1]:.3g} ms with {found.places[-1]} "
        f"({kept[-1] / kept[0]:.2g} times). The weights grow from {of_bytes(found.pattern[0])} to "
        f"{of_bytes(found.pattern[-1])}, and softmax has to go through all of them."
    )
    charts.lines(
        choices.key("time-by-heads"),
        {NAMES[way]: (found.places, found.seconds[way]) for way in ways},
        title="More heads at the same d_model",
        x_title="heads h",
        y_title="seconds",
        x_axis="log",
        y_axis="log",
        height=320,
        note=f"measured: n = {AT}, d_model = {width}; shaded: down to the fastest run",
        bands={NAMES[way]: (found.fastest[way], found.seconds[way]) for way in ways},
        more=dict(xaxis=ticks(found.places)),
        name="Time by number of heads",
        table={
            "heads": found.places,
            "d_k": [width // h for h in found.places],
            **{f"seconds, {NAMES[way]}": found.seconds[way] for way in ways},
            "bytes of the weights": found.pattern,
        },
        caption=f"Measured medians · n {AT}, d_model {width}, float32, {found.threads} threads",
        how_to_read="If only products counted, the lines would be level.",
    )
