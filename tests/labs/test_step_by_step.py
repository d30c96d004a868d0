"""Lab 4: the matrices alone give what the model computed, step by step; or it is said that not."""

import numpy as np
import pytest
import torch

import mha_viz as mv
from mha_viz.core.attention.multi_head import AttentionWeights, MultiHeadAttention
from mha_viz.errors import ArgumentError, ShapeError, TextError
from mha_viz.learn.activations import record_activations, spread
from mha_viz.learn.frame.matrix_step import largest_products
from mha_viz.learn.labs.step_by_step import code as step_code
from mha_viz.learn.labs.step_by_step import numbers as lab
from mha_viz.learn.labs.step_by_step.code import run_taught, taught_code
from mha_viz.learn.labs.step_by_step.tables import BUGS, step_notes, step_text
from tests.making.comparing import close
from tests.making.families import build

EVERYTHING = ("pattern", "z", "query", "key", "value")
TEXT = "The old dog slept while the young cat watched."


@pytest.fixture(scope="module", params=["tiny-bert", "tiny-gpt2"])
def shipped(request):
    model = mv.load(request.param)
    return model, model.trace(TEXT, keep=EVERYTHING)


def walk(model, record, layer, head):
    return lab.step_by_step(model, record, layer, head, record_activations(model, record, layer))


def test_the_walk_ends_where_the_models_own_attention_does(shipped):
    model, record = shipped
    for layer in range(record.n_layers):
        found = walk(model, record, layer, 3)
        assert not found.from_model
        for name, (largest, size) in found.differences.items():
            assert largest < 1e-5 * max(size, 1), name
        assert found.differences["output"] == lab.gap(
            found.matrices["output"], found.matrices["theirs"]
        )


def test_the_mask_can_be_switched_on_and_off(shipped):
    model, record = shipped
    seen = record_activations(model, record, 1)
    found = {on: lab.step_by_step(model, record, 1, 2, seen, on) for on in (None, True, False)}
    own, other = found[record.causal], found[not record.causal]
    assert (own.causal, other.causal) == (record.causal, not record.causal)
    close(own.matrices["weights"], found[None].matrices["weights"])
    later = torch.ones(len(own.matrices["Kᵀ"].T), len(own.matrices["Kᵀ"].T)).triu(1).bool()
    for on in (True, False):
        raw = (
            found[on].matrices["scores"].masked_fill(later, -torch.inf)
            if on
            else found[on].matrices["scores"]
        )
        close(found[on].matrices["masked"], raw)
        close(found[on].matrices["weights"], raw.softmax(-1))
        close(found[on].matrices["z"], raw.softmax(-1) @ found[on].matrices["V"])
    assert not other.from_model and other.differences["output"][0] > 1e-2  # which the mask did
    assert other.differences["pattern"][0] > 0.1


@pytest.mark.parametrize(
    ("text", "on"), [(TEXT, True), (TEXT, False), ("quotes \" and ' and \\n </code>", None)]
)
def test_the_ten_lines_give_the_same_numbers(shipped, text, on, capsys):
    model, _ = shipped
    record = model.trace(text, keep=EVERYTHING)
    found = lab.step_by_step(model, record, 1, 3, record_activations(model, record, 1), on)
    code = step_code.pytorch_code(found, record, model.name, 1, 3)
    assert len(code.split("\n\n")[-1].splitlines()) == 10
    made: dict[str, torch.Tensor] = {}
    exec(code, made)
    close(made["weights"][3], found.matrices["weights"])
    close(made["joined"], found.matrices["joined"])
    close(made["output"], found.matrices["output"])
    assert "tensor" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("family", "part"), [("llama", "self"), ("t5", "encoder"), ("t5", "cross")]
)
def test_the_ten_lines_of_families_that_do_more(family, part):
    model = build(family)
    pair = "a cat ran" if family == "t5" else None
    record = model.trace("the cat sat on a mat", pair, part=part, keep=EVERYTHING)
    seen = record_activations(model, record, 1)
    found = lab.step_by_step(model, record, 1, 0, seen)
    made = {
        "torch": torch,
        "record": record,
        "seen": seen,
        "W": spread(model.attention_weights(1, part)),
    }
    exec(step_code.pytorch_code(found, record, family, 1, 0).split("\n\n")[-1], made)
    close(made["joined"], found.matrices["joined"])
    close(made["output"], found.matrices["output"])


