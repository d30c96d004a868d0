"""Heads taken away one after the other, and at random: against plain losses under gates."""

import itertools

import pytest
import torch

import mha_viz as mv
from mha_viz.core.names import ORDERS as NAMES_OF_ORDERS
from mha_viz.errors import ArgumentError, AttentionUnavailableError, TextError
from mha_viz.interventions import pruning as module
from mha_viz.interventions.importance import head_importance, t_interval
from mha_viz.interventions.pruning import (
    DRAWS,
    IMPORTANCE,
    SAME_TEXTS,
    mean_similarity,
    pruning_curve,
    redundancy_order,
    remove_heads,
)
from mha_viz.interventions.robustness import robustness
from mha_viz.prediction.replay import losses
from mha_viz.prediction.targets import ONE_TEXT
from tests.making.checkpoints import HEADS, LAYERS, OTHER, TEXT
from tests.making.comparing import close
from tests.making.families import build
from tests.making.losses import plain_losses

TEXTS = [TEXT, OTHER, "a cat ran"]
TOTAL = LAYERS * HEADS
EVERY = list(itertools.product(range(LAYERS), range(HEADS)))
ORDERS = ["ablation", "gradient", "redundancy", "random"]


def without(heads) -> torch.Tensor:
    gates = torch.ones(LAYERS, HEADS)
    for layer, head in heads:
        gates[layer, head] = 0.0
    return gates


# -- the curve -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bert", "gpt2"])
@pytest.mark.parametrize("order", ORDERS)
def test_a_curve_is_the_loss_of_fewer_and_fewer_heads(models, name, order):
    model = models[name]
    curve = pruning_curve(model, TEXTS, order, steps=6, n_seeds=3)
    assert curve.order == order and curve.n_texts == 3
    assert curve.values.shape == (3 if order == "random" else 1, 7, 3)
    assert curve.n_off.tolist() == [0, 2, 5, 8, 10, 12, 15]
    share = curve.share_left
    assert share[0] == 1 and share[-1] == 0 and (share[1:] < share[:-1]).all()
    for run, removed in enumerate(curve.removed):
        assert sorted(removed) == EVERY
        for point, n in enumerate(curve.n_off.tolist()):
            expected = plain_losses(model, TEXTS, without(removed[:n]))
            assert (curve.values[run, point] - expected).abs().max() <= 1e-5
    whole, nothing = (
        plain_losses(model, TEXTS),
        plain_losses(model, TEXTS, torch.zeros(LAYERS, HEADS)),
    )
    assert (curve.values[:, 0] - whole).abs().max() <= 1e-5
    assert (curve.values[:, -1] - nothing).abs().max() <= 1e-5


def test_heads_go_in_the_order_of_their_importance(models):
    model = models["gpt2"]
    for method in ("ablation", "gradient"):
        known = head_importance(model, TEXTS, method)
        curve = pruning_curve(model, TEXTS, method, steps=3)
        values = [known.mean[head] for head in curve.removed[0]]
        assert values == sorted(values)
        again = pruning_curve(model, TEXTS, known, steps=3)
        assert again.removed == curve.removed and again.order == method
        assert torch.equal(again.values, curve.values)


def test_orders_from_other_texts_and_what_is_said_of_the_same(models):
    model = models["gpt2"]
    same = pruning_curve(model, TEXTS, "ablation", steps=2)
    assert same.notes == (SAME_TEXTS,)
    for given in ([OTHER], OTHER):
        other = pruning_curve(model, [TEXT], "ablation", steps=2, order_texts=given)
        assert other.notes == (ONE_TEXT,)
        assert other.removed == pruning_curve(model, [OTHER], "ablation", steps=2).removed
    assert pruning_curve(model, TEXTS, "random", steps=2).notes == ()


def test_random_orders_are_the_same_at_every_call_and_leave_torchs_random_numbers_alone(models):
    curve = pruning_curve(models["bert"], TEXTS, "random", steps=4, n_seeds=4)
    torch.manual_seed(29)
    expected = torch.rand(3)
    torch.manual_seed(29)
    again = pruning_curve(models["bert"], TEXTS, "random", steps=4, n_seeds=4)
    assert torch.equal(torch.rand(3), expected)
    assert curve.removed == again.removed and torch.equal(curve.values, again.values)
    assert len(set(curve.removed)) == 4
    fewer = pruning_curve(models["bert"], TEXTS, "random", steps=4, n_seeds=2)
    assert fewer.removed == curve.removed[:2]


