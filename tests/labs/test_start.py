"""The numbers of "Start here", beside transformers' own model in float64 and hooks on it."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import GPT2LMHeadModel

import mha_viz as mv
from mha_viz.errors import TextError
from mha_viz.learn.start import numbers, story
from mha_viz.reports.report import KEEP, report
from mha_viz.web.payload import decode, unpack

ROOT = Path(__file__).parents[2]
TEXT = "Tom had a red ball. Tom threw his red"


@pytest.fixture(scope="module")
def model():
    return mv.load(numbers.MODEL)


@pytest.fixture(scope="module")
def found(model):
    return numbers.follow(model, TEXT)


@pytest.fixture(scope="module")
def plain():
    """The same checkpoint with the library's own attention."""
    return GPT2LMHeadModel.from_pretrained(
        ROOT / "models" / numbers.MODEL, dtype=torch.float64, attn_implementation="eager"
    ).eval()


@pytest.fixture(scope="module")
def ids(found):
    return torch.tensor([[token.id for token in found.tokens]])


def run(plain, ids, **hooked):
    """Run it, with a hook on the input of each named layer's output matrix."""
    handles = [
        plain.transformer.h[int(layer[1:])].attn.c_proj.register_forward_pre_hook(hook)
        for layer, hook in hooked.items()
    ]
    try:
        with torch.no_grad():
            return plain(ids, output_hidden_states=True, output_attentions=True)
    finally:
        for handle in handles:
            handle.remove()


def near(made, theirs, tolerance=2e-4):
    torch.testing.assert_close(made.double(), theirs, rtol=tolerance, atol=tolerance)


def test_streams_weights_and_probabilities_are_the_models_own(found, plain, ids):
    output = run(plain, ids)
    *streams, final = output.hidden_states  # the last one is behind the norm
    near(found.streams[:-1], torch.cat(streams))
    near(plain.transformer.ln_f(found.streams[-1].double()), final[0])
    near(found.final, final[0, -1])
    near(found.pattern, torch.cat(output.attentions))
    logits = output.logits[0, -1]
    guesses = found.guesses
    near(guesses.logits, logits[list(guesses.ids)])
    near(guesses.with_all, logits.softmax(-1)[list(guesses.ids)])
    assert guesses.log_total == pytest.approx(float(logits.logsumexp(-1)), abs=1e-4)
    assert guesses.ids[: numbers.N_GUESSES] == tuple(
        logits.topk(numbers.N_GUESSES).indices.tolist()
    )
    near(found.embedded[0], plain.transformer.wte(ids)[0])
    near(found.embedded[1], plain.transformer.wpe.weight[: len(found.tokens)])


def test_queries_keys_values_and_results_are_the_models_own(found, plain, ids):
    made, n, heads = [], len(found.tokens), found.query.shape[1]

    def keep(module, given, output):
        made.append(output)

    attentions = [block.attn for block in plain.transformer.h]
    handles = [one.c_attn.register_forward_hook(keep) for one in attentions]
    joined, added = [], []
    handles += [
        one.c_proj.register_forward_pre_hook(lambda _, x: joined.append(x[0])) for one in attentions
    ]
    handles += [
        one.c_proj.register_forward_hook(lambda _, x, y: added.append(y)) for one in attentions
    ]
    run(plain, ids)
    for handle in handles:
        handle.remove()
    parts = torch.cat(made).reshape(len(attentions), n, 3, heads, -1).permute(2, 0, 3, 1, 4)
    for name, part in zip(("query", "key", "value"), parts, strict=True):
        near(getattr(found, name), part)
    near(found.z, torch.cat(joined).unflatten(-1, (heads, -1)).transpose(1, 2))
    near(found.attention, torch.cat(added))


def test_what_heads_write_and_biases_sum_to_the_attention(found):
    near(found.written.sum(1) + found.biases, found.attention[:, -1].double())


def test_projections_make_the_authors_queries_keys_and_values(found):
    made = found.projections
    for i, name in enumerate(("query", "key", "value")):
        theirs = getattr(found, name)[found.author].double()
        near(made.inputs @ made.weights[i] + made.biases[i], theirs)


@pytest.mark.parametrize("head", [(0, 7), (1, 2), (3, 5)])
def test_a_head_that_is_off_is_a_slice_of_zeros_at_its_output_matrix(found, plain, ids, head):
    layer, number = head

    def without(module, given):
        z = given[0].clone()
        z[..., 32 * number : 32 * (number + 1)] = 0
        return (z,)

    output = run(plain, ids, **{f"L{layer}": without})
    theirs = output.logits[0, -1].softmax(-1)
    near(found.guesses.without[head], theirs[list(found.guesses.ids)])
    near(found.guesses.patterns[head], torch.cat(output.attentions))
    assert float(theirs.max()) == pytest.approx(float(found.guesses.without[head].max()), abs=1e-4)


