"""Faithfulness of heads: against hooks on the eager model, the search, the file."""

import itertools
import json
import math
import random
import re
import statistics
from contextlib import suppress
from dataclasses import replace

import pytest

from mha_viz.circuits.effects.faithfulness import faithfulness, find_heads
from mha_viz.circuits.effects.tested_heads import Faithfulness, Outcome
from mha_viz.circuits.tasks.make_task import make_task
from mha_viz.core.amounts import format_number
from mha_viz.core.json_file import HASH
from mha_viz.errors import ArgumentError, RecordError, WriteError
from tests.circuits.plain_paths import PlainPaths, put
from tests.circuits.test_path_effect import predicting
from tests.faults.disk import full_disk

CHOICE = [(0, 3), (1, 0), (2, 4)]


def plain_values(plain: PlainPaths, task, examples, kept: set) -> list[float]:
    """The behaviour by its definition, text by text, with every head outside `kept` replaced."""
    n, values = plain.d_head, []
    heads = itertools.product(range(len(plain.outputs)), range(plain.n_heads))
    replaced = [place for place in heads if place not in kept]
    for clean, corrupt, place, right, wrong in examples:
        alike = [text for text in task.further_texts if len(text.input_ids) == len(clean.input_ids)]
        texts = [corrupt] if task.stand_in == "corrupt" else alike
        runs = [plain.noted(text.input_ids)[0] for text in texts]
        means = [sum(layers) / len(runs) for layers in zip(*runs, strict=True)]
        hooks = []
        for layer, head in replaced:
            columns = slice(head * n, (head + 1) * n)
            z = means[layer][..., columns]
            hooks.append(put(plain.outputs[layer], z, columns, inputs=True))
        logits = plain.run(clean.input_ids, *hooks)[place]
        values.append(float(logits[right] - logits[wrong]))
    return values


SHORT = [
    ("the cat sat on", "the dog sat on", "mat", "cat"),
    ("the dog ran on", "the cat ran on", "mat", "dog"),
    ("a cat sat on", "a dog sat on", "the", "cat"),
    ("a dog ran on", "a mat ran on", "the", "dog"),
]
LONG = [(f"on the mat {one}", f"on the mat {other}", *answers) for one, other, *answers in SHORT]
MIXED = [row for rows in zip(SHORT, LONG, strict=True) for row in rows]


@pytest.mark.parametrize(("source", "stand_in"), [("induction", "mean"), (MIXED, "corrupt")])
@pytest.mark.parametrize("name", ["gpt2", "bert"])
def test_the_behaviour_is_that_of_hooks_on_the_eager_model(name, source, stand_in):
    """Put in the corrupted text of pairs of one's own, here of mixed lengths."""
    model = predicting(name, double=True)
    task = make_task(model, source, 5) if source == "induction" else make_task(model, source)
    found = faithfulness(model, task, CHOICE, n_random=2)
    assert found.stand_in == stand_in and not task.left_out
    plain = PlainPaths(model.network)
    every = {(layer, head) for layer in range(3) for head in range(5)}
    expected = {
        "whole": every,
        "nothing": set(),
        "alone": set(CHOICE),
        "missing": every - set(CHOICE),
    }
    middle = len(task.examples) // 2
    halves = {"held_out": task.examples[middle:], "chosen_on": task.examples[:middle]}
    for half, examples in halves.items():
        outcome = getattr(found, half)
        values = {
            field: plain_values(plain, task, examples, kept) for field, kept in expected.items()
        }
        for field, each in values.items():
            assert getattr(outcome, field) == pytest.approx(statistics.fmean(each), abs=1e-9)
        sizes = [one - none for one, none in zip(values["whole"], values["nothing"], strict=True)]
        error = statistics.stdev(sizes) / len(sizes) ** 0.5
        assert outcome.error == pytest.approx(error, abs=1e-9) and len(set(outcome)) == 5


def test_shares_are_of_what_all_heads_add_beside_random_sets(gpt):
    task, heads = make_task(gpt, "closing", 5), [(0, 0), (3, 0)]
    found = faithfulness(gpt, task, heads, n_random=7)
    one = found.held_out
    assert one.share(one.all_heads) == 1 and one.share(one.nothing) == 0 and not one.refusal
    table = found.table().set_index("heads")
    for row, setting in (("the choice alone", "alone"), ("all but the choice", "missing")):
        for column, half in (("share", found.held_out), ("share_chosen_on", found.chosen_on)):
            size = half.all_heads - half.nothing
            expected = (getattr(half, setting) - half.nothing) / size
            assert table[column][row] == pytest.approx(expected)
    mean = statistics.fmean(found.random_alone)
    assert table.behaviour["as many at random, alone"] == pytest.approx(mean)
    assert faithfulness(gpt, task, heads, n_random=7) == found


def test_random_sets_that_carry_as_much_are_counted(gpt):
    tested = faithfulness(gpt, make_task(gpt, "closing", 5), [(0, 0), (3, 0)], n_random=2)
    alone, missing = tested.held_out.alone, tested.held_out.missing
    tested = replace(
        tested,
        random_alone=tuple(alone + more for more in (0, 1, -1, 2, -2)),
        random_missing=tuple(missing + more for more in (1, -1, 2, 3, 4)),
    )
    assert re.findall(r"\d+", tested.beside_random) == ["3", "5", "1", "5"]


@pytest.mark.parametrize(
    ("whole", "nothing", "error", "given"),
    [
        (1.31, 0.22, 0.54, True),
        (1.31, 0.22, 0.55, False),  # less than twice its error
        (0.22, 0.31, 0.0, False),
        (0.31, 0.2, 0.0, True),
    ],
)
def test_a_share_of_nearly_nothing_is_refused_with_both_numbers(whole, nothing, error, given):
    outcome = Outcome(whole, nothing, 0.17, 0.3, error)
    assert (not outcome.refusal) == given == (not math.isnan(outcome.share(0.17)))
    for part in (f"{format_number(whole)} logits", format_number(nothing)):
        assert (part in outcome.refusal) != given


