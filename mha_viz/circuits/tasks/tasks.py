"""Tasks that circuits are found for: texts from templates, drawn for a model's vocabulary."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from mha_viz.core.reprs import count
from mha_viz.engine.head_changes import part_size
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError
from mha_viz.prediction.logits import check_predicts
from mha_viz.prediction.masking import mask_token, mask_token_at
from mha_viz.reports.induction import own_tokens, plain_tokens, sample_text, with_tokens
from mha_viz.text.encoding import encode_texts
from mha_viz.text.tokens import Encoded

_ADJECTIVES = "red blue green big small little happy sad old new good bad cold hot".split()
_NOUNS = "cat dog bird horse boy girl man woman king friend tree house car box door".split()
_NAMES = "Tom Tim Ben Sam Jack Jane Emma Bob Anna Lily Mia Max".split()
_VERBS = "saw found took made had wanted".split()
_SUBJECTS = [
    pair.split("/")
    for pair in (
        "boy/boys girl/girls man/men woman/women child/children friend/friends animal/animals "
        "tree/trees bird/birds dog/dogs cat/cats"
    ).split()
]
_FORMS = [("was", "were"), ("is", "are")]
_SIGNS = [('"', '"'), ("(", ")"), ("[", "]")]


class Draw(NamedTuple):
    """A text as far as the answer, the corrupted one, both answers, and what surrounds them.

    `space` is between text and answer; `after` follows it, which only masked models see.
    """

    clean: str
    corrupt: str
    right: str
    wrong: str
    after: str
    space: str = " "


def phrase(generator: random.Random) -> Draw:
    """Draw a repeated sentence, as far as its object's adjective."""
    subject, right, wrong = generator.sample(_ADJECTIVES, 3)
    noun, thing = generator.sample(_NOUNS, 2)
    begin = f"The {subject} {noun} {generator.choice(_VERBS)} the"
    clean, corrupt = (f"{begin} {adjective} {thing}. {begin}" for adjective in (right, wrong))
    return Draw(clean, corrupt, right, wrong, f" {thing}.")


def agreement(generator: random.Random) -> Draw:
    """Draw a subject, a clause about it, and the verb that must agree with the subject."""
    subjects, verbs = generator.choice(_SUBJECTS), generator.choice(_FORMS)
    clause = f"that {generator.choice(_NAMES)} {generator.choice(_VERBS)}"
    number = generator.randrange(2)
    clean, corrupt = (f"The {subjects[n]} {clause}" for n in (number, 1 - number))
    return Draw(clean, corrupt, verbs[number], verbs[1 - number], " here.")


def closing(generator: random.Random) -> Draw:
    """Draw a bracket or a quote that was opened, as far as the sign that closes it."""
    (opened, right), (instead, wrong) = generator.sample(_SIGNS, 2)
    name, noun = generator.choice(_NAMES), generator.choice(_NOUNS)
    inside = f"the {generator.choice(_ADJECTIVES)} {noun}"
    clean, corrupt = (f"{name} {_VERBS[0]} {sign}{inside}" for sign in (opened, instead))
    return Draw(clean, corrupt, right, wrong, ".", space="")


TEMPLATES = {template.__name__: template for template in (phrase, agreement, closing)}


INDUCTION = "induction"
TASKS = (INDUCTION, *TEMPLATES)
PERIOD = 13  # random tokens that are repeated once
N_EXAMPLES = 32
LEAST_EXAMPLES, MOST_EXAMPLES = 4, 256  # two in each half, at least, for a standard error
_DRAWS = 30  # for each text that is wanted


class Example(NamedTuple):
    """A text in which the behaviour shows, and one of as many tokens in which another one does.

    `right` is what belongs at `place` in the clean text, `wrong` what belongs there in the other.
    """

    clean: Encoded
    corrupt: Encoded
    place: int
    right: int
    wrong: int


