"""Text written step by step: against one pass over the whole, and transformers' own generation."""

import inspect

import pytest
import torch
import transformers as tf

import mha_viz as mv
from mha_viz.engine.attention_function import IMPLEMENTATION
from mha_viz.engine.cached_run import CACHE_ARGUMENTS
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError, AttentionUnavailableError
from mha_viz.prediction.generation import draw, sampling_probabilities, upcoming
from tests.engine.test_families import CAUSAL, SHORT, SINGLE, families, small_tokenizer
from tests.making import predicting
from tests.making.checkpoints import spread
from tests.making.comparing import ROUNDING, close, near

PROMPT = "The old man went to the"
WINDOWED = ("mistral", "gemma2", "gpt_oss", "gpt_neo")  # a window of 5, which the texts outgrow


@pytest.fixture(scope="module", params=families(sorted(CAUSAL)))
def family(request) -> AttentionModel:
    config = SINGLE[request.param]
    for attention in (IMPLEMENTATION, "eager"):
        try:
            network = tf.AutoModelForCausalLM.from_config(config, attn_implementation=attention)
            break
        except (ValueError, KeyError):
            assert attention == IMPLEMENTATION
    network.generation_config.eos_token_id = -1  # random weights would end every text at once
    tokenizer = small_tokenizer(template=False)
    return AttentionModel(spread(network), tokenizer, name=request.param)


def ids(writing: mv.Writing) -> list[int]:
    return [token.id for token in writing.tokens]


def same_as_one_pass(writing: mv.Writing) -> None:
    """All that a record holds, to 1e-5 of what one pass over the whole text leaves."""
    record, model = writing.record, writing.model
    keep = "all" if model.backend == "mha_viz" else ("pattern",)
    whole = model.trace_encoded(writing._encoded(), keep=keep)["self"]
    assert record.describe() == whole.describe()
    for name in ("pattern", "z", "query", "key", "value", "allowed", "sink"):
        mine, theirs = getattr(record, name), getattr(whole, name)
        assert (mine is None) == (theirs is None), name
        if mine is not None:
            mine, theirs = mine.float(), theirs.float()
            close(mine, theirs, atol=ROUNDING * max(1.0, float(theirs.abs().max())))


def test_the_weights_of_the_steps_are_those_of_one_pass(family):
    writing = mv.Writing(family, SHORT, temperature=1.5, seed=2)
    assert len(list(writing.steps(9))) == 9
    assert writing.record.pattern.std() > 0.01  # uniform attention would agree with anything
    same_as_one_pass(writing)
    writing.back()
    writing.back()
    same_as_one_pass(writing)
    other = writing.written[3].runners_up[0]
    writing.branch(writing.n_prompt + 3, other.id)
    assert len(writing) == 4 and writing.tokens[-1].id == other.id
    list(writing.steps(4))
    same_as_one_pass(writing)
    if family.name in WINDOWED:
        assert writing.record.allowed is not None


def test_without_temperature_it_is_transformers_own_text(family):
    writing = mv.Writing(family, SHORT)
    list(writing.steps(12))
    inputs = family.tokenizer(SHORT, return_tensors="pt")
    own = family.network.generate(
        input_ids=inputs["input_ids"],
        attention_mask=inputs["attention_mask"],
        max_new_tokens=12,
        do_sample=False,
        pad_token_id=0,
    )
    assert ids(writing) == own[0].tolist()


def test_gates_hold_in_every_step(gpt):
    gates = torch.ones(gpt.n_layers, gpt.n_heads)
    gates[1, 2:] = 0
    writing = mv.Writing(gpt, PROMPT, gates=gates)
    list(writing.steps(6))
    expected = mv.generate(gpt, PROMPT, gates, max_new_tokens=6)
    assert ids(writing) == [token.id for token in expected.tokens]
    close(writing.record.pattern, expected.record.pattern)
    assert writing.record.notes == expected.record.notes
    assert not writing.record.z[1, 2:].any()


def test_a_seed_gives_the_same_text_again_and_another_one_another(gpt):
    def written(seed: int | None) -> tuple[list[int], int]:
        writing = mv.Writing(gpt, PROMPT, temperature=1.3, seed=seed)
        list(writing.steps(8))
        return ids(writing), writing.seed

    (first, seed), (other, _) = written(None), written(1)
    assert first != other and written(seed) == (first, seed)
    assert mv.Writing(gpt, PROMPT).seed != mv.Writing(gpt, PROMPT).seed