def test_every_step_follows_from_the_one_before(shipped):
    model, record = shipped
    found, weights = walk(model, record, 2, 5), model.attention_weights(2)
    X = found.matrices["X"].numpy()
    q, k, v = (
        X @ getattr(weights, f"W_{m}")[5].numpy() + getattr(weights, f"b_{m}")[5].numpy()
        for m in "QKV"
    )
    close = dict(atol=2e-5, rtol=1e-4)
    np.testing.assert_allclose(found.matrices["Q"], q, **close)
    np.testing.assert_allclose(found.matrices["Kᵀ"].T, k, **close)
    np.testing.assert_allclose(found.matrices["V"], v, **close)
    np.testing.assert_allclose(found.matrices["Q Kᵀ"], q @ k.T, **close)
    np.testing.assert_allclose(found.matrices["scores"], q @ k.T / np.sqrt(32), **close)
    hidden = np.triu(np.ones((len(X), len(X)), bool), 1) & record.causal
    assert (np.isinf(found.matrices["masked"].numpy()) == hidden).all()
    exp = np.where(hidden, 0, np.exp(q @ k.T / np.sqrt(32)))
    pattern = exp / exp.sum(1, keepdims=True)
    np.testing.assert_allclose(found.matrices["weights"], pattern, **close)
    np.testing.assert_allclose(found.matrices["z"], pattern @ v, **close)
    np.testing.assert_array_equal(found.matrices["joined"][:, 5 * 32 : 6 * 32], found.matrices["z"])
    output = found.matrices["joined"].numpy() @ found.matrices["W_O"].numpy() + weights.b_O.numpy()
    np.testing.assert_allclose(found.matrices["output"], output, **close)


@pytest.mark.parametrize(
    ("family", "texts"),
    [("distilbert", ["scale", "output-biased"]), ("t5", ["scale-factor", "output"])],
)
def test_texts_of_scale_and_output_follow_the_model(family, texts):
    model = build(family)
    record = model.trace("the cat sat on a mat", keep=EVERYTHING, part=model.parts[0])
    found = walk(model, record, 1, 1)
    made = [step_text(key, found, record) for key in ("scale", "output")]
    assert [name for name, _ in made] == [f"steps.{name}" for name in texts]
    notes, formula = step_notes("scale", found, record, 1), made[0][1]["formula"]
    assert bool(notes) == ("sqrt" not in formula) == (family == "t5")


@pytest.mark.parametrize("causal", [True, False])
def test_the_code_that_is_taught_everywhere_equals_one_matrix_per_head(causal):
    random = torch.Generator().manual_seed(7)
    shapes = (3, 15, 5), (3, 15, 5), (3, 15, 5), (3, 5, 15), (3, 5), (3, 5), (3, 5), (15,)
    weights = AttentionWeights(*(torch.randn(*s, generator=random) for s in shapes))
    query, key = torch.randn(11, 15, generator=random), torch.randn(11, 15, generator=random)
    output, pattern = run_taught(weights, query, key, causal)
    made = MultiHeadAttention.from_weights(weights)(query, key, causal=causal)
    close(output, made.output)
    close(pattern, made.pattern)


