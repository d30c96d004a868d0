"""A lesson of 45 minutes: where it goes, what to ask there, what is often answered. Words only."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from mha_viz.ui.session.views import DEFAULT


class Stop(NamedTuple):
    """One stop of the lesson.

    Args:
        page: its address in the app.
        minutes: that it takes.
        do: what the class does there.
        ask: what to ask before it is seen.
        often: what pupils often answer wrongly, and why.
        solution: what is right, with the numbers that show it.
        params: the case that question and solution are about, as parameters of the address.
    """

    page: str
    minutes: int
    do: str
    ask: str
    often: str
    solution: str
    params: Mapping[str, str] = MappingProxyType({})


TUTORIAL = (  # the text of docs/tutorial.md
    "In spring Captain Zorval opened the green box. At night Captain Zorval opened the green"
)
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
        "The model has d_model 256 and 8 heads, the text 21 tokens. What are the shapes of one "
        "head’s queries, of its weights, and of the concatenation?",
        "21 × 256 for the queries (as if each head had the full width), and 21 × 32 for the "
        "weights (which do not depend on the width at all).",
        "21 × 32 for the queries, 21 × 21 for the weights, 21 × 256 for the concatenation, since "
        "8 · 32 = 256.",
        {"model": DEFAULT.model, "text": DEFAULT.text},
    ),
    Stop(
        "intervene",
        8,
        "Open the page by the link above: tiny-gpt2 says how the sentence goes on. Everybody "
        "predicts; then click L1 H2 off and on again, then L0 H7.",
        "The model predicts “box” with 76 %. At the last token, L1 H2 gives 87 % of its weight to "
        "the first “box”, and L0 H7 gives all of its weight to the token before. Which of the two "
        "does the model need more to say “box”?",
        "“L1 H2, because it looks at the word that matters.” A weight says where a head looks, not "
        "what it writes, nor whether other heads write the same.",
        "L0 H7. With L1 H2 off, “box” falls to 50 % and stays the likeliest token: L1 H3 looks at "
        "the same place. With L0 H7 off it falls to 1 %: both of them find the place by what L0 H7 "
        "wrote, namely which token came before.",
        {"model": "tiny-gpt2", "text": TUTORIAL, "layer": "0", "head": "7"},
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