def test_back_and_on_again_is_the_same_text(gpt):
    writing = mv.Writing(gpt, PROMPT, temperature=1.0, top_k=20, seed=5)
    list(writing.steps(6))
    before, probabilities = ids(writing), [token.probability for token in writing.written]
    sizes = []
    hook = gpt.network.register_forward_pre_hook(
        lambda _, args, given: sizes.append((given["input_ids"].shape[1], given["logits_to_keep"])),
        with_kwargs=True,
    )
    writing.back()
    writing.back(5)
    assert len(writing) == 0 and writing.text == PROMPT
    list(writing.steps(6))
    hook.remove()
    assert set(sizes) == {(1, 1)}  # one token and one row of logits at a time
    assert ids(writing) == before
    assert [token.probability for token in writing.written] == near(probabilities)


def test_each_token_has_its_probability_and_runners_up(gpt):
    writing = mv.Writing(gpt, PROMPT, temperature=0.5, top_k=4, seed=1)
    for _ in range(4):
        expected = mv.predict(gpt, writing.text, top_k=10, temperature=0.5)
        coming = writing.upcoming
        token = writing.step()
        assert token == coming and token.position == len(writing.tokens) - 1
        assert [one.id for one in token.candidates] == list(expected.ids)
        assert [one.text for one in token.candidates] == list(expected.candidates)
        found = [one.probability for one in token.candidates]
        assert found == near(expected.probabilities)
        kept = torch.tensor(expected.displayed)[:4].double()  # at the temperature, among the four
        drawn_with = [one.drawn_with for one in token.candidates]
        assert drawn_with[:4] == near((kept / kept.sum()).tolist())
        assert not any(drawn_with[4:])
        assert token.id == token.candidates[token.rank - 1].id and not token.branched
        assert len(token.runners_up) == 9 and token.id not in {o.id for o in token.runners_up}


def test_a_branch_keeps_what_stands_before_it(gpt):
    writing = mv.Writing(gpt, PROMPT)
    list(writing.steps(5))
    old = writing.written
    chosen = old[2].runners_up[0]
    token = writing.branch(old[2].position, chosen.id)
    assert token.branched and token.rank == 2 and token.drawn_with == 0
    assert token.probability == near(chosen.probability)
    assert [one.id for one in writing.written] == [old[0].id, old[1].id, chosen.id]
    assert writing.branch(len(writing.tokens), 300).id == 300 and len(writing) == 4
    writing.branch(writing.n_prompt, old[0].id)
    assert len(writing) == 1 and writing.step().id == old[1].id


def test_an_abandoned_step_is_completed_later(gpt):
    class Stop(Exception):
        pass

    def stop(done: int) -> None:
        if done == 2:
            raise Stop

    with pytest.raises(Stop):
        mv.Writing(gpt, PROMPT, on_layer=stop)
    for act in ("step", "back", "branch"):
        writing, plain = mv.Writing(gpt, PROMPT), mv.Writing(gpt, PROMPT)
        more = (plain.n_prompt, 300) if act == "branch" else ()
        for one in (writing, plain):
            list(one.steps(3))
        with pytest.raises(Stop):
            getattr(writing, act)(*more, on_layer=stop)
        getattr(plain, act)(*more)
        if act == "branch" and len(writing) == 0:  # abandoned before the token was chosen
            writing.branch(*more)
        assert ids(writing) == ids(plain)
        same_as_one_pass(writing)


def test_it_ends_where_the_model_does(gpt, monkeypatch):
    writing = mv.Writing(gpt, "cat " * 120)
    n = gpt.n_ctx - writing.n_prompt
    monkeypatch.setattr(gpt.network.generation_config, "eos_token_id", -1)
    assert len(list(writing.steps(128))) == n and writing.is_full and writing.finished
    assert writing.step() is None and len(writing.tokens) == gpt.n_ctx
    writing.back()
    assert not writing.finished
    writing.branch(gpt.n_ctx - 1, 300)
    assert writing.is_full


def test_what_comes_next_is_what_a_step_would_write(family):
    coming = upcoming(family, SHORT)
    step = mv.Writing(family, SHORT).upcoming
    assert coming.position == step.position
    assert [one.id for one in coming.candidates] == [one.id for one in step.candidates]
    shares = [one.probability for one in step.candidates]
    assert [one.probability for one in coming.candidates] == near(shares)