def test_bands_and_intervals(models):
    curve = pruning_curve(models["gpt2"], TEXTS, "random", steps=5, n_seeds=4)
    means = curve.values.mean(2)
    assert torch.equal(curve.lowest, means.amin(0)) and torch.equal(curve.highest, means.amax(0))
    assert curve.lowest[0] == curve.highest[0]
    assert (curve.loss - means.mean(0)).abs().max() <= 1e-12
    _, low, high = t_interval(curve.values.mean(0).T)
    assert torch.equal(curve.low, low) and torch.equal(curve.high, high)
    table = curve.table()
    assert table.change[5] == pytest.approx(float(curve.loss[5] - curve.loss[0]))
    assert (table.change_low[1:] < table.change_high[1:]).all()
    alone = pruning_curve(models["gpt2"], TEXT, "gradient", steps=5)
    assert alone.low.isnan().all() and alone.notes == (ONE_TEXT, SAME_TEXTS)
    assert torch.equal(alone.lowest, alone.loss)


def test_no_more_steps_than_heads_and_orders_that_are_given(models):
    order = list(reversed(EVERY))
    curve = pruning_curve(models["bert"], TEXT, order, steps=1000)
    assert curve.n_off.tolist() == list(range(TOTAL + 1))
    assert curve.order == "given" and curve.removed == (tuple(order),)
    assert pruning_curve(models["bert"], TEXT, order, steps=1).n_off.tolist() == [0, TOTAL]


def test_orders_that_are_none(models):
    model = models["bert"]
    for order in (
        EVERY[:-1],
        [*EVERY[:-1], (0, 0)],
        [*EVERY[:-1], (LAYERS, 0)],
        [],
        [(1, -1) if head == (0, HEADS - 1) else head for head in EVERY],
        [*EVERY[:-1], (LAYERS - 2, HEADS + HEADS - 1)],
    ):
        with pytest.raises(ArgumentError, match=f"each of the {TOTAL} heads"):
            pruning_curve(model, TEXT, order)
    with pytest.raises(ArgumentError, match="one of ablation, gradient, redundancy, random"):
        pruning_curve(model, TEXT, "alphabet")
    with pytest.raises(ArgumentError, match="has 2 and 6"):
        module._orders(build("llama"), TEXTS, head_importance(model, TEXT), 1, None)
    for bad in (dict(steps=0), dict(n_seeds=0)):
        with pytest.raises(ArgumentError, match="1 or more"):
            pruning_curve(model, TEXT, **bad)
    with pytest.raises(AttentionUnavailableError, match="encoder-decoder"):
        robustness(build("t5"), TEXT)
    with pytest.raises(TextError, match="no text"):
        pruning_curve(models["gpt2"], TEXT, "redundancy", order_texts=[])


# -- redundancy ----------------------------------------------------------------------------------


def test_twins_go_first_and_one_of_them_stays():
    alike = torch.full((6, 6), 0.1).fill_diagonal_(1.0)
    for i, j, value in ((0, 3, 0.99), (1, 4, 0.95), (3, 4, 0.5)):
        alike[i, j] = alike[j, i] = value
    order = redundancy_order(alike)
    assert sorted(order) == list(range(6))
    assert order[:2] == [
        3,
        4,
    ]  # 3 has a nearer next twin than 0; 4 and 1 are equals once it is gone
    assert {0, 1} <= set(order[2:])
    alike = torch.full((4, 4), torch.nan)
    alike[1, 2] = alike[2, 1] = 0.3
    assert redundancy_order(alike)[0] in (1, 2)
    assert sorted(redundancy_order(alike)) == [0, 1, 2, 3]
    assert sorted(redundancy_order(torch.full((4, 4), torch.nan))) == [0, 1, 2, 3]
    assert redundancy_order(torch.ones(1, 1)) == [0]


def test_likeness_is_the_mean_over_texts(models):
    one, other = (mv.head_similarity(models["bert"].trace(text), "cka") for text in (TEXT, OTHER))
    found = mean_similarity(models["bert"], [TEXT, OTHER])
    # a head whose output hardly differs from token to token may have no likeness on one of them
    assert (found - torch.stack((one, other)).nanmean(0)).abs().max() <= 1e-6
    removed = pruning_curve(models["bert"], [TEXT, OTHER], "redundancy", steps=1).removed[0]
    assert removed == tuple(divmod(i, HEADS) for i in redundancy_order(found))


# -- one head or two -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_robustness_is_plain_losses(models, name):
    model = models[name]
    found = robustness(model, TEXTS, n_draws=7)
    whole = plain_losses(model, TEXTS)
    assert (found.loss - whole).abs().max() <= 1e-5
    heads = [tuple(head) for head in found.heads.tolist()]
    assert len(set(heads)) == 7 and set(heads) <= set(EVERY)
    for head, change in zip(heads, found.change, strict=True):
        expected = plain_losses(model, TEXTS, without([head])) - whole
        assert (change - expected).abs().max() <= 2e-5
    pairs = [tuple(map(tuple, pair)) for pair in found.pairs.tolist()]
    assert len(set(pairs)) == 7 and all(a < b for a, b in pairs)
    for (a, b), together, apart in zip(pairs, found.pair_change, found.apart, strict=True):
        alone = [plain_losses(model, TEXTS, without([head])) - whole for head in (a, b)]
        assert (apart - sum(alone)).abs().max() <= 5e-5
        assert (
            together - (plain_losses(model, TEXTS, without([a, b])) - whole)
        ).abs().max() <= 2e-5
    assert torch.equal(found.extra, found.pair_change - found.apart)


