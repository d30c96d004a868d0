"""AttentionModel: its arguments, many runs of one model, and what it refuses."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import transformers as tf
from torch import nn

import mha_viz as mv
from mha_viz.engine.attention_function import IMPLEMENTATION
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


def test_what_is_named_twice_is_kept_once(models):
    twice = models["bert"].trace(TEXT, keep=("pattern", "z", "pattern", "z"))
    assert twice == models["bert"].trace(TEXT, keep=("pattern", "z"))
    assert twice.n_layers == LAYERS


def test_all_that_there_is_can_be_kept(models):
    record = models["bert"].trace(TEXT, keep="all")
    assert record == models["bert"].trace(TEXT, keep=("pattern", "z", "query", "key", "value"))
    for name in ("z", "query", "key", "value"):
        assert record.kept(name) is not None


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


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_threads_with_different_probes_never_mix(models, name):
    model = models[name]
    jobs = [
        (TEXT, ("pattern",)),
        (OTHER, KEEPABLE),
        ("a cat", ("pattern", "key", "value")),
        ("the mat ran and ran and ran", ("pattern", "z")),
    ]
    expected = [model.trace(text, keep=keep) for text, keep in jobs]
    wrong: list[str] = []

    def work(first: int) -> None:
        for i in range(first, first + 60):
            text, keep = jobs[i % len(jobs)]
            layers: list[int] = []
            record = model.trace(text, keep=keep, on_layer=layers.append)
            if record != expected[i % len(jobs)] or layers != [1, 2, 3]:
                wrong.append(f"{text!r} in run {i} of thread {first}")

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(work, (0, 1)))
    assert wrong == []


def test_a_dropped_model_is_released(folders):
    model = mv.load(str(folders["bert"]))
    record = model.trace(TEXT, keep=("pattern",))
    network, layer = weakref.ref(model.network), weakref.ref(model.network.bert.encoder.layer[0])
    del model
    gc.collect()
    assert network() is None and layer() is None
    assert record.n_layers == LAYERS  # and its records live on


def test_tracing_does_not_pile_up_memory(models):
    models["bert"].trace(TEXT)
    gc.collect()
    before = sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects())
    for _ in range(5):
        models["bert"].trace(TEXT)
    gc.collect()
    assert sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects()) <= before + 2


def test_a_record_can_be_computed_with(models):
    """Its tensors are not those of inference mode, which autograd refuses."""
    record = models["bert"].trace(TEXT, keep=("pattern", "z", "query"))
    for tensor in (record.pattern, record.z, record.query):
        assert not tensor.is_inference() and not tensor.requires_grad
    gate = torch.ones(LAYERS, HEADS, 1, 1, requires_grad=True)
    (record.z * gate).sum().backward()
    assert gate.grad is not None


# -- families that give nothing ------------------------------------------------------------------


def test_a_family_without_attention_is_refused():
    config = tf.MambaConfig(vocab_size=len(WORDS), hidden_size=8, num_hidden_layers=2, state_size=3)
    network = tf.AutoModel.from_config(config).eval()
    with pytest.raises(AttentionUnavailableError):
        AttentionModel(network, tokenizer(pairs=False), name="mamba")


def test_a_network_that_takes_no_text_is_refused():
    config = tf.ViTConfig(
        hidden_size=10,
        num_hidden_layers=2,
        num_attention_heads=5,
        intermediate_size=11,
        image_size=16,
        patch_size=8,
    )
    network = tf.AutoModel.from_config(config, attn_implementation=IMPLEMENTATION).eval()
    with pytest.raises(AttentionUnavailableError, match="plain text does not run"):
        AttentionModel(network, tokenizer(pairs=False), name="vit")


# -- the network inside --------------------------------------------------------------------------


def test_running_out_of_memory_is_told(models, monkeypatch):
    def forward(*args, **kwargs):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    model = models["bert"]
    monkeypatch.setattr(model.network.base_model, "forward", forward)
    with pytest.raises(mv.MhaVizError, match="ran out of memory on cpu"):
        model.trace(TEXT)


def test_a_model_is_in_evaluation_mode_and_asks_for_no_gradients(models):
    for model in models.values():
        assert not model.network.training
        assert not any(p.requires_grad for p in model.network.parameters())
        assert isinstance(model.network, nn.Module)


def test_repr_says_what_it_is_and_runs_nothing(models, monkeypatch):
    def forward(*args, **kwargs):
        pytest.fail("repr ran the network")

    monkeypatch.setattr(models["bert"].network.base_model, "forward", forward)
    assert "layers=3, heads=5" in repr(models["bert"])