def test_find_heads_without_a_behaviour_is_refused(masked):
    task = make_task(masked, "agreement")
    found = faithfulness(masked, task, [(0, 1), (2, 3)], n_random=2)
    assert found.table().share.isna().all() and found.table().behaviour.notna().all()
    with pytest.raises(ArgumentError, match="tiny-bert"):
        find_heads(masked, task)


# -- the search ------------------------------------------------------------------------------------


def test_the_search_sees_one_half_of_the_texts_and_is_tested_on_the_other(gpt):
    task = make_task(gpt, "closing", 11)
    assert task.to_choose_on + task.held_out == task.examples and len(task.held_out) == 6
    found = find_heads(gpt, task)
    tested = faithfulness(gpt, task, found.heads, n_random=2)
    chosen_on = tested.chosen_on.share(tested.chosen_on.alone)
    assert found.share[len(found.heads)] == pytest.approx(chosen_on, abs=1e-4)
    assert found.held_out == pytest.approx(tested.held_out.share(tested.held_out.alone), abs=1e-4)
    assert found.held_out != found.share[len(found.heads)]
    other = make_task(
        gpt, "closing", 11, seed=1
    )  # what it is tested on changes nothing of the choice
    again = find_heads(gpt, replace(task, examples=(*task.to_choose_on, *other.held_out)))
    assert again.heads == found.heads and again.share == found.share
    assert again.held_out != found.held_out


def test_the_search_ranks_by_effect_and_takes_the_first(gpt):
    task = make_task(gpt, "closing", 5)
    found = find_heads(gpt, task, enough=0.5)
    effects = [float(found.effect[head]) for head in found.order]
    assert effects == sorted(effects, reverse=True) and len(set(found.order)) == 32
    n = len(found.heads)
    assert found.heads == found.order[:n] and found.share[n] >= 0.5 > max(found.share[:n])
    one = faithfulness(gpt, task, found.heads, n_random=2).chosen_on
    assert found.share[n] == pytest.approx(one.share(one.alone), abs=1e-4)
    alone = faithfulness(gpt, task, found.order[:1], n_random=2).chosen_on
    assert effects[0] == pytest.approx(alone.all_heads - alone.missing, abs=1e-4)


# -- the file --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(gpt):
    return faithfulness(gpt, make_task(gpt, "agreement", 4), [(3, 0), (0, 1)], n_random=2)


def test_a_file_opens_again(saved, tmp_path):
    saved.save(tmp_path / "circuit.json")
    assert Faithfulness.load(tmp_path / "circuit.json") == saved
    with full_disk(0):
        assert Faithfulness.from_bytes(saved.to_bytes(), "a file") == saved
    with pytest.raises(WriteError):
        saved.save(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 4},
        {"stand_in": "zero"},
        {"extra": 1},
        {"heads": [[9, 0]]},
        {"heads": [[0, 1], [0, 1]]},
        {"heads": "all"},
        {"held_out": [1, 2, 3, 4]},
        {"chosen_on": [1, 2, float("inf"), 3, 0]},
        {"seed": 10**30},
        {"model": "x" * 1000},
        {"random_alone": [1.0]},
    ],
)
def test_a_file_of_somebody_is_checked(saved, tmp_path, change):
    path = tmp_path / "circuit.json"
    saved.save(path)
    content = json.loads(path.read_text())
    del content[HASH]  # as files of before have none
    path.write_text(json.dumps(content))
    assert Faithfulness.load(path) == saved
    path.write_text(json.dumps(content | change))
    with pytest.raises(RecordError):
        Faithfulness.load(path)


def test_a_flipped_bit_of_a_file_is_refused(saved, tmp_path):
    sound, draw, opened = saved.to_bytes(), random.Random(3), 0
    for _ in range(200):
        damaged = bytearray(sound)
        damaged[draw.randrange(len(sound))] ^= 1 << draw.randrange(8)
        with suppress(RecordError):  # a space that became a tab says the same
            assert Faithfulness.from_bytes(bytes(damaged), "a file") == saved
            opened += 1
    assert opened < 20


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff\xfe", b"[" * 10**5, b" " * 10**6 + b"{}"])
def test_what_is_no_circuit_at_all(tmp_path, content):
    (tmp_path / "circuit.json").write_bytes(content)
    with pytest.raises(RecordError):
        Faithfulness.load(tmp_path / "circuit.json")
    with pytest.raises(RecordError):
        Faithfulness.load(tmp_path / "none.json")


# -- what cannot be --------------------------------------------------------------------------------


def test_what_cannot_be_tested(gpt, masked):
    task = make_task(gpt, "agreement", 4)
    every = [(layer, head) for layer in range(4) for head in range(8)]
    for heads in ([], every, [(0, 1), (0, 1)]):
        with pytest.raises(ArgumentError, match="head"):
            faithfulness(gpt, task, heads)
    with pytest.raises(ArgumentError, match="has no L4 H0"):
        faithfulness(gpt, task, [(4, 0)])
    with pytest.raises(ArgumentError, match="must be \\(layer, head\\) pairs"):
        faithfulness(gpt, task, [(0,)])
    with pytest.raises(ArgumentError, match="tiny-gpt2"):
        faithfulness(masked, task, [(0, 1)])
    with pytest.raises(ArgumentError, match="n_random"):
        faithfulness(gpt, task, [(0, 1)], n_random=1)
    for enough in (0, 1.5):
        with pytest.raises(ArgumentError, match="enough must lie"):
            find_heads(gpt, task, enough)
