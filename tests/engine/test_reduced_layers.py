"""A run that hands on each layer as soon as it is computed, and holds none of them."""

import pytest
import torch
import transformers as tf
from transformers import masking_utils

import mha_viz as mv
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.probe import LayerTensors
from mha_viz.engine.recording import record_of, reduce_texts, run_texts
from mha_viz.text.encoding import encode_texts
from mha_viz.text.tokens import Encoded
from tests.engine.test_families import FALLBACK, LONG, PAIRED, SHORT, SINGLE, build
from tests.making.comparing import close

NAMES = ["bert", "albert", "gpt2", "llama", "gemma2", "gpt_oss", "modernbert", "deberta-v2", "t5"]


@pytest.mark.parametrize("name", NAMES)
def test_each_layer_is_what_a_run_keeps_of_it(name: str) -> None:
    model = build({**SINGLE, **PAIRED}[name], name)
    pairs = [encode_texts(model.reader, text) for text in (LONG, SHORT)]
    sources = [source for source, _ in pairs]
    targets = [target for _, target in pairs] if len(model.parts) > 1 else None
    own = name in FALLBACK
    kept = run_texts(model, sources, targets, ("pattern",) if own else ("pattern", "z", "value"))
    expected = kept[model.parts[0]]
    handed: list[LayerTensors] = []

    def copy(one: LayerTensors) -> None:
        z, value = (None if t is None else t.clone() for t in (one.z, one.value))
        fresh = LayerTensors(one.layer, one.pattern.clone(), z, value, one.allowed, one.has_sinks)
        handed.append(fresh)
        one.pattern.fill_(7.0)  # as the description allows

    left = reduce_texts(model, sources, copy)
    assert [one.layer for one in handed] == list(range(model.n_layers))
    assert own or left.tensors == {}
    for layer, one in enumerate(handed):
        close(one.pattern, expected.pattern[layer])
        assert one.has_sinks == expected.has_sinks
        if own:
            assert one.z is None and one.value is None
            continue
        close(one.z, expected.tensors["z"][layer])
        close(one.value, expected.tensors["value"][layer])
        seen = expected.allowed[layer]
        assert (one.allowed is None) == (seen is None)
        assert seen is None or torch.equal(one.allowed, seen)


def test_an_error_of_the_reduction_ends_the_run(masked: mv.AttentionModel) -> None:
    done = []

    def stop(one: LayerTensors) -> None:
        done.append(one.layer)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reduce_texts(masked, [encode_texts(masked.reader, SHORT)[0]], stop)
    assert done == [0]


def test_one_memory_serves_all_layers() -> None:
    places, model = set(), build(SINGLE["gpt2"], "gpt2")
    sources = [encode_texts(model.reader, SHORT)[0]]
    reduce_texts(model, sources, lambda one: places.add(one.pattern.data_ptr()))
    assert len(places) == 1


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
    # torch's own error: the end fetches, and there is nothing to fetch from "meta".
    with pytest.raises(NotImplementedError, match="meta"):
        record_of(model, "self", left, 0, (encoded, None))
