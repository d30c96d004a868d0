"""Making of tasks: texts from templates or pairs, drawn for a model's vocabulary."""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from math import ceil

from mha_viz.circuits.tasks.pairs import Source, encode_pair, read_pairs
from mha_viz.circuits.tasks.task import Example, Task
from mha_viz.circuits.tasks.templates import DRAWN, ROWS, DrawsPair, Pair, filled
from mha_viz.core.arguments import check_index
from mha_viz.engine.head_changes import part_size
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError, TextError
from mha_viz.prediction.logits import check_predicts, mask_token_at
from mha_viz.reports.induction import own_tokens, plain_tokens, sample_text, with_tokens

INDUCTION = "induction"
TASKS = (INDUCTION, "phrase", "agreement", "closing", "ioi")
PAIRS, TEMPLATE = "pairs", "template"  # the names of tasks of one's own
PERIOD = 13  # random tokens that are repeated once
N_EXAMPLES = 32
LEAST_EXAMPLES, MOST_EXAMPLES = 4, 256  # two in each half, at least, for a standard error
_DRAWS = 30  # for each text that is wanted


def make_task(
    model: AttentionModel,
    source: Source,
    n_examples: int | None = None,
    seed: int = 0,
    *,
    words: Mapping[str, Sequence[str]] | None = None,
) -> Task:
    """Make a task: draw texts for a behaviour, or read pairs of one's own.

    - "induction": random tokens repeated once, up to one of the second copy: which one follows? In
      the corrupted text another token stands there in the first copy.
    - "phrase": a repeated sentence, "The old dog saw the red box. The old dog saw the": which
      word follows? Corrupted: another adjective in the first one.
    - "agreement": "The boys that Tom saw": "were" or "was"? Corrupted: the subject's other number.
    - "closing": a bracket or a quote that was opened: which sign closes it? Corrupted: another
      one was opened.
    - "ioi": "When Mary and John went to the store, John gave a drink to": "Mary" or "John"? It is
      the indirect-object identification of Wang et al. 2023, half of the texts with each order of
      the first two names (their ABBA and BABA). Corrupted: the subject's second mention is the
      other name, so that the answer flips (symmetric token replacement, Zhang & Nanda 2024); their
      own corrupted texts have three unrelated names.

    A pair of one's own is (clean, corrupt, answer, wrong answer): the answer is what follows the
    clean text, the wrong answer what follows the other. Both texts need the same number of tokens,
    answers are one token each, and a pair that does not fit is left out with a sentence that says
    why.

    A pair with {slots} is a template: ("When {A} and {B} went to the {place}, {B} gave a drink to",
    "When {A} and {B} went to the {place}, {A} gave a drink to", "{A}", "{B}"). Texts are drawn from
    it with words that the model holds as one token: names in {A}, {B} or {name}, and those of
    {place}, {object}, {noun}, {adjective}, {verb}. {drink=tea/milk/juice} brings its own.

    Masked models are asked at [MASK], with the rest of the text behind it; a causal model reads the
    text up to there. Without [MASK] the answer belongs behind the text.

    Args:
        model: a causal or masked model of one stack, through our attention function.
        source: one of `TASKS`; lines of four cells (tabs, else |, else commas between them, a line
            of names allowed); the Path of a CSV or TSV file; rows of four texts; or a DataFrame
            with columns clean, corrupt, answer, wrong. At most 256 pairs.
        n_examples: of a task that is drawn, how many texts, 4 to 256, no two alike, 32 if not
            given; as many again are drawn for the means. Of pairs, the first so many; else all. One
            half is to choose heads on, the other to test them.
        seed: of the random numbers.
        words: of a template's slots, before those known here.

    Returns:
        Task, with its pairs in two halves, and those left out with the reason.

    Raises:
        ArgumentError: an unknown task, too few or too many texts, a vocabulary that lacks what
            the texts are made of, or no pair that fits.
        AttentionUnavailableError: no prediction head, or heads that cannot be changed.

    Source: induction as Olsson et al. 2022; agreement as Linzen et al. 2016; "ioi" and templates
    as Wang et al. 2023.

    >>> import mha_viz as mv
    >>> model = mv.load("tiny-gpt2")
    >>> task = make_task(model, "agreement")
    >>> task, task.examples[0].clean.text
    (Task(agreement, 32 texts of ... tokens), 'The ... that ...')
    >>> task = make_task(model, [("The cat sat on", "The dog sat on", "his", "her"), ("A", "B")])
    >>> len(task.examples), task.left_out
    (1, ('Pair 2 was left out. It has 2 of 4 cells: expected a clean text, ...',))
    """
    if n_examples is not None:
        n_sizes = MOST_EXAMPLES - LEAST_EXAMPLES + 1
        check_index("n_examples", n_examples, n_sizes, first=LEAST_EXAMPLES)
    check_predicts(model.network)
    part_size(model, model.parts[0])
    if isinstance(source, str) and not re.search("[\t|,\n]", source):
        if source not in TASKS:
            raise ArgumentError(
                f"task must be one of {', '.join(TASKS)}, the Path of a file, or lines of a clean "
                f"text | a corrupt one | the answer | the wrong one; got {source!r:.80}."
            )
        return _built_in(model, source, n_examples or N_EXAMPLES, seed)
    pairs, left_out = read_pairs(source)
    if any(pair.slots for pair in pairs.values()):
        task = _from_templates(model, pairs, n_examples or N_EXAMPLES, seed, words or {})
    else:
        task = _from_pairs(model, pairs, n_examples or MOST_EXAMPLES, seed)
    task = replace(task, left_out=(*left_out, *task.left_out))
    if not task.examples:
        reasons = " ".join(task.left_out[:3]) or "None was given."
        raise ArgumentError(f"There is no pair that {model.name} can be asked. {reasons}")
    return task


