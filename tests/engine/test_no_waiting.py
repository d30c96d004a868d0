"""A trace and a report read nothing from the device of their model from layer to layer."""

import pytest
import torch
import transformers as tf
from torch import Tensor
from transformers import masking_utils

import mha_viz as mv
from mha_viz.core.attention import scoring
from mha_viz.core.attention.scoring import Sight
from mha_viz.engine import loaded_network, probe
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.recording import PatternReductions, record_of, run_texts
from mha_viz.reports.report import KEEP
from mha_viz.text.encoding import encode_texts
from mha_viz.text.tokens import Encoded
from tests.engine.between_layers import Refusing, as_on_a_card
from tests.engine.test_families import LONG, SINGLE, build

TEXT = "The cat sat on the mat because the cat was tired."


@pytest.fixture
def meta(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what transformers itself reads once a run, before the first layer."""
    monkeypatch.setattr(masking_utils, "find_packed_sequence_indices", lambda position_ids: None)
    monkeypatch.setattr(
        tf.PreTrainedModel, "warn_if_padding_and_no_attention_mask", lambda self, ids, mask: None
    )


def on_meta(name: str) -> tuple[AttentionModel, Encoded]:
    """A model of a family on "meta", where every read of a number fails, and a text."""
    model = build(SINGLE[name], name)
    encoded = encode_texts(model.reader, LONG)[0]
    model.network.to("meta")
    return model, encoded


@pytest.mark.parametrize("name", ["bert", "gpt2", "gemma2", "llama", "mistral"])
def test_a_trace_fetches_nothing_before_its_end(meta: None, name: str) -> None:
    model, encoded = on_meta(name)
    keep = ("pattern", "z", "value")
    left = run_texts(model, [encoded], None, keep)["self"]
    for kept in keep:
        assert [one.device.type for one in left.kept[kept]] == ["meta"] * model.n_layers
    with pytest.raises(NotImplementedError, match="meta"):  # the end is what fetches
        record_of(model, "self", left, 0, (encoded, None))


@pytest.mark.parametrize("name", ["bert", "gpt2", "gemma2", "llama", "mistral"])
def test_tiles_and_metrics_of_a_long_text_are_made_without_waiting(
    meta: None, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """What a mask lets a query see is looked at once a mask, and said here beforehand."""
    sight = Sight(before=4, after=4 if name == "bert" else 0)
    monkeypatch.setattr(probe, "sight_and_bias", lambda added: (sight, None))
    monkeypatch.setattr(loaded_network, "STORED_BYTES", 0)
    monkeypatch.setattr(scoring, "BLOCK_BYTES", 4 * 4 * len(LONG.split()) * 3)
    model, encoded = on_meta(name)
    made = PatternReductions(model, encoded, ("pattern", "z", "tiles", "metrics"))
    with Refusing().from_layer_to_layer(monkeypatch) as spans:
        left = run_texts(model, [encoded], None, ("pattern", "z"), made=made)["self"]
    assert spans == [model.n_layers]
    assert len(left.scored) == len(made._tiles) == model.n_layers
    assert {one.found.device.type for one in made._tiles} == {"meta"}
    assert made._sums is not None
    with pytest.raises(NotImplementedError, match="meta"):
        made._sums.finish()


@pytest.mark.parametrize(("name", "n_masks"), [("gpt2", 1), ("gemma2", 2), ("llama", 1)])
def test_each_mask_of_a_long_text_is_looked_at_once(
    monkeypatch: pytest.MonkeyPatch, name: str, n_masks: int
) -> None:
    looks = list[bool]()
    look = probe.sight_and_bias

    def counted(added: Tensor | None) -> object:
        looks.append(added is not None)
        return look(added)

    monkeypatch.setattr(probe, "sight_and_bias", counted)
    monkeypatch.setattr(loaded_network, "STORED_BYTES", 0)
    model = build(SINGLE[name], name)
    model.trace(LONG, keep=("pattern", "z", "tiles", "metrics"))
    assert len(looks) == n_masks < model.n_layers


@pytest.mark.parametrize("name", ["tiny-bert", "tiny-gpt2", "tiny-llama"])
def test_no_pass_of_a_report_waits_for_a_layer(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Its trace, the probe of repeated texts, and the copy with random weights."""
    as_on_a_card(monkeypatch)
    model = mv.load(name)
    with Refusing().from_layer_to_layer(monkeypatch) as spans:
        record = model.trace(TEXT, keep=KEEP)
        table = mv.head_report(record, model)
    assert len(spans) >= 2 and set(spans) == {model.n_layers}
    assert len(table) == model.n_layers * model.n_heads


def test_a_wait_between_layers_is_refused() -> None:
    refusing = Refusing()
    refusing.switch(True)
    numbers = torch.arange(5)
    with refusing:
        for wait in (
            lambda: numbers[2].item(),
            lambda: numbers[numbers > 2],
            lambda: bool((numbers > 2).all()),
            lambda: (numbers > 2).nonzero(),
            lambda: numbers.to("meta"),
        ):
            with pytest.raises(AssertionError, match="waits"):
                wait()
