"""Lab 3 on screen: pick, train, draw."""

from __future__ import annotations

from functools import partial

import streamlit as st
import torch

from mha_viz.core.showing import count
from mha_viz.labs import two_places as lab
from mha_viz.plots.curves import ticks
from mha_viz.ui.learn import charts, frame
from mha_viz.ui.learn.choices import Choices, among
from mha_viz.ui.learn.long_work import trained

STEPS = (100, 200, 400, 800, 1600)
N_SEEDS = 3
FEW, MANY = (1, 2), (4, 8, 16)  # heads that are trained together
NAMES = tuple(first + second for first in "bdfgklmn" for second in "aeio")
_POWERS = (1, 2, 4, 8, 16, 32, 64)
EXAMPLES = tuple(range(1, lab.N_EXAMPLES + 1))
Runs = dict[int, lab.Run]


def draw(choices: Choices) -> None:
    """One head against two, then up to sixteen.

    No fragment as a whole: a button in one does not end the run that it is drawn in.
    """
    choices.get("example", 1, among(EXAMPLES))  # stands further down; the link must not drop it
    n_steps, seed, d_model, n_values = _task(choices)
    choices.publish()  # training may take a while, and the link is true before it
    settings = (n_steps, seed, d_model, n_values)
    few = _train(choices, FEW, settings, "Train 1 head and 2 heads")
    if few is not None:
        _both_places(choices, few, settings)
        _example(choices, few)
    _why_more_hurts(choices)
    heads = tuple(n_heads for n_heads in MANY if n_heads <= d_model)
    if few is None:
        st.caption("Train 1 head and 2 heads above; then there is a button for more.")
        return
    many = _train(choices, heads, settings, f"Train {', '.join(map(str, heads))} heads as well")
    if many is not None:
        _all_heads(choices, few | many, settings)


def _train(
    choices: Choices, heads: tuple[int, ...], settings: tuple[int, ...], label: str
) -> Runs | None:
    n_steps, seed, d_model, n_values = settings
    return trained(
        choices,
        settings,
        n_steps * N_SEEDS * len(heads),
        partial(lab.learn, heads, n_steps, seed, N_SEEDS, d_model, n_values),
        name=f"train{heads[0]}",
        label=label,
    )


# -- one against two -----------------------------------------------------------------------------


def _task(choices: Choices) -> tuple[int, int, int, int]:
    frame.step(
        "A question about two places",
        f"A text has {lab.N_TOKENS} tokens; each has a name (one of {lab.N_NAMES}) and a value. "
        "The question names two of them, and the answer is **both values, in the order asked**. A "
        "token is name + value, added up as tokens and positions are. One softmax can look at both "
        "places, but W_V is the same for both: their values are added before anybody can see which "
        "is which.",
        r"\begin{gathered} x_j = \mathrm{name}_j + \mathrm{value}_j \\ "
        r"z = \textstyle\big(\sum_j a_j\, \mathrm{name}_j\big) W_V \\ "
        r"{} + \textstyle\big(\sum_j a_j\, \mathrm{value}_j\big) W_V \end{gathered}",
    )
    frame.predict(
        choices,
        "one",
        "One head as wide as the layer, 8 possible values. How often will both values be right?",
        ["Always, if it is trained long enough", "About half of the time", "About 1 time in 8"],
        2,
        "It learns to look at one place: that value is right, the other is guessed, and one guess "
        "in 8 is right. A head twice as wide does the same.",
    )
    with frame.row():
        n_steps = choices.slide("steps", "Steps", STEPS, 400, width=200)
        n_values = choices.slide("values", "Possible values", lab.VALUES, 8, width=150)
        d_model = choices.slide("width", "Width d_model", lab.WIDTHS, 16, width=150)
        seed = choices.seed(width=150)
    return n_steps, seed, d_model, n_values


def _settings_text(settings: tuple[int, ...]) -> str:
    n_steps, seed, d_model, n_values = settings
    return f"{n_steps} steps, seed {seed}, d_model {d_model}, {n_values} values"


def _both_places(choices: Choices, runs: Runs, settings: tuple[int, ...]) -> None:
    n_values = settings[-1]
    for n_heads, run in runs.items():
        values = torch.stack([run.first[:, -1], run.second[:, -1]])
        better, other = float(values.amax(0).mean()), float(values.amin(0).mean())
        st.markdown(
            f"**{_heads(n_heads)}** of width {run.d_head}, {run.n_parameters:,} parameters: one "
            f"value right {better:.0%}, the other {other:.0%}, "
            f"**both {run.both[:, -1].mean():.0%}** (a guess would be right "
            f"{100 / n_values:g}% of the time for each)."
        )
    charts.lines(
        choices.key("few"),
        {_heads(n): (run.steps, run.both.mean(0)) for n, run in runs.items()},
        bands={_heads(n): (run.both.amin(0), run.both.amax(0)) for n, run in runs.items()},
        levels={f"1/{n_values}": 1 / n_values},
        title="Both values right",
        note=_settings_text(settings),
        x_title="training steps",
        y_title="share of texts",
        name="One head and two heads",
        table=_curve_table(runs),
        caption=f"{N_SEEDS} runs each; {_settings_text(settings)}",
        how_to_read=f"Share of 1,000 unseen texts. Each line is the mean of {N_SEEDS} runs, its "
        "band reaches from the worst to the best. The dotted line: one value right, the other "
        "guessed.",
    )
    _shares(runs)


def _heads(n_heads: int) -> str:
    return count(n_heads, "head")