def steps_of(text: str) -> tuple[numbers.Followed, dict[str, str]]:
    """Return the run on a text, and the texts of its steps by their keys."""
    model = mv.load(numbers.MODEL)
    run = numbers.follow(model, text)
    labels = report(model.trace(text, keep=KEEP), model, untrained=False).labels
    return run, {step["key"]: step["text"] for step in story.steps(run, labels)}


def test_the_running_example_tells_its_story():
    _, steps = steps_of(numbers.SENTENCE)
    assert "L1 H7" in steps["head"] and "“box”" in steps["head"]
    assert steps["head"].index("layers") < steps["head"].index("L1 H7")
    assert "0.76 falls to 0.0098" in steps["carrier"]
    assert "falls from 0.85 to 0.1" in steps["off"]
    assert not any("{" in text for text in steps.values())


def test_the_payload_holds_every_number(found, model):
    made = report(model.trace(TEXT, keep=KEEP), model, untrained=False)
    header, body = unpack(story.payload(found, made.labels))
    at = 0
    for name, shape in header["arrays"]:
        size = int(np.prod(shape))
        array = np.frombuffer(body, "<f4", size, at).reshape(shape)
        at += 4 * size
        if hasattr(found, name):
            np.testing.assert_array_equal(array, getattr(found, name))
    codes = np.frombuffer(body, np.uint8, offset=at)
    n = len(found.tokens)
    assert len(codes) == sum(8 * (3 - layer) * 8 for layer in range(4)) * n * n
    last = found.guesses.patterns[2, 7, 3].numpy()  # the last of them
    np.testing.assert_allclose(decode(codes[-8 * n * n :]).reshape(8, n, n), last, atol=5e-3)
    assert len(header["steps"]) == 15 and len(body) < 2**20


@pytest.mark.parametrize("text", ["A", "é 🙂", "<b>bold</b> $x$", "word " * 20])
def test_any_short_text_has_a_story(model, text):
    found = numbers.follow(model, text)
    made = report(model.trace(text, keep=KEEP))  # nothing is probed
    for step in story.steps(found, made.labels):
        assert step["title"] and step["text"]
    unpack(story.payload(found, made.labels))


@pytest.mark.parametrize(("text", "said"), [("", "empty"), ("a " * 40, "has 41 tokens")])
def test_no_text_and_a_long_one_are_refused_in_words(model, text, said):
    with pytest.raises(TextError, match=said):
        numbers.follow(model, text)


def test_the_lens_ends_with_the_prediction(found):
    labels, p = zip(*found.lens[-1], strict=True)
    assert labels == found.guesses.labels[: numbers.N_LENS]
    np.testing.assert_allclose(p, found.guesses.with_all[: numbers.N_LENS], rtol=1e-4)


def numbers_in(text: str) -> list[float]:
    return [float(number.replace("−", "-")) for number in re.findall(r"[-−]?\d+\.?\d*", text)]


@pytest.mark.parametrize("text", [numbers.SENTENCE, "Tom had a red ball. Tom threw his red"])
def test_steps_tell_score_weight_and_probability_of_the_run(text: str) -> None:
    run, steps = steps_of(text)
    layer, head = run.author
    row = run.pattern[layer, head, -1]
    best = int(row.argmax())
    query, key = run.query[layer, head, -1], run.key[layer, head, best]
    score = float(query @ key) / len(key) ** 0.5
    assert float(f"{score:.3g}") in numbers_in(steps["scores"])
    weights = numbers_in(steps["softmax"])
    assert any(abs(number - float(row[best])) < 0.01 for number in weights), steps["softmax"]
    probability = float(run.guesses.with_all[0])
    told = numbers_in(steps["prediction"])
    assert any(abs(number - probability) < 0.01 for number in told) or any(
        abs(number - 100 * probability) < 1 for number in told
    )


def test_steps_claim_no_idea_where_the_likeliest_token_has_less_than_five_percent() -> None:
    for text in ("qq zz xv", numbers.SENTENCE):
        run, steps = steps_of(text)
        is_sure = float(run.guesses.with_all[0]) >= 0.05
        assert is_sure == (text == numbers.SENTENCE)
        assert ("no idea" not in steps["question"]) == is_sure
        assert ("no idea" not in steps["prediction"]) == is_sure
        lens = [place[0][1] >= 0.05 for place in run.lens]
        assert steps["layers"].count("no idea") == lens.count(False)


@pytest.mark.parametrize(
    ("text", "is_english"),
    [(numbers.SENTENCE, True), ("Die Katze sitzt auf der Matte", False), ("猫が座っている", False)],
)
def test_tokens_are_explained_by_whole_and_split_words(text: str, is_english: bool) -> None:
    told = steps_of(text)[1]["tokens"]
    assert ("English only" not in told) == is_english
    assert f"cut into {'3: “Z”, “or”, “val”' if is_english else ''}" in told
    assert not is_english or "whole tokens: “In”, “spring”, “Captain”" in told