def test_an_end_token_is_not_written(gpt, monkeypatch):
    writing = mv.Writing(gpt, PROMPT)
    list(writing.steps(3))
    monkeypatch.setattr(gpt.network.generation_config, "eos_token_id", writing.upcoming.id)
    assert writing.finished and writing.step() is None and list(writing.steps(5)) == []
    assert len(writing) == 3
    with pytest.raises(ArgumentError, match="ends a text"):
        writing.branch(len(writing.tokens), writing.upcoming.id)
    writing.branch(len(writing.tokens), 300)  # it goes on by another token
    assert len(writing) == 4


def test_what_is_drawn_follows_the_chances():
    log_probs = torch.tensor([0.1, 0.6, 0.0, 0.3]).log()
    odds = sampling_probabilities(log_probs, 1.0, None)
    found = [draw(odds, seed, 7) for seed in range(2000)]
    shares = torch.bincount(torch.tensor(found), minlength=4) / len(found)
    assert (shares - odds).abs().max() < 0.04 and shares[2] == 0
    assert sampling_probabilities(log_probs, 0, None).tolist() == [0, 1, 0, 0]
    assert sampling_probabilities(log_probs, 1e-9, None).tolist() == [0, 1, 0, 0]
    assert sampling_probabilities(log_probs, 1e9, 2).tolist() == near([0, 0.5, 0, 0.5])
    assert len({draw(odds, 3, place) for place in range(50)}) > 1


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (dict(temperature=-1), ArgumentError, "temperature must be a finite number of 0 or more"),
        (dict(top_k=0), ArgumentError, r"top_k must be a whole number in 1\.\.\d+, got 0"),
        (dict(seed=-1), ArgumentError, r"seed must be a whole number in 0\.\.4294967295"),
    ],
)
def test_what_is_refused(gpt, options, error, message):
    with pytest.raises(error, match=message):
        mv.Writing(gpt, PROMPT, **options)


def test_steps_that_cannot_be_taken(gpt):
    writing = mv.Writing(gpt, PROMPT)
    with pytest.raises(ArgumentError, match="Nothing is written yet"):
        writing.back()
    for at, number, name in (
        (writing.n_prompt - 1, 5, "at"),
        (writing.n_prompt + 1, 5, "at"),
        (writing.n_prompt, gpt.d_vocab, "token_id"),
        (writing.n_prompt, -1, "token_id"),
    ):
        with pytest.raises(ArgumentError, match=f"{name} must be a whole number"):
            writing.branch(at, number)
    with pytest.raises(ArgumentError, match="n must be a whole number"):
        next(writing.steps(0))
    writing.step()
    with pytest.raises(ArgumentError, match=r"n must be a whole number in 1\.\.1, got 2"):
        writing.back(2)
    writing.back()
    assert len(writing) == 0


def test_models_that_cannot_write(gpt):
    with pytest.raises(ArgumentError, match="masked model, which fills gaps"):
        mv.Writing(mv.load("tiny-bert"), PROMPT)
    with pytest.raises(ArgumentError, match="fills all 128 positions"):
        mv.Writing(gpt, "cat " * 300)
    sizes = SINGLE["bert"].to_dict()
    network = tf.BertLMHeadModel(tf.BertConfig(**{**sizes, "is_decoder": False}))
    model = AttentionModel(network, small_tokenizer(template=False), name="both-sides")
    with pytest.raises(AttentionUnavailableError, match="what comes after them"):
        mv.Writing(model, SHORT)


@pytest.mark.parametrize("name", CACHE_ARGUMENTS)
def test_the_cache_is_passed_by_the_name_that_the_forward_has(gpt, monkeypatch, name):
    expected = [token.id for token in mv.Writing(gpt, PROMPT).steps(4)]
    forward = gpt.network.forward
    parameters = inspect.signature(forward).parameters
    (own,) = parameters.keys() & set(CACHE_ARGUMENTS)

    def renamed(*args, **inputs):
        assert name == own or own not in inputs
        return forward(*args, **{own if key == name else key: inputs[key] for key in inputs})

    renamed.__signature__ = inspect.Signature(
        [each.replace(name=name) if each.name == own else each for each in parameters.values()]
    )
    monkeypatch.setattr(gpt.network, "forward", renamed)
    assert [token.id for token in mv.Writing(gpt, PROMPT).steps(4)] == expected


def test_a_family_that_leaves_other_rows_is_refused(monkeypatch):
    """Rows that do not fit the text so far would be drawn at wrong places."""
    model = predicting.build("gpt2")
    monkeypatch.setattr(model, "n_layers", model.n_layers + 1)
    with pytest.raises(AttentionUnavailableError, match="does not read a cache"):
        mv.Writing(model, "the cat sat")
