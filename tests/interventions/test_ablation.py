"""Before, after and the difference: against hand-made numbers, and every kind of target."""

import math

import pytest
import torch

import mha_viz as mv
from mha_viz.engine.head_changes import reference_means
from mha_viz.engine.intervention import Intervention
from mha_viz.errors import ArgumentError
from mha_viz.interventions.ablation import compare
from mha_viz.prediction.distributions import kl_divergence
from tests.making.comparing import near

TEXT = "The boy went to the store and"
HEADS = [(1, 3), (2, 6)]


def test_before_and_after_are_the_predictions(gpt):
    found = mv.ablate(gpt, TEXT, HEADS, position=3, top_k=4)
    gates = torch.ones(gpt.n_layers, gpt.n_heads)
    for place in HEADS:
        gates[place] = 0
    before, after = (mv.predict(gpt, TEXT, g, position=3, top_k=4) for g in (None, gates))
    assert torch.equal(found.before.log_probs, before.log_probs)
    assert torch.equal(found.after.log_probs, after.log_probs)
    assert found.intervention.heads == tuple(HEADS) and found.averaged == ""
    p, q = before.log_probs.double().exp(), after.log_probs.double().exp()
    assert found.kl == pytest.approx(float((p * (p / q).log()).sum()), rel=1e-4)
    assert "zero L1 H3, L2 H6, kl=" in repr(found)


def test_losses_before_and_after(gpt):
    found = mv.ablate(gpt, TEXT, HEADS)
    assert found.loss_changes[0] is None
    for change, a, b in zip(
        found.loss_changes[1:], found.before.losses[1:], found.after.losses[1:], strict=True
    ):
        assert change == b - a
    assert found.loss_change == pytest.approx(found.after.loss - found.before.loss)
    table = found.loss_table()
    assert list(table.token) == [token.text for token in found.before.tokens]
    assert math.isnan(table.change[0]) and table.change[1] == found.loss_changes[1]


def test_the_table_has_the_likeliest_of_both(gpt):
    found = mv.ablate(gpt, TEXT, [(0, h) for h in range(8)], top_k=5)
    table = found.table()
    assert tuple(table.id[:5]) == found.before.ids
    assert set(table.id) == set(found.before.ids) | set(found.after.ids)
    assert tuple(table.before[:5]) == pytest.approx(found.before.probabilities)
    assert list(table.change) == pytest.approx(list(table.after - table.before))
    assert list(table.log_change) == pytest.approx(
        [float(found.after.log_probs[i] - found.before.log_probs[i]) for i in table.id]
    )


def test_targets(gpt):
    found = mv.ablate(gpt, TEXT, HEADS, target="he", against="she")
    he, she = gpt.tokenizer.convert_tokens_to_ids(["Ġhe", "Ġshe"])
    assert (found.target.id, found.against.id) == (he, she)
    assert (found.target.text, found.target.continues) == ("he", False)
    with torch.no_grad():
        rows = gpt.network(**gpt.tokenizer(TEXT, return_tensors="pt")).logits[0, -1]
    assert found.target.before == near(float(rows.log_softmax(-1)[he]))
    assert found.logit_difference_before == pytest.approx(float(rows[he] - rows[she]), abs=1e-4)
    assert found.target.change == found.target.after - found.target.before
    assert found.logit_difference_after == found.target.after - found.against.after
    assert mv.ablate(gpt, TEXT, HEADS, target=he).target == found.target
    alone = mv.ablate(gpt, TEXT, HEADS, target="he")
    assert alone.against is None and alone.logit_difference_after is None
    assert alone.logit_difference_before is None
    time = mv.ablate(gpt, "Once upon a\n", HEADS, target="time").target
    assert gpt.tokenizer.convert_ids_to_tokens(time.id) == "time"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (
            "Constantinople",
            r"is \d tokens for this model: .* · .*\. Choose a word that is one token",
        ),
        ("two words", r"is 2 tokens for this model: two · words"),
        (4096, r"number in 0\.\.4095, got 4096"),
        (-1, "got -1"),
    ],
)
def test_targets_that_are_none(gpt, target, message):
    with pytest.raises(ArgumentError, match=message):
        mv.ablate(gpt, TEXT, HEADS, target=target)


def test_words_and_comparisons_that_there_are_not_are_refused(masked, gpt):
    with pytest.raises(ArgumentError, match="not in this model's vocabulary"):
        mv.ablate(masked, "The [MASK] sat.", HEADS, target="猫")
    with pytest.raises(ArgumentError, match="tokens for this model"):
        mv.ablate(masked, "The [MASK] sat.", HEADS, target="unbelievableish")
    with pytest.raises(ArgumentError, match="against needs a target"):
        mv.ablate(gpt, TEXT, HEADS, against="she")
    first, second = (mv.predict(gpt, TEXT, position=at) for at in (0, 1))
    with pytest.raises(ArgumentError):
        compare(gpt, first, second, Intervention(HEADS))


def test_masked_models(masked):
    found = mv.ablate(masked, "The [MASK] sat on the mat.", HEADS, target="cat", pseudo_loss=True)
    assert found.before.objective == "masked" and found.before.position == 2
    assert found.kl > 0 and found.target.text == "cat"
    assert found.loss_changes[2] is None and found.loss_change is not None
    assert mv.ablate(masked, "The [MASK] sat.", HEADS).loss_change is None


def test_the_mean_says_over_what(gpt):
    texts = ["A dog ran home.", "She said no."]
    own = mv.ablate(gpt, TEXT, HEADS, "mean")
    listed = mv.ablate(gpt, TEXT, HEADS, "mean", reference=texts)
    assert own.averaged == "the 7 positions of this text"
    means = reference_means(gpt, texts)
    assert listed.averaged == f"the {means.n_positions} positions of 2 reference texts"
    ready = mv.ablate(gpt, TEXT, HEADS, "mean", reference=means)
    assert ready.kl == listed.kl != own.kl


def test_kl_by_hand():
    p, q = torch.tensor([0.5, 0.5, 0.0]), torch.tensor([0.25, 0.5, 0.25])
    assert kl_divergence(p.log(), q.log()) == pytest.approx(0.5 * math.log(2))
    assert kl_divergence(p.log(), p.log()) == 0
    assert kl_divergence(q.log(), p.log()) == math.inf