def test_single_heads_measured_before_are_not_run_again(models, monkeypatch):
    model, settings = models["gpt2"], []
    measured = head_importance(model, TEXTS)
    plain = robustness(model, TEXTS, n_draws=7)

    def counting(model, targets, off, on_progress):
        settings.append(off)
        return losses(model, targets, off, on_progress)

    monkeypatch.setattr("mha_viz.interventions.robustness.losses", counting)
    found = robustness(model, TEXTS, n_draws=7, importance=measured)
    assert [len(heads) for heads in settings[0]] == [0] + [2] * 7  # pairs alone
    for name in ("heads", "pairs", "change", "apart", "pair_change", "loss"):
        assert (getattr(found, name) - getattr(plain, name)).abs().max() <= 2e-5
    for other in (head_importance(model, TEXT), head_importance(model, TEXTS, "gradient")):
        with pytest.raises(
            ArgumentError, match=f"importance must be by ablation, of {TOTAL} heads"
        ):
            robustness(model, TEXTS, n_draws=7, importance=other)


def test_draws_are_seeded_and_all_heads_are_taken_where_there_are_no_more(models):
    model = models["gpt2"]
    one, again, other = (robustness(model, TEXTS, 5, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(one.heads, again.heads) and torch.equal(one.pair_change, again.pair_change)
    assert not torch.equal(one.pairs, other.pairs)
    every = robustness(model, TEXTS, 10_000)
    assert [tuple(head) for head in every.heads.tolist()] == EVERY
    assert len(every.pairs) == TOTAL * (TOTAL - 1) // 2
    off = head_importance(model, TEXTS).values.flatten(1).T
    assert (every.change - off).abs().max() <= 2e-5


def test_the_numbers_of_a_summary(models):
    found = robustness(models["gpt2"], TEXTS, 10_000, tolerance=0.002)
    numbers = found.summary()
    change = found.change.mean(1)
    mean, low, high = t_interval(found.change.mean(0))
    assert (numbers["mean"], numbers["mean_low"], numbers["mean_high"]) == (mean, low, high)
    assert numbers["q50"] == pytest.approx(float(change.quantile(0.5)))
    assert numbers["q05"] <= numbers["q25"] <= numbers["q50"] <= numbers["q75"] <= numbers["q95"]
    assert numbers["unharmed"] == float((change.abs() <= 0.002).sum()) / TOTAL
    assert numbers["unharmed"] + numbers["worse"] + numbers["better"] == pytest.approx(1)
    assert numbers["extra"] == pytest.approx(float(found.extra.mean()))
    assert numbers["compensating"] == float((found.extra.mean(1) > 0.002).double().mean())
    assert 0 < numbers["compensating"] + numbers["overlapping"] <= 1
    pairs = found.pair_table()
    assert pairs.extra.tolist() == pytest.approx((pairs.change - pairs.apart).tolist())
    assert found.table().change.tolist() == change.tolist()


def test_one_text_and_what_is_no_draw(models):
    found = robustness(models["bert"], TEXT, 3)
    assert found.notes == (ONE_TEXT,) and found.summary()["mean_low"] != found.summary()["mean_low"]
    for bad in (dict(n_draws=0), dict(tolerance=-0.1), dict(tolerance=float("nan"))):
        with pytest.raises(ArgumentError, match="n_draws must be 1 or more"):
            robustness(models["bert"], TEXT, **bad)


SENTENCES = ["The cat sat on the mat."]


def test_it_is_what_each_part_finds_by_itself(gpt):
    told = []
    found = remove_heads(
        gpt,
        SENTENCES,
        {},
        steps=2,
        n_seeds=1,
        n_draws=4,
        on_progress=lambda *news: told.append(news),
    )
    assert list(found.curves) == list(NAMES_OF_ORDERS)
    for order, curve in found.curves.items():
        direct = pruning_curve(gpt, SENTENCES, order, steps=2, n_seeds=1)
        close(curve.values, direct.values)
    draws = robustness(gpt, SENTENCES, 4)
    close(found.draws.change, draws.change)
    in_order = [IMPORTANCE, *NAMES_OF_ORDERS, DRAWS]
    assert list(dict.fromkeys(part for part, _ in told)) == in_order
    for (
        part,
        share,
    ) in told:  # some parts count twice: first what puts heads in order, then the loss
        begin = in_order.index(part) / len(in_order)
        assert begin <= share <= begin + 1 / len(in_order) + 1e-9
    assert told[-1] == (DRAWS, 1.0)
