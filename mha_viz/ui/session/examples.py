"""Sentences that teach something, and what to look for in them. Knows text only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Example:
    """A sentence worth looking at.

    Args:
        title: what it is called in the list.
        text, pair: what is typed for the user.
        model: the shipped model that shows it.
        head: where to look, as (layer, head); None where there is nothing to find.
        look: what to look for, and what not to conclude.
    """

    title: str
    text: str
    model: str
    head: tuple[int, int] | None
    look: str
    pair: str = ""


EXAMPLES = (
    Example(
        "A sentence in brackets",
        "The king (who was old and tired) smiled, said nothing, and went to bed.",
        "tiny-bert",
        (0, 2),
        "Which head finds the other bracket? L0 H2 leads from *)* back to *(*, and from *(* on to "
        "*)*, however many words are between them: no step that is always the same does that.",
    ),
    Example(
        "A noun and the word before its adjectives",
        "The tall woman opened a small window and saw her old friend.",
        "tiny-gpt2",
        (2, 6),
        "Which head leads from a noun back to its determiner? L2 H6: from *woman* to *The*, from "
        "*window* to *a*, from *friend* to *her*. How often it does is counted in the lab *What "
        "heads learn*.",
    ),
    Example(
        "A verb and its object",
        "The nurse gently washed his dirty hands.",
        "tiny-bert",
        (2, 3),
        "Which head leads on to the noun? L2 H3: from *washed* and from *his* to *hands*. It finds "
        "most objects, not all: see the lab *What heads learn*. Where it finds nothing it rests on "
        "[CLS].",
    ),
    Example(
        "The token before",
        "He sat on the bank of the river and thought about the money in the bank.",
        "tiny-bert",
        (0, 3),
        "Which head looks at the token before? L0 H3; and L0 H7 looks at the one after. They go by "
        "position: change the words, and the lines stay.",
    ),
    Example(
        "A phrase said twice",
        "In spring Captain Zorval opened the green box. At night Captain Zorval opened the "
        "green box",
        "tiny-gpt2",
        (1, 2),
        "Which head knows how it goes on? In the second half L1 H2 looks at what *followed* the "
        "same token the first time (induction): from *Captain* to *Zorval*.",
    ),
    Example(
        "Two sentences",
        "The weather was terrible all week.",
        "tiny-bert",
        (2, 7),
        "Where do heads rest? L2 H7 gives four fifths of its weight to [CLS] and [SEP]. Leave out "
        "special tokens, and see what it does with the rest.",
        pair="We stayed at home and read.",
    ),
    Example(
        "A sink at the start",
        "Once upon a time there was a little girl who lived in a village near the forest.",
        "tiny-gpt2",
        (1, 3),
        "Where does a head rest that has nothing to do? L1 H3 gives three quarters of its weight "
        "to the first token, which it always sees. Then leave the first token out.",
    ),
    Example(
        "What does “it” mean?",
        "The animal didn't cross the street because it was too tired.",
        "tiny-bert",
        None,
        "Which heads lead from *it* to *animal*? **None here**: no head of this model gives it a "
        "tenth of its weight, and over many sentences none finds whom a pronoun means more often "
        "than chance does (lab *What heads learn*, coreference). The example is famous for larger "
        "models; there, too, one line proves nothing.",
    ),
)


def example_head(model: str, text: str) -> tuple[int, int] | None:
    """Where to look in an example, on the model that shows it; None for any other text."""
    found = (one.head for one in EXAMPLES if (one.model, one.text) == (model, text))
    return next(found, None)
