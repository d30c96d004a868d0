"""A lesson of 45 minutes: where it goes, what to ask there, what is often answered. Words only."""

from __future__ import annotations

from typing import NamedTuple


class Stop(NamedTuple):
    """One stop of the lesson.

    Args:
        page: its address in the app.
        minutes: that it takes.
        do: what the class does there.
        ask: what to ask before it is seen.
        often: what pupils often answer wrongly, and why.
        solution: what is right, with the numbers that show it.
    """

    page: str
    minutes: int
    do: str
    ask: str
    often: str
    solution: str


STOPS = (
    Stop(
        "lab-soft-lookup",
        10,
        "Let each pair of pupils calculate one row by hand, then type its numbers in and compare.",
        "Three keys have the same score. What are their weights? Now one of the scores grows by "
        "ln 2 ≈ 0.69: what are they then?",
        "“The largest score gets everything”, or weights in proportion to the scores. Softmax "
        "looks at differences of scores, and it never gives exactly 0.",
        "1/3 each; then 1/2, 1/4 and 1/4, because e to the power ln 2 is 2. What the three scores "
        "were does not matter, only how far they are apart.",
    ),
    Stop(
        "lab-two-places",
        10,
        "Predict first. Then train one head and two heads on the projector, and talk meanwhile.",
        "A token needs a number from two places, and must know which came from where. Why does "
        "one head that gives half of its weight to each not do?",
        "“It does, it sees both.” It sees them, but what it hands on is one vector.",
        "Half and half gives the mean of the two values: a 2 and a 4 come out like a 4 and a 2. "
        "Two heads write into places of their own, which W_O reads separately.",
    ),
    Stop(
        "lab-step-by-step",
        10,
        "Go through the steps of one head; before each one, the class says what shape comes.",
        "The model has d_model 256 and 8 heads, the text 10 tokens. What are the shapes of one "
        "head’s queries, of its weights, and of the concatenation?",
        "10 × 256 for the queries (as if each head had the full width), and 10 × 32 for the "
        "weights (which do not depend on the width at all).",
        "10 × 32 for the queries, 10 × 10 for the weights, 10 × 256 for the concatenation, since "
        "8 · 32 = 256.",
    ),
    Stop(
        "intervene",
        8,
        "Choose a head with one bright column in Explore. Everybody predicts; then switch it off.",
        "This head gives most of its weight to one word. Will the prediction change when the head "
        "is switched off?",
        "“Yes, it looks at the word that matters.” A weight says where a head looks, not what it "
        "writes, nor whether other heads write the same.",
        "It has to be tried, and that is the answer. Compare the change with those of other "
        "heads of the layer, also of some that look at nothing in particular.",
    ),
    Stop(
        "lab-find-the-head",
        7,
        "Hand out the game and play against the clock, two pupils to a screen.",
        "A head of a causal model gives 40 % of its weight to the token before, on a text of five "
        "tokens. Have you found a previous-token head?",
        "“Yes, 40 % is far more than chance.” Chance is not 1 in 5: early tokens see few others.",
        "No. Over the rows 2 to 5, equal weights give (1/2 + 1/3 + 1/4 + 1/5) / 4 ≈ 32 % already. "
        "Compare with the baseline, and with a longer text.",
    ),
)
