"""Sentences that teach something, and what to look for in them. Knows text only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Example:
    """A sentence worth looking at.

    Args:
        title: what it is called in the list.
        text, pair: what is typed for the user.
        model: the shipped model that shows it best.
        look: what to look for, and what not to conclude.
    """

    title: str
    text: str
    model: str
    look: str
    pair: str = ""


EXAMPLES = (
    Example(
        "What does “it” mean?",
        "The animal didn't cross the street because it was too tired.",
        "tiny-bert",
        "Which heads lead from *it* to *animal*, and which to *street*? Change *tired* to *wide* "
        "and compare. A weight on *animal* is no proof that the model understood.",
    ),
    Example(
        "Subject far from its verb",
        "The cat that I saw yesterday in the old garden ran away.",
        "tiny-bert",
        "Does any head lead from *ran* back to *cat*, over the words in between? Sort the heads "
        "by distance.",
    ),
    Example(
        "A phrase said twice",
        "In spring Captain Zorval opened the green box. At night Captain Zorval opened the "
        "green box",
        "tiny-gpt2",
        "In the second half some heads look at what *followed* the same token the first time "
        "(induction), others at the same token itself (duplicate).",
    ),
    Example(
        "One word, two meanings",
        "He sat on the bank of the river and thought about the money in the bank.",
        "tiny-bert",
        "Compare the two rows of *bank*: where do heads give them different neighbours?",
    ),
    Example(
        "Who gave what to whom?",
        "When Mary and John went to the store, John gave a drink to",
        "tiny-gpt2",
        "The last token has to find the name that was said once only. Look at the bottom row.",
    ),
    Example(
        "Two sentences",
        "The weather was terrible all week.",
        "tiny-bert",
        "[SEP] and the segments: do heads cross from one sentence into the other, or rest on "
        "[SEP]? Leave out special tokens and see how much weight goes with them.",
        pair="We stayed at home and read.",
    ),
    Example(
        "A sentence in brackets",
        "The king (who was old and tired) smiled, said nothing, and went to bed.",
        "tiny-bert",
        "Do heads pair the brackets and the commas? Punctuation draws much weight in many models.",
    ),
    Example(
        "A sink at the start",
        "Once upon a time there was a little girl who lived in a village near the forest.",
        "tiny-gpt2",
        "Many heads of causal models rest on the first token when they have nothing to do. Sort by "
        "first-token weight, then leave the first token out.",
    ),
)