def task_of(model: AttentionModel, task: Task | str) -> Task:
    """Return a task, made where it is a name; ArgumentError where it is another model's."""
    if isinstance(task, str):
        return make_task(model, task)
    task.check_model(model)
    if len(task.examples) < LEAST_EXAMPLES:
        raise ArgumentError(
            f"A test takes {LEAST_EXAMPLES} pairs at least, one half to choose heads on and one to "
            f"test them; this task has {len(task.examples)}."
        )
    return task


def _built_in(model: AttentionModel, name: str, n: int, seed: int) -> Task:
    if name == INDUCTION:
        draws = [_random_tokens(model)]
    elif name in DRAWN:
        draws = [partial(_drawn, model, DRAWN[name])]
    else:
        draws = [partial(_drawn, model, filled(model, row, {})[0]) for row in ROWS[name]]
    generator = random.Random(f"{name} {seed}")
    parts = [_different(draw, generator, 2 * ceil(n / len(draws)))[0] for draw in draws]
    drawn = _in_turns(parts)
    if len(drawn) < 2 * n:
        raise ArgumentError(
            f"{model.name} has too few of the words of “{name}” as single tokens: {len(drawn)} of "
            f"{2 * n} texts could be made. Ask for fewer, or choose “{INDUCTION}”, which takes any "
            "tokens."
        )
    further_texts = tuple(example.clean for example in drawn[n : 2 * n])
    return Task(name, model.name, seed, tuple(drawn[:n]), further_texts)


def _from_pairs(model: AttentionModel, pairs: Mapping[str, Pair], n: int, seed: int) -> Task:
    examples, left_out = dict[tuple[int, ...], Example](), list[str]()
    for label, pair in list(pairs.items())[:n]:
        try:
            example = Example(*encode_pair(model, pair))
        except (ArgumentError, TextError) as error:
            left_out.append(f"{label} was left out. {error}")
            continue
        if examples.setdefault(tuple(example.clean.input_ids), example) is not example:
            left_out.append(f"{label} was left out. Its clean text is that of a pair before it.")
    if len(pairs) > n:
        left_out.append(f"{len(pairs) - n:,} pairs behind the first {n} were left out.")
    return Task(PAIRS, model.name, seed, tuple(examples.values()), (), tuple(left_out))


