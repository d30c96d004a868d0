"""The sentences that tasks are drawn from; our own, of words that children's stories have."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

_ADJECTIVES = "red blue green big small little happy sad old new good bad cold hot".split()
_NOUNS = "cat dog bird horse boy girl man woman king friend tree house car box door".split()
_NAMES = "Tom Tim Ben Sam Jack Jane Emma Bob Anna Lily Mia Max".split()
_VERBS = "saw found took made had wanted".split()
_SUBJECTS = [
    ("boy", "boys"),
    ("girl", "girls"),
    ("man", "men"),
    ("woman", "women"),
    ("child", "children"),
    ("friend", "friends"),
    ("animal", "animals"),
    ("tree", "trees"),
    ("bird", "birds"),
    ("dog", "dogs"),
    ("cat", "cats"),
]
_FORMS = [("was", "were"), ("is", "are")]
_SIGNS = [('"', '"'), ("(", ")"), ("[", "]")]


class Draw(NamedTuple):
    """A text as far as the answer, the corrupted one, both answers, and what stands around them.

    `space` is between text and answer; `after` follows it, which only masked models see.
    """

    clean: str
    corrupt: str
    right: str
    wrong: str
    after: str
    space: str = " "


def phrase(generator: random.Random) -> Draw:
    """A sentence said twice, as far as its object's adjective.

    Args:
        generator: of the random choices.
    """
    subject, right, wrong = generator.sample(_ADJECTIVES, 3)
    noun, thing = generator.sample(_NOUNS, 2)
    begin = f"The {subject} {noun} {generator.choice(_VERBS)} the"
    clean, corrupt = (f"{begin} {adjective} {thing}. {begin}" for adjective in (right, wrong))
    return Draw(clean, corrupt, right, wrong, f" {thing}.")


def agreement(generator: random.Random) -> Draw:
    """A subject, a clause about it, and the verb that must agree with the subject.

    Args:
        generator: of the random choices.
    """
    subjects, verbs = generator.choice(_SUBJECTS), generator.choice(_FORMS)
    clause = f"that {generator.choice(_NAMES)} {generator.choice(_VERBS)}"
    number = generator.randrange(2)
    clean, corrupt = (f"The {subjects[n]} {clause}" for n in (number, 1 - number))
    return Draw(clean, corrupt, verbs[number], verbs[1 - number], " here.")


def closing(generator: random.Random) -> Draw:
    """A bracket or a quote that was opened, as far as the sign that closes it.

    Args:
        generator: of the random choices.
    """
    (opened, right), (instead, wrong) = generator.sample(_SIGNS, 2)
    name, noun = generator.choice(_NAMES), generator.choice(_NOUNS)
    inside = f"the {generator.choice(_ADJECTIVES)} {noun}"
    clean, corrupt = (f"{name} {_VERBS[0]} {sign}{inside}" for sign in (opened, instead))
    return Draw(clean, corrupt, right, wrong, ".", space="")


TEMPLATES: dict[str, Callable[[random.Random], Draw]] = {
    "phrase": phrase,
    "agreement": agreement,
    "closing": closing,
}
