"""Tasks: their texts, drawn alike again, vocabularies that lack words, and keys looked at."""

import pytest
import torch

import mha_viz as mv
from mha_viz.circuits.tasks.accuracy import KINDS, attended
from mha_viz.circuits.tasks.make_task import TASKS, make_task
from mha_viz.errors import ArgumentError, AttentionUnavailableError
from mha_viz.text.encoding import label_of
from tests.circuits.test_path_effect import predicting
from tests.making.families import build


@pytest.fixture(params=["gpt", "masked"])
def shipped(request):
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("name", TASKS)
def test_texts_are_as_long_and_differ_in_what_is_asked(shipped, name):
    task = make_task(shipped, name, 7)
    lengths = {len(one.input_ids) for one in task.further_texts}
    every = {tuple(one.input_ids) for one in task.further_texts}
    assert len(task.examples) == len(task.further_texts) == 7
    for clean, corrupt, place, right, wrong in task.examples:
        lengths |= {len(clean.input_ids), len(corrupt.input_ids), len(clean.tokens)}
        every.add(tuple(clean.input_ids))
        pairs = zip(clean.input_ids, corrupt.input_ids, strict=True)
        assert sum(a != b for a, b in pairs) == 1 and right != wrong
        if shipped.causal:
            assert place == len(clean.input_ids) - 1
        else:
            mask = shipped.tokenizer.mask_token_id
            for text in (clean, corrupt):
                assert [i for i, n in enumerate(text.input_ids) if n == mask] == [place]
        assert all(max(text.input_ids) < shipped.d_vocab for text in (clean, corrupt))
    assert len(lengths) == 1
    assert len(every) == 14


def test_random_tokens_are_labelled_as_in_a_record(shipped):
    """A byte-level vocabulary writes " Will" as one piece with a mark, which nobody types."""
    mask, labels = shipped.tokenizer.mask_token_id, list[str]()
    for one in make_task(shipped, "induction", 5).examples:
        own = [token for token in one.clean.tokens if not token.is_special and token.id != mask]
        assert [token.text for token in own] == [label_of(shipped.tokenizer, t.id) for t in own]
        labels += [token.text for token in own]
    assert labels and not any("Ġ" in label for label in labels)


def test_answers_are_what_the_templates_say(shipped):
    name = shipped.tokenizer.decode
    for clean, corrupt, place, right, wrong in make_task(shipped, "induction", 5).examples:
        for ids, answer in ((clean.input_ids, right), (corrupt.input_ids, wrong)):
            first = ids.index(ids[place - (not shipped.causal)])  # the last token before the answer
            assert first < place - 1 and ids[first + 1] == answer
    for clean, corrupt, _, right, wrong in make_task(shipped, "phrase", 5).examples:
        assert f" {name([right]).strip()} " in clean.text
        assert f" {name([wrong]).strip()} " in corrupt.text
    for clean, corrupt, _, right, wrong in make_task(shipped, "agreement", 9).examples:
        plural = {"were", "are"}
        many = ("s", "men", "children")
        for text, answer in ((clean, right), (corrupt, wrong)):
            subject = text.text.split()[1]
            assert subject.endswith(many) == (name([answer]).strip() in plural)
    closes = {"(": ")", "[": "]", '"': '"'}
    for clean, corrupt, _, right, wrong in make_task(shipped, "closing", 5).examples:
        for text, answer in ((clean, right), (corrupt, wrong)):
            opened = next(sign for sign in text.text.replace("[MASK]", "") if sign in closes)
            assert name([answer]).strip() == closes[opened]


def test_the_same_seed_draws_the_same(gpt):
    ids = [
        [(one.clean.input_ids, one.right) for one in make_task(gpt, "phrase", 5, seed).examples]
        for seed in (3, 3, 4)
    ]
    assert ids[0] == ids[1] != ids[2]


def test_what_cannot_be_asked(gpt, masked):
    with pytest.raises(ArgumentError, match="task"):
        make_task(gpt, "magic")
    for number in (3, 257, True):
        with pytest.raises(ArgumentError, match=r"must lie in 4\.\.256"):
            make_task(gpt, "phrase", number)
    for name in ("t5", "distilbert"):
        with pytest.raises(AttentionUnavailableError):
            make_task(build(name), "induction")
    task = mv.make_task(gpt, "induction", n_examples=4)
    with pytest.raises(ArgumentError, match="has no L9 H9"):
        attended(gpt, task, [(9, 9)])
    with pytest.raises(ArgumentError, match="tiny-gpt2"):
        attended(masked, task, [(0, 0)])
    model = predicting("gpt2")
    assert len(make_task(model, "induction", 5).examples) == 5
    for name in ("phrase", "agreement", "closing"):
        with pytest.raises(ArgumentError):
            make_task(model, name, 5)


HEADS = [(0, 5), (1, 0), (3, 2)]


def by_hand(model: mv.AttentionModel, task, kind: str, layer: int, head: int) -> list[tuple]:
    """Weight and share of keys of one kind, of each held-out text that has any."""
    model.network.set_attn_implementation("eager")
    found = []
    for one in task.held_out:
        ids = one.clean.input_ids
        with torch.no_grad():
            output = model.network(torch.tensor([ids]), output_attentions=True)
        row = output.attentions[layer][0, head, one.position].tolist()
        seen = one.position + 1 if model.causal else len(ids)
        at_hand = ids[one.position if model.causal else one.position - 1]
        here = one.position if model.causal else one.position - 1
        keys = {
            "right answer": [k for k in range(seen) if ids[k] == one.right],
            "wrong answer": [k for k in range(seen) if ids[k] == one.wrong],
            "after a copy": [
                k
                for k in range(1, seen)
                if ids[k - 1] == at_hand and k - 1 != here and k != one.position
            ],
            "previous": [one.position - 1],
            "first": [0],
            "itself": [one.position],
        }[kind]
        if keys:
            found.append((sum(row[k] for k in keys), len(keys) / seen))
    return found


@pytest.mark.parametrize("name", ["tiny-gpt2", "tiny-bert"])
@pytest.mark.parametrize("task", ["induction", "phrase"])
def test_weights_are_those_of_the_network(name: str, task: str) -> None:
    model, plain = mv.load(name, device="cpu"), mv.load(name, device="cpu")
    made = mv.make_task(model, task, n_examples=5)
    table = attended(model, made, HEADS)
    for layer, head in HEADS:
        own = table[(table["layer"] == layer) & (table["head"] == head)].set_index("kind")
        for kind in KINDS:
            found = by_hand(plain, made, kind, layer, head)
            assert (kind in own.index) == bool(found)
            if found:
                weight, uniform = torch.tensor(found, dtype=torch.float64).mean(0).tolist()
                assert own.loc[kind, "n"] == len(found)
                assert own.loc[kind, "weight"] == pytest.approx(weight, abs=1e-5)
                assert own.loc[kind, "uniform"] == pytest.approx(uniform)