@dataclass(frozen=True, eq=False)
class Task:
    """Texts that ask one model for one behaviour, all of as many tokens."""

    name: str  # one of `TASKS`
    model: str  # its name
    seed: int  # by which the texts were drawn
    examples: tuple[Example, ...]  # no two of the same text
    others: tuple[Encoded, ...]  # further texts, for the means that take a head's place

    @property
    def to_choose_on(self) -> tuple[Example, ...]:
        """The first half of the examples: a search for heads sees these alone."""
        return self.examples[: len(self.examples) // 2]

    @property
    def held_out(self) -> tuple[Example, ...]:
        """The other half, on which heads are tested; no text of it is in the first."""
        return self.examples[len(self.examples) // 2 :]

    def __repr__(self) -> str:
        n = len(self.examples[0].clean.tokens)
        return f"Task({self.name}, {count(len(self.examples), 'text')} of {n} tokens)"


def make_task(
    model: AttentionModel, name: str, n_examples: int = N_EXAMPLES, seed: int = 0
) -> Task:
    """Draw texts for a behaviour, whose answers are one token each for the model at hand.

    - "induction": random tokens repeated once, up to one of the second copy: which one follows? In
      the corrupted text another token stands there in the first copy.
    - "phrase": a repeated sentence, "The old dog saw the red box. The old dog saw the": which
      word follows? Corrupted: another adjective in the first one.
    - "agreement": "The boys that Tom saw": "were" or "was"? Corrupted: the subject's other number.
    - "closing": a bracket or a quote that was opened: which sign closes it? Corrupted: another
      one was opened.

    Masked models are asked at [MASK], with the rest of the text behind it.

    Args:
        model: a causal or masked model of one stack, through our attention function.
        name: one of `TASKS`.
        n_examples: texts, 4 to 256, no two alike; as many again are drawn for the means. One half
            is to choose heads on, the other to test them.
        seed: of the random numbers.

    Raises:
        ArgumentError: an unknown task, too few or too many texts, or a vocabulary that lacks what
            the texts are made of.
        AttentionUnavailableError: no prediction head, or heads that cannot be changed.

    >>> import mha_viz as mv
    >>> task = make_task(mv.load("tiny-gpt2"), "agreement")
    >>> task, task.examples[0].clean.text
    (Task(agreement, 32 texts of ... tokens), 'The ... that ...')
    """
    if name not in TASKS:
        raise ArgumentError(f"task must be one of {', '.join(TASKS)}; got {name!r}.")
    if isinstance(n_examples, bool) or not LEAST_EXAMPLES <= n_examples <= MOST_EXAMPLES:
        raise ArgumentError(
            f"n_examples must lie in {LEAST_EXAMPLES}..{MOST_EXAMPLES}, got {n_examples!r}."
        )
    check_predicts(model.network)
    part_size(model, model.parts[0])
    generator = random.Random(f"{name} {seed}")
    draw = _random_tokens(model) if name == INDUCTION else _from_template(model, name)
    found = _different(draw, generator, 2 * n_examples)
    if len(found) < 2 * n_examples:
        raise ArgumentError(
            f"{model.name} has too few of the words of “{name}” as single tokens: {len(found)} of "
            f"{2 * n_examples} texts could be made. Ask for fewer, or choose “{INDUCTION}”, which "
            "takes any tokens."
        )
    return Task(
        name,
        model.name,
        seed,
        examples=tuple(found[:n_examples]),
        others=tuple(example.clean for example in found[n_examples:]),
    )


Drawing = Callable[[random.Random], Example | None]  # None: not in this vocabulary


def _different(draw: Drawing, generator: random.Random, n: int) -> list[Example]:
    """Draw so many examples, no two alike, all of the length of the most."""
    by_length: dict[int, dict[tuple[int, ...], Example]] = {}
    for _ in range(_DRAWS * n):
        example = draw(generator)
        if example is not None:
            ids = tuple(example.clean.input_ids)
            same_length = by_length.setdefault(len(ids), {})
            same_length.setdefault(ids, example)  # a text with two right answers is one text
            if len(same_length) == n:
                return list(same_length.values())
    return list(max(by_length.values(), key=len).values()) if by_length else []


def _random_tokens(model: AttentionModel) -> Drawing:
    sample, tokens = sample_text(model, model.parts[0]), plain_tokens(model)
    start = own_tokens(sample).start
    n_around = len(sample.tokens) - (own_tokens(sample).stop - start)
    period = min(PERIOD, (model.n_ctx - n_around) // 2, len(tokens) - 1)
    masked = check_predicts(model.network) == "masked"

    def draw(generator: random.Random) -> Example | None:
        if period < 3:
            return None
        *repeated, wrong = generator.sample(tokens, period + 1)
        at = period // 2  # of the answer, in each copy
        right, end = repeated[at], period if masked else at
        texts = []
        for first in (right, wrong):
            ids = [*repeated[:at], first, *repeated[at + 1 :], *repeated[:end]]
            text = with_tokens(sample, ids, model)
            texts.append(mask_token_at(model, text, start + period + at) if masked else text)
        place = start + period + at - (not masked)
        return Example(texts[0], texts[1], place, right, wrong)

    return draw


def _from_template(model: AttentionModel, name: str) -> Drawing:
    masked = check_predicts(model.network) == "masked"

    def draw(generator: random.Random) -> Example | None:
        drawn = TEMPLATES[name](generator)
        ends = [_ids_behind(model, drawn, answer) for answer in (drawn.right, drawn.wrong)]
        if any(len(end) != 1 for end in ends) or ends[0] == ends[1]:
            return None
        end = f"{drawn.space}{mask_token(model)}{drawn.after}" if masked else ""
        texts = [encode_texts(model.reader, one + end)[0] for one in (drawn.clean, drawn.corrupt)]
        if len(texts[0].input_ids) != len(texts[1].input_ids) or texts[0].n_unknown:
            return None
        place = len(texts[0].input_ids) - 1
        if masked:
            place = texts[0].input_ids.index(model.tokenizer.mask_token_id)
        return Example(texts[0], texts[1], place, ends[0][0], ends[1][0])

    return draw


def _ids_behind(model: AttentionModel, drawn: Draw, answer: str) -> list[int]:
    """Return the tokens of an answer where it stands; none where it holds an unknown one."""
    encode = model.tokenizer.encode
    before = encode(drawn.clean, add_special_tokens=False)
    whole = encode(drawn.clean + drawn.space + answer, add_special_tokens=False)
    if whole[: len(before)] != before or model.tokenizer.unk_token_id in whole[len(before) :]:
        return []
    return list(whole[len(before) :])
