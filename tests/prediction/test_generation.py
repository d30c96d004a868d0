"""Generation with heads changed: against the network's own, and against zeroed weights."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import mha_viz as mv
from mha_viz.engine.intervention import Intervention
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError, AttentionUnavailableError
from tests.making.comparing import close
from tests.making.families import build
from tests.making.predicting import gates_of, without

PROMPT = "The old man went to the"


def own(network, model: AttentionModel, n: int, **options) -> list[int]:
    inputs = model.tokenizer(PROMPT, return_tensors="pt")
    found = network.generate(**inputs, max_new_tokens=n, do_sample=False, pad_token_id=0, **options)
    return found[0].tolist()


def ids(generated) -> list[int]:
    return [token.id for token in generated.tokens]


@pytest.mark.parametrize("num_beams", [1, 3])
def test_under_ones_it_is_the_networks_own(gpt, num_beams):
    expected = own(gpt.network, gpt, 12, num_beams=num_beams)
    for gates in (None, torch.ones(gpt.n_layers, gpt.n_heads)):
        found = mv.generate(gpt, PROMPT, gates, max_new_tokens=12, num_beams=num_beams)
        assert ids(found) == expected
        assert found.text.startswith(PROMPT) and len(found.new_tokens) == 12
        assert found.n_prompt == len(found.tokens) - 12 and not found.finished


@pytest.mark.parametrize("num_beams", [1, 3])
def test_with_heads_off_it_is_that_of_zeroed_weights(gpt, num_beams):
    off = [(0, 1), (1, 2), (1, 3), (2, 0), (3, 5)]
    twin, gates = without(gpt, *off), gates_of(gpt, *off)
    expected = own(twin.network, gpt, 12, num_beams=num_beams)
    assert expected != own(gpt.network, gpt, 12, num_beams=num_beams)
    for options in (dict(gates=gates), dict(intervention=Intervention(off))):
        found = mv.generate(gpt, PROMPT, **options, max_new_tokens=12, num_beams=num_beams)
        assert ids(found) == expected
    plain = twin.trace(found.text)
    close(found.record.pattern, plain.pattern)


def test_uniform_attention_step_by_step_is_that_of_whole_texts(gpt):
    """Take a step with a cache: its one query must see all keys before it, and no others."""
    change = Intervention([(layer, head) for layer in range(4) for head in range(4)], "uniform")
    found = mv.generate(gpt, PROMPT, intervention=change, max_new_tokens=6)
    text = PROMPT
    for token in found.new_tokens:
        best = mv.predict(gpt, text, intervention=change, top_k=1)
        assert best.ids[0] == token.id
        text = found.text[: token.end]


def test_threads_do_not_mix(gpt):
    settings = []
    for layer in (None, 0, 2):
        gates = torch.ones(gpt.n_layers, gpt.n_heads)
        if layer is not None:
            gates[layer] = 0
        settings.append(gates)
    expected = [ids(mv.generate(gpt, PROMPT, gates, max_new_tokens=8)) for gates in settings]
    assert len({tuple(one) for one in expected}) == 3
    wrong, barrier = [], threading.Barrier(len(settings))  # all at once

    def work(i: int) -> None:
        barrier.wait()
        for _ in range(3):
            if ids(mv.generate(gpt, PROMPT, settings[i], max_new_tokens=8)) != expected[i]:
                wrong.append(i)

    with ThreadPoolExecutor(len(settings)) as pool:
        list(pool.map(work, range(len(settings))))  # what one raises is raised here
    assert wrong == []


def test_generation_leaves_the_model_as_it_was(gpt):
    before, config = mv.predict(gpt, PROMPT), gpt.network.generation_config.to_dict()
    mv.generate(gpt, PROMPT, torch.zeros(gpt.n_layers, gpt.n_heads), max_new_tokens=3)
    assert torch.equal(mv.predict(gpt, PROMPT).log_probs, before.log_probs)
    assert gpt.network.generation_config.to_dict() == config


def test_it_ends_where_the_model_does(gpt):
    found = mv.generate(gpt, "cat " * 50, max_new_tokens=128)
    assert len(found.tokens) <= 128
    if not found.finished:
        assert len(found.tokens) == 128 and "the text ends there" in found.record.notes[-1]


def test_an_end_token_is_not_part_of_the_text(gpt, monkeypatch):
    first = mv.generate(gpt, PROMPT, max_new_tokens=3)
    monkeypatch.setattr(gpt.network.generation_config, "eos_token_id", first.tokens[-1].id)
    found = mv.generate(gpt, PROMPT, max_new_tokens=10)
    assert found.finished and ids(found) == ids(first)[:-1]
    assert not any("the text ends there" in note for note in found.record.notes)


def test_tokens_that_do_not_read_back_are_labelled_by_themselves(gpt, monkeypatch):
    new = gpt.tokenizer.convert_tokens_to_ids(["Ġw", "al", "k", "ð", "Ġthe"])
    monkeypatch.setattr("mha_viz.prediction.generation._new_ids", lambda *_: new)
    found = mv.generate(gpt, PROMPT, max_new_tokens=5)
    assert ids(found)[-5:] == new
    assert [token.text for token in found.new_tokens] == ["w", "al", "k", "⟨F0⟩", "the"]
    words = [token.word for token in found.new_tokens]
    assert words[0] == words[1] == words[2] == words[3] - 1 == words[4] - 2
    found.record.merge_words()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(max_new_tokens=0), r"max_new_tokens must be a whole number in 1\.\.128, got 0"),
        (dict(num_beams=17), r"num_beams must be a whole number in 1\.\.16"),
        (dict(intervention=Intervention([(0, 0)], "mean")), "give reference="),
        (
            dict(intervention=Intervention([(0, 0)], "patch_z", source=PROMPT)),
            "still being written",
        ),
    ],
)
def test_what_is_refused(gpt, options, message):
    with pytest.raises(ArgumentError, match=message):
        mv.generate(gpt, PROMPT, **options)


def test_models_that_write_no_text(gpt):
    with pytest.raises(ArgumentError, match="masked model, which fills gaps"):
        mv.generate(mv.load("tiny-bert"), PROMPT)
    with pytest.raises(AttentionUnavailableError, match="no head that predicts"):
        mv.generate(build("llama"), "the cat")
    with pytest.raises(ArgumentError, match="fills all 128 positions"):
        mv.generate(gpt, "cat " * 300)