def _curve_table(runs: Runs) -> dict[str, object]:
    steps = next(iter(runs.values())).steps
    columns: dict[str, object] = {"step": steps}
    for n_heads, run in runs.items():
        columns |= {
            f"{_heads(n_heads)}, mean": run.both.mean(0),
            f"{_heads(n_heads)}, least": run.both.amin(0),
            f"{_heads(n_heads)}, most": run.both.amax(0),
        }
    return columns


def _shares(runs: Runs) -> None:
    st.markdown("Where each head looks: mean weights over 1,000 unseen texts, first of the runs.")
    with st.container(horizontal=True):
        for n_heads, run in runs.items():
            charts.weights(
                f"two-places-shares-{n_heads}",
                run.shares,
                _heads(n_heads),
                [f"head {i}" for i in range(n_heads)],
                ("first", "second", "others"),
                shape="",
                cell=62,
            )
    st.caption(
        "What reads the head’s output here is linear. An MLP, which is not, could tell 0.6 u + "
        "0.4 v from 0.4 u + 0.6 v: the statement is about a head, not about a whole transformer."
    )


@frame.part
def _example(choices: Choices, runs: Runs) -> None:
    number = choices.slide("example", "An unseen text", EXAMPLES, 1, width=240)
    with st.container(horizontal=True):
        for n_heads, run in runs.items():
            one = run.examples[number - 1]
            charts.weights(
                f"two-places-example-{n_heads}",
                one.pattern,
                _heads(n_heads),
                [f"head {i}" for i in range(n_heads)],
                [f"{NAMES[n]}={v}" for n, v in zip(one.names, one.values, strict=True)],
                shape="",
                marked=[(i, place) for i in range(n_heads) for place in one.places],
            )
    asked = f"Asked for **{_name(one, 0)}, then {_name(one, 1)}**"
    lines = [f"{asked}: the answer is {one.answer[0]}, {one.answer[1]}."]
    for n_heads, run in runs.items():
        given = run.examples[number - 1].given
        right = "right" if given == one.answer else "wrong"
        lines.append(f"{_heads(n_heads)}: {given[0]}, {given[1]} ({right}).")
    st.markdown(" ".join(lines))
    choices.publish()


def _name(one: lab.Example, which: int) -> str:
    return NAMES[one.names[one.places[which]]]


# -- more and more heads -------------------------------------------------------------------------


def _why_more_hurts(choices: Choices) -> None:
    frame.step(
        "Then why not sixteen heads?",
        "At the same width d_model, more heads are narrower heads: d_head = d_model / heads. A "
        "head’s scores are Q Kᵀ with d_head columns in Q and K, so their **rank is at most "
        "d_head**. To find one name among 32, scores must be large for the right key and small for "
        "all others, for every question; a head of width 1 can only put all tokens into one order, "
        "or turn it round.",
        r"\operatorname{rank}(Q K^\top) \le d_{\text{head}} = \frac{d_{\text{model}}}{h}",
    )
    frame.predict(
        choices,
        "many",
        "16 heads of width 1 against 2 heads of width 8, with the same number of parameters. Which "
        "layer answers better?",
        ["16 heads: they can look at more places", "2 heads", "Both the same"],
        1,
        "Two places are all that is asked for, and a head of width 1 cannot find a name among 32. "
        "Give the layer more width above, and many heads suffer less.",
    )


def _all_heads(choices: Choices, runs: Runs, settings: tuple[int, ...]) -> None:
    heads = list(runs)
    final = {n: run.both[:, -1] for n, run in runs.items()}
    best = max(heads, key=lambda n: float(final[n].mean()))
    st.markdown(
        f"Best here: **{_heads(best)}**, both values right in {final[best].mean():.0%} of the "
        f"texts; with {_heads(heads[-1])} it is {final[heads[-1]].mean():.0%}."
    )
    correct = "both values right"
    charts.lines(
        choices.key("many"),
        {correct: (heads, [float(final[n].mean()) for n in heads])},
        bands={
            correct: (
                [float(final[n].min()) for n in heads],
                [float(final[n].max()) for n in heads],
            )
        },
        title="Accuracy against heads",
        note=_settings_text(settings),
        x_title="heads",
        y_title="share of texts",
        x_axis="log",
        more=dict(xaxis=ticks(heads)),
        table={
            "heads": heads,
            "d_head": [runs[n].d_head for n in heads],
            "parameters": [runs[n].n_parameters for n in heads],
            **{f"run {i + 1}": [float(final[n][i]) for n in heads] for i in range(N_SEEDS)},
        },
        caption=f"{N_SEEDS} runs each; {_settings_text(settings)}",
        how_to_read=f"Mean of {N_SEEDS} runs after the last step; the band reaches from the worst "
        "to the best. Every layer has the same width and as many parameters.",
    )
    of_scores = [max(runs[n].score_ranks) for n in heads]
    of_weights = [max(runs[n].weight_ranks) for n in heads]
    widths = [runs[n].d_head for n in heads]
    charts.lines(
        choices.key("rank"),
        {
            "scores Q Kᵀ": (heads, of_scores),
            "weights, after softmax": (heads, of_weights),
            "d_head": (heads, widths),
        },
        title="Largest rank of a head",
        x_title="heads",
        y_title="numerical rank",
        x_axis="log",
        y_axis="log",
        more=dict(xaxis=ticks(heads), yaxis=ticks(_POWERS)),
        name="Rank of scores and weights",
        table={
            "heads": heads,
            "d_head": widths,
            "largest rank of scores": of_scores,
            "largest rank of weights": of_weights,
        },
        caption=f"64 questions × 64 tokens, float64; {_settings_text(settings)}",
        how_to_read="The rank of the scores never exceeds d_head: the two lines lie on each "
        "other. Softmax is not linear and raises the rank again (64 is the most here), but it "
        "cannot bring back an order of the tokens that the scores do not have.",
    )
