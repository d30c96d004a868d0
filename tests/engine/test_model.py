"""AttentionModel: its arguments, many runs of one model, and what it refuses."""

import gc
import weakref

import pytest
import torch
import transformers as tf

import mha_viz as mv
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.probe import KEEPABLE
from mha_viz.errors import ArgumentError, AttentionUnavailableError, NotKeptError
from tests.making.checkpoints import D_HEAD, HEADS, LAYERS, OTHER, TEXT, WORDS, tokenizer
from tests.making.comparing import close
from tests.making.families import build

# -- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [(), ("z",), ("pattern", "scores"), "pattern"])
def test_unknown_things_to_keep(models, keep):
    with pytest.raises(ArgumentError, match="keep must be"):
        models["bert"].trace(TEXT, keep=keep)


def test_unknown_parts_and_layers(models):
    with pytest.raises(ArgumentError, match=r"part\(s\) self, got 'cross'"):
        models["bert"].trace(TEXT, part="cross")
    for layer in (-1, LAYERS):
        with pytest.raises(ArgumentError, match=r"0\.\.2"):
            models["bert"].attention_weights(layer)
    with pytest.raises(ArgumentError, match="part"):
        models["bert"].attention_weights(0, part="decoder")
    with pytest.raises(ArgumentError, match="at least one"):
        models["bert"].trace_batch([])


def test_only_what_is_asked_for_is_kept(models):
    record = models["gpt2"].trace(TEXT, keep=("pattern",))
    assert record.z is None and record.query is None
    with pytest.raises(NotKeptError):
        _ = record.head_output
    record = models["gpt2"].trace(TEXT, keep=("pattern", "query"))
    assert record.query.shape == (LAYERS, HEADS, 6, D_HEAD)
    assert record.key is None and record.value is None


@pytest.mark.parametrize("name", ["llama", "t5"])
def test_z_is_the_pattern_times_the_kept_values(name):
    model = build(name)
    pair = (OTHER,) if name == "t5" else ()
    for part, record in model.trace_parts(TEXT, *pair, keep=KEEPABLE).items():
        keys = (record.n_layers, model.n_kv_heads, len(record.key_tokens))
        assert record.value.shape == (*keys, model.d_head), part
        group = record.n_heads // model.n_kv_heads  # in Llama two query heads share what is read
        assert group == (2 if name == "llama" else 1)
        for layer in range(record.n_layers):
            value = record.for_query_heads("value", layer)
            close(record.pattern[layer] @ value, record.z[layer])
            for head in range(record.n_heads):
                assert torch.equal(value[head], record.value[layer, head // group])
            assert group == 1 or not torch.equal(value[0], value[group])
        assert not record.value.is_inference()


# -- one model, many runs ------------------------------------------------------------------------


def test_on_layer_is_called_once_per_layer_and_may_abandon_the_run(models):
    class Abandoned(Exception):
        pass

    seen: list[int] = []

    def stop_at_two(done: int) -> None:
        seen.append(done)
        if done == 2:
            raise Abandoned

    for model in models.values():
        before = model.trace(TEXT)
        seen.clear()
        model.trace(TEXT, on_layer=seen.append)
        assert seen == [1, 2, 3]
        seen.clear()
        with pytest.raises(Abandoned):
            model.trace(TEXT, on_layer=stop_at_two)
        assert seen == [1, 2]
        assert model.trace(TEXT) == before


def test_on_layer_counts_through_both_stacks():
    seen: list[int] = []
    build("t5").trace(TEXT, OTHER, on_layer=seen.append)
    assert seen == list(range(1, 2 + 2 * 3 + 1))  # two of the encoder, two in each of the decoder's


def test_a_dropped_model_is_released(folders):
    model = mv.load(str(folders["bert"]))
    record = model.trace(TEXT, keep=("pattern",))
    network, layer = weakref.ref(model.network), weakref.ref(model.network.bert.encoder.layer[0])
    del model
    gc.collect()
    assert network() is None and layer() is None
    assert record.n_layers == LAYERS  # and its records live on


# -- families that give nothing ------------------------------------------------------------------


def test_a_family_without_attention_is_refused():
    config = tf.MambaConfig(vocab_size=len(WORDS), hidden_size=8, num_hidden_layers=2, state_size=3)
    network = tf.AutoModel.from_config(config).eval()
    with pytest.raises(AttentionUnavailableError):
        AttentionModel(network, tokenizer(pairs=False), name="mamba")


# -- the network inside --------------------------------------------------------------------------


def test_running_out_of_memory_is_told(models, monkeypatch):
    def forward(*args, **kwargs):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    model = models["bert"]
    monkeypatch.setattr(model.network.base_model, "forward", forward)
    with pytest.raises(mv.MhaVizError, match="ran out of memory on cpu"):
        model.trace(TEXT)
