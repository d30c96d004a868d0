"""All paths at once: against single paths, and stopped between layers."""

import numpy as np
import pytest
import scipy.stats

from mha_viz.circuits.effects.patched_run import INPUTS
from mha_viz.circuits.effects.path_effect import path_effect
from mha_viz.circuits.effects.path_effects import path_effects
from mha_viz.core.cancellation import cancellation
from mha_viz.errors import ArgumentError
from tests.circuits.test_path_effect import CLEAN, CORRUPT, asked, predicting

NAMES = ["gpt2", "llama", "albert"]


@pytest.mark.parametrize("way", ["direct", "total"])
@pytest.mark.parametrize("name", NAMES)
def test_all_paths_are_the_single_ones(name, way):
    model = predicting(name, double=True)
    found = path_effects(model, CLEAN, CORRUPT, way=way, **asked(model), n_measured=0)
    assert found.n_measured == 0 and np.isnan(found.exact).all()
    found.measure()
    n, layers = model.n_heads, model.n_layers
    assert found.n_measured == found.n_paths == 3 * n * n * layers * (layers - 1) // 2
    for layer in range(layers):  # nothing is read before it is written
        for numbers in (found.exact, found.estimate):
            assert np.isnan(numbers[layer, :, : layer + 1]).all()
            assert np.isfinite(numbers[layer, :, layer + 1 :]).all()
    rounding = 1e-5 if name == "llama" else 1e-7  # it rotates in float32, whatever its weights
    paths = [((0, 3), (1, 2, "query")), ((1, 1), (2, 4, "key")), ((0, 0), (2, 1, "value"))]
    for sender, receiver in paths:
        one = path_effect(model, CLEAN, CORRUPT, sender, receiver, **asked(model))
        index = (*sender, *receiver[:2], INPUTS.index(receiver[2]))
        assert found.exact[index] == pytest.approx(getattr(one, way), abs=rounding)
        assert found.estimate[index] == pytest.approx(getattr(one, f"{way}_estimate"), abs=rounding)
        assert abs(found.exact[index]) > 1e-6
    one = path_effect(model, CLEAN, CORRUPT, (1, 2), **asked(model))
    assert found.at_logits[1, 2] == pytest.approx(getattr(one, way), abs=rounding)
    assert found.estimate_at_logits[1, 2] == pytest.approx(
        getattr(one, f"{way}_estimate"), abs=rounding
    )


def test_estimates_put_the_paths_in_nearly_the_right_order(gpt):
    texts = "A bird saw a cat. A bird saw a", "A bird saw a dog. A bird saw a"
    found = path_effects(gpt, *texts, target="cat", against="dog")
    largest = np.argsort(-np.abs(np.nan_to_num(found.estimate)).ravel())[:20]
    assert found.n_measured == 20 and np.isfinite(found.exact.ravel()[largest]).all()
    assert found.table().known.value_counts().to_dict() == {"estimate": 1132, "measured": 20}
    assert np.isnan(found.recall())  # only all paths tell which are the strongest
    found.measure()
    known = np.isfinite(found.exact)
    expected = scipy.stats.spearmanr(found.estimate[known], found.exact[known]).statistic
    assert found.agreement == pytest.approx(expected, abs=1e-12) and found.agreement > 0.9
    table = found.table()
    assert len(table) == found.n_paths == 1152 and (table.layer > table.sender_layer).all()
    row = table[
        (table.sender_layer == 0)
        & (table.sender_head == 3)
        & (table.layer == 2)
        & (table["head"] == 1)
        & (table.input == "key")
    ].iloc[0]
    assert (row.exact, row.estimate) == (found.exact[0, 3, 2, 1, 1], found.estimate[0, 3, 2, 1, 1])
    for top in (1, 7, 20):
        strongest = table.sort_values("exact", key=abs, ascending=False).index[:top]
        guessed = table.sort_values("estimate", key=abs, ascending=False).index[:top]
        assert found.recall(top) == len(set(strongest) & set(guessed)) / top
    assert found.recall() >= 0.9


class Stopped(Exception):
    pass


@pytest.mark.parametrize(("stopped_by", "calls"), [("cancellation", 100), ("callback", 5)])
def test_whoever_asks_may_stop_it_between_layers(models, monkeypatch, stopped_by, calls):
    monkeypatch.setattr(
        "mha_viz.circuits.effects.path_runs.MAX_INPUT_BYTES", 1
    )  # a sender at a time
    model = models["gpt2"]
    found, left = path_effects(model, CLEAN, CORRUPT), iter(range(calls))

    def ask(*_done: int) -> None:
        if next(left, None) is None:
            raise Stopped

    is_callback = stopped_by == "callback"
    with pytest.raises(Stopped), cancellation(ask if not is_callback else lambda: None):
        found.measure(ask if is_callback else None)
    assert 0 < found.n_measured < found.n_paths
    before = found.exact.copy()
    found.measure()
    assert np.array_equal(before[np.isfinite(before)], found.exact[np.isfinite(before)])
    monkeypatch.undo()
    whole = path_effects(model, CLEAN, CORRUPT)
    whole.measure()
    assert np.nanmax(np.abs(found.exact - whole.exact)) <= 1e-5


def test_kl_has_effects_and_no_estimates(models):
    found = path_effects(models["gpt2"], CLEAN, CORRUPT, "kl")
    assert found.n_measured == 0
    found.measure()
    assert np.isnan(found.recall())
    assert np.isnan(found.estimate).all() and np.isnan(found.agreement)
    assert np.nanmin(found.exact) >= -1e-12 and np.nanmax(found.exact) > 0


def test_the_same_text_patches_nothing(models):
    found = path_effects(models["bert"], CLEAN, CLEAN, position=2)
    assert np.nanmax(np.abs(found.exact)) == np.abs(found.at_logits).max() == 0
    assert found.n_measured == found.n_paths and np.isnan(found.agreement)


def test_what_cannot_be_asked(models, monkeypatch):
    with pytest.raises(ArgumentError, match="way"):
        path_effects(models["gpt2"], CLEAN, CORRUPT, way="around")
    with pytest.raises(ArgumentError, match="n_measured"):
        path_effects(models["gpt2"], CLEAN, CORRUPT, n_measured=-1)
    monkeypatch.setattr("mha_viz.circuits.effects.path_effects.MAX_PATHS", 600)
    with pytest.raises(ArgumentError):
        path_effects(models["gpt2"], CLEAN, CORRUPT)
