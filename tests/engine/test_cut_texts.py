"""Texts no longer than a record of so many bytes allows."""

import pytest

import mha_viz as mv
from mha_viz.core.record.patterns import ComputedPatterns, StoredPatterns
from mha_viz.engine import loaded_network, recording
from mha_viz.engine.probe import KEEPABLE
from tests.making.checkpoints import D_HEAD, HEADS, LAYERS, N_CTX


@pytest.mark.parametrize("n_bytes", [9_000, 20_000, 10**9])
@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_texts_are_cut_to_what_their_record_may_take(folders, name, n_bytes):
    model = mv.load(str(folders[name]))
    model.cut_texts(n_bytes)
    record = model.trace("the cat sat on a mat " * 20, keep=KEEPABLE)
    assert len(record.tokens) == model.n_ctx <= N_CTX
    assert sum(getattr(record, kept).nbytes for kept in KEEPABLE) <= n_bytes
    assert f"was cut to {model.n_ctx} tokens" in record.notes[-1]
    longer = model.n_ctx + 1
    assert model.n_ctx == N_CTX or 4 * LAYERS * HEADS * longer * (longer + 4 * D_HEAD) > n_bytes


@pytest.mark.parametrize("tiles", [2, 3])
def test_texts_whose_weights_are_not_stored_are_cut_to_what_is_held(monkeypatch, folders, tiles):
    monkeypatch.setattr(loaded_network, "TILES", tiles)
    monkeypatch.setattr(recording, "TILES", tiles)
    per_token = 4 * LAYERS * HEADS * 4 * D_HEAD
    model = mv.load(str(folders["gpt2"]))
    model.cut_texts(13 * per_token + 4 * LAYERS * HEADS * tiles**2)
    record = model.trace("the cat sat on a mat " * 20, keep=(*KEEPABLE, "tiles"))
    assert len(record.tokens) == model.n_ctx == 13 < N_CTX
    assert isinstance(record.patterns, ComputedPatterns)
    assert record.held_bytes <= 13 * per_token + 4 * LAYERS * HEADS * tiles**2
    stored = model.trace("the cat sat", keep=KEEPABLE)
    assert isinstance(stored.patterns, StoredPatterns)
