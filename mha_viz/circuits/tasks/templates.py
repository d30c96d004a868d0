"""Templates of tasks: pairs of texts with slots, and the words that fill them."""

import random
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import NamedTuple

from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError
from mha_viz.text.cleaning import visible
from mha_viz.text.tokens import tokenizer_errors


class Pair(NamedTuple):
    """A text in which a behaviour shows, one in which another does, and the answer of each.

    The answer belongs at [MASK]; behind the text where it holds none. A cell with {slots} is a
    template.
    """

    clean: str
    corrupt: str
    answer: str
    wrong: str

    @property
    def slots(self) -> list[str]:
        """The names of its slots, each once, in order."""
        return list(dict.fromkeys(slot[1] for slot in _SLOT.finditer("\n".join(self))))


MAX_SLOTS = 100  # of a template's four cells together, each time that one stands there
_SLOT = re.compile(r"\{(\w+)(?:=([^{}]*))?\}")  # {place}, or {place=park/store} with own words
_WORDS = tomllib.loads((files(__package__) / "words.toml").read_text("utf-8"))
VOCABULARIES: dict[str, list[str]] = _WORDS["vocabularies"]
ROWS = {name: tuple(Pair(*row) for row in rows) for name, rows in _WORDS["rows"].items()}


def agreement(generator: random.Random) -> Pair:
    """Draw a subject, a clause about it, and the verb that must agree with the subject."""
    subjects, verbs = generator.choice(_WORDS["subjects"]), generator.choice(_WORDS["forms"])
    name, verb = generator.choice(_WORDS["people"]), generator.choice(VOCABULARIES["verb"])
    clause = f"that {name} {verb} [MASK] here."
    number = generator.randrange(2)
    clean, corrupt = (f"The {subjects[n]} {clause}" for n in (number, 1 - number))
    return Pair(clean, corrupt, verbs[number], verbs[1 - number])


def closing(generator: random.Random) -> Pair:
    """Draw a bracket or a quote that was opened, as far as the sign that closes it."""
    (opened, right), (instead, wrong) = generator.sample(_WORDS["signs"], 2)
    name, noun = generator.choice(_WORDS["people"]), generator.choice(VOCABULARIES["noun"])
    inside = f"the {generator.choice(VOCABULARIES['adjective'])} {noun}[MASK]."
    clean, corrupt = (f"{name} saw {sign}{inside}" for sign in (opened, instead))
    return Pair(clean, corrupt, right, wrong)


DrawsPair = Callable[[random.Random], Pair]
DRAWN: dict[str, DrawsPair] = {"agreement": agreement, "closing": closing}


def filled(
    model: AttentionModel, row: Pair, extra_words: Mapping[str, Sequence[str]]
) -> tuple[DrawsPair, list[str]]:
    """Return what fills a template's slots at random, and the given words that it leaves out.

    Slots of one vocabulary get different words. A capital letter is a name; a number at the end
    tells two slots of a vocabulary apart. Words are those that the model holds as one token; those
    `given` by slot or vocabulary come before those of the row, and these before ours. Raises
    ArgumentError: a slot without words, or more slots than words, or than a text has.
    """
    n_slots = len(_SLOT.findall("\n".join(row)))
    if n_slots > MAX_SLOTS:
        raise ArgumentError(
            f"A template has at most {MAX_SLOTS} slots in its texts and answers, got {n_slots:,}."
        )
    row_words = {slot[1]: slot[2].split("/") for slot in _SLOT.finditer("\n".join(row)) if slot[2]}
    vocabularies = VOCABULARIES | row_words | dict(extra_words)
    kinds = {slot: _kind(slot, vocabularies) for slot in row.slots}
    words, left_out = dict[str, list[str]](), list[str]()
    for kind, n in Counter(kinds.values()).items():
        if kind not in vocabularies:
            raise ArgumentError(
                f"The slot {{{kind}}} has no words. Write {{{kind}=one/two/three}}, or take one of "
                f"{', '.join(VOCABULARIES)}."
            )
        offered = list(dict.fromkeys(word.strip() for word in vocabularies[kind]))
        words[kind] = [word for word in offered if _is_one_token(model, word)]
        if vocabularies[kind] is not VOCABULARIES.get(kind):
            left_out += [
                f"“{visible(word)}” of {{{kind}}} was left out: {model.name} splits it."
                for word in offered
                if word not in words[kind]
            ]
        if len(words[kind]) < n:
            raise ArgumentError(
                f"{model.name} has too few of the words of {{{kind}}} as single tokens: "
                f"{len(words[kind])} of {len(offered)}."
            )

    def draw(generator: random.Random) -> Pair:
        unused = {kind: generator.sample(choices, len(choices)) for kind, choices in words.items()}
        chosen = {slot: unused[kind].pop() for slot, kind in kinds.items()}
        return Pair(*(_SLOT.sub(lambda slot: chosen[slot[1]], cell) for cell in row))

    return draw, left_out


def _kind(slot: str, vocabularies: Mapping[str, Sequence[str]]) -> str:
    if slot in vocabularies:
        return slot
    return "name" if re.fullmatch("[A-Z]", slot) else slot.rstrip("0123456789") or slot


def _is_one_token(model: AttentionModel, word: str) -> bool:
    with tokenizer_errors("this word"):
        ids = model.tokenizer.encode(f" {word}", add_special_tokens=False) if word else []
    return len(ids) == 1 and ids[0] != model.tokenizer.unk_token_id