def _from_templates(
    model: AttentionModel,
    rows: Mapping[str, Pair],
    n: int,
    seed: int,
    words: Mapping[str, Sequence[str]],
) -> Task:
    """Draw as many texts from each template, all of one length; and as many for the means."""
    draws, left_out = dict[str, Drawing](), list[str]()
    for label, row in list(rows.items())[:n]:
        try:
            if not row.slots:
                raise ArgumentError("It has no {slots}, and other pairs have: give it by itself.")
            draw, unused = filled(model, row, words)
        except ArgumentError as error:
            left_out.append(f"{label} was left out. {error}")
        else:
            left_out += unused
            draws[label] = partial(_drawn, model, draw)
    if len(rows) > n:
        left_out.append(f"{len(rows) - n:,} templates behind the first {n} were left out.")
    generator = random.Random(f"{TEMPLATE} {seed}")
    halves: tuple[list[list[Example]], list[list[Example]]] = [], []
    for label, drawing in draws.items():
        drawn, reason = _different(drawing, generator, 2 * ceil(n / len(draws)))
        if len(drawn) < 2:
            left_out.append(f"{label} was left out. {reason or 'It makes one text alone.'}")
            continue
        for half, part in zip(halves, (drawn[::2], drawn[1::2]), strict=True):
            half.append(part)
    examples, further = (_in_turns(half)[:n] for half in halves)
    texts = tuple(example.clean for example in further)
    return Task(TEMPLATE, model.name, seed, tuple(examples), texts, tuple(left_out))


Drawing = Callable[[random.Random], Example]  # ArgumentError or TextError: not in this vocabulary


def _in_turns(parts: Sequence[Sequence[Example]]) -> list[Example]:
    """Take one example of each part after the other, no clean text twice."""
    turns = (example for turn in zip_longest(*parts) for example in turn if example is not None)
    by_text = dict[tuple[int, ...], Example]()
    for example in turns:
        by_text.setdefault(tuple(example.clean.input_ids), example)
    return list(by_text.values())


def _different(draw: Drawing, generator: random.Random, n: int) -> tuple[list[Example], str]:
    """Draw so many examples, no two alike, all of the length of the most; and why others failed."""
    by_length: dict[int, dict[tuple[int, ...], Example]] = {}
    reason = ""
    for _ in range(_DRAWS * n):
        try:
            example = draw(generator)
        except (ArgumentError, TextError) as error:
            reason = str(error)
            continue
        ids = tuple(example.clean.input_ids)
        same_length = by_length.setdefault(len(ids), {})
        same_length.setdefault(ids, example)  # a text with two right answers is one text
        if len(same_length) == n:
            return list(same_length.values()), reason
    return list(max(by_length.values(), key=len).values()) if by_length else [], reason


def _drawn(model: AttentionModel, draw: DrawsPair, generator: random.Random) -> Example:
    return Example(*encode_pair(model, draw(generator)))


def _random_tokens(model: AttentionModel) -> Drawing:
    sample, tokens = sample_text(model, model.parts[0]), plain_tokens(model)
    start = own_tokens(sample).start
    n_around = len(sample.tokens) - (own_tokens(sample).stop - start)
    period = min(PERIOD, (model.n_ctx - n_around) // 2, len(tokens) - 1)
    masked = check_predicts(model.network) == "masked"

    def draw(generator: random.Random) -> Example:
        if period < 3:
            raise ArgumentError("There is no room for tokens that are repeated.")
        *repeated, wrong = generator.sample(tokens, period + 1)
        at = period // 2  # of the answer, in each copy
        right, end = repeated[at], period if masked else at
        texts = []
        for first in (right, wrong):
            ids = [*repeated[:at], first, *repeated[at + 1 :], *repeated[:end]]
            text = with_tokens(sample, ids, model)
            texts.append(mask_token_at(model, text, start + period + at) if masked else text)
        position = start + period + at - (not masked)
        return Example(texts[0], texts[1], position, right, wrong)

    return draw