def test_each_bug_changes_the_code_once_and_the_outcome(shipped):
    model, record = shipped
    seen, weights = record_activations(model, record, 1), spread(model.attention_weights(1))
    right, pattern = run_taught(weights, seen.X, seen.Y, True)
    for name, bug in BUGS.items():
        assert taught_code().count(bug[0]) == 1
        if name == "attribute":
            with pytest.raises(AttributeError, match="d_k"):
                run_taught(weights, seen.X, seen.Y, True, bug)
            continue
        wrong, other = run_taught(weights, seen.X, seen.Y, True, bug)
        assert wrong.shape == right.shape and (wrong - right).abs().max() > 0.5
        close(other.sum(-1), torch.ones(other.shape[:-1]))
        if name == "mask":  # only what comes after a token, and for the last one everything
            assert (other.tril()[:, :-1] == 0).all() and (pattern.triu(1) == 0).all()
            close(other[:, -1], torch.full_like(other[:, -1], 1 / len(seen.X)))


@pytest.mark.parametrize(
    ("family", "own"),
    [
        ("distilbert", set()),
        ("llama", {"query", "key"}),  # rotary positions
        ("opt", {"query"}),  # scales its queries at once
        ("t5", {"pattern"}),  # a position bias
    ],
)
def test_what_the_matrices_alone_do_not_give_is_said_and_the_rest_still_agrees(family, own):
    model = build(family)
    record = model.trace("the cat sat on a mat", keep=EVERYTHING, part=model.parts[0])
    for layer in range(record.n_layers):
        found = walk(model, record, layer, 1)
        # a rotation by 0 changes nothing, a bias of equal numbers neither: not in these models
        assert set(found.from_model) == own
        assert found.differences["output"][0] < 1e-4 * max(found.differences["output"][1], 1)


def test_a_cell_is_the_sum_of_its_products():
    random = torch.Generator().manual_seed(3)
    left, right = torch.randn(5, 41, generator=random), torch.randn(41, 7, generator=random)
    expected = float(left[2].double() @ right[:, 3].double())
    factors = {tuple(pair) for pair in torch.stack([left[2], right[:, 3]], -1).tolist()}
    for most in (1, 6, 41, 99):
        products, rest = largest_products(left, right, 2, 3, most)
        assert sum(a * b for a, b in products) + rest == pytest.approx(expected, abs=1e-9)
        sizes = [abs(a * b) for a, b in products]
        assert sizes == sorted(sizes, reverse=True) and len(products) == min(most, 41)
        assert set(products) <= factors and len(set(products)) == len(products)
    for row, column in ((5, 0), (0, 7), (-1, 0)):
        with pytest.raises(ArgumentError, match="no cell"):
            largest_products(left, right, row, column)


def test_the_order_of_what_is_read_does_not_matter():
    words = ("the", "cat", "sleeps", "on", "the", "mat")
    found, turned = (lab.cross(("le", "chat", "dort"), w) for w in (words, words[::-1]))
    assert found.pattern.shape == (2, 3, 6) and found.output.shape == (3, 8)
    close(found.pattern.sum(-1), torch.ones(2, 3))
    close(turned.pattern.flip(-1), found.pattern)
    close(turned.output, found.output)
    # the same word twice is the same key; another order of queries is another order of rows
    close(found.pattern[..., 0], found.pattern[..., 4])
    rows = lab.cross(("dort", "chat", "le"), words).output
    close(rows.flip(0), found.output)
    # and the weights are no uniform blur that would prove nothing
    assert found.pattern.max() > 0.4


def test_what_the_lab_does_not_take(shipped):
    model, record = shipped
    seen = record_activations(model, record, 0)
    with pytest.raises(ArgumentError, match="head must lie"):
        lab.step_by_step(model, record, 0, 8, seen)
    with pytest.raises(ArgumentError, match="layer must lie"):
        record_activations(model, record, 4)
    for queries, keys in (((), ("a",)), (("a",), ("b",) * 9)):
        with pytest.raises(TextError, match="1 to 8 words"):
            lab.cross(queries, keys)
    ones = AttentionWeights(*torch.ones(3, 2, 10, 7), torch.ones(2, 7, 10))
    with pytest.raises(ShapeError, match=r"\b5 numbers.* 7\b"):  # 10 / 2 heads
        run_taught(ones, torch.ones(3, 10), torch.ones(3, 10), causal=False)
    with pytest.raises(ShapeError, match="compared"):
        lab.gap(torch.ones(2), torch.ones(3))
