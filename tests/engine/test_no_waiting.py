"""A trace reads nothing from the device of its model before the end of the pass."""

import pytest
import transformers as tf
from transformers import masking_utils

from mha_viz.engine.model import AttentionModel
from mha_viz.engine.recording import record_of, run_texts
from mha_viz.text.encoding import encode_texts
from mha_viz.text.tokens import Encoded
from tests.engine.test_families import LONG, SINGLE, build


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


@pytest.mark.parametrize("name", ["bert", "gemma2", "llama"])
def test_a_trace_fetches_nothing_before_its_end(meta: None, name: str) -> None:
    model, encoded = on_meta(name)
    keep = ("pattern", "z", "value")
    left = run_texts(model, [encoded], None, keep)["self"]
    for kept in keep:
        assert [one.device.type for one in left.tensors[kept]] == ["meta"] * model.n_layers
    with pytest.raises(NotImplementedError, match="meta"):  # the end is what fetches
        record_of(model, "self", left, 0, (encoded, None))
