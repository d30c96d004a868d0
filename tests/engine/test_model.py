"""AttentionModel: its arguments, many runs of one model, and what it refuses."""

import gc
import weakref

import pytest
import torch
import transformers as tf

import mha_viz as mv
from mha_viz.core.record.patterns import ComputedPatterns, StoredPatterns
from mha_viz.engine import loaded_network, recording
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.probe import KEEPABLE
from mha_viz.errors import ArgumentError, AttentionUnavailableError, NotKeptError
from tests.making.checkpoints import D_HEAD, HEADS, LAYERS, N_CTX, OTHER, TEXT, WORDS, tokenizer
from tests.making.comparing import close
from tests.making.families import HEADED, build

# -- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [(), ("z",), ("pattern", "scores"), "pattern"])
def test_unknown_things_to_keep(models, keep):
    with pytest.raises(ArgumentError, match="keep must be"):
        models["bert"].trace(TEXT, keep=keep)


def test_unknown_parts_and_layers(models, monkeypatch):
    with pytest.raises(ArgumentError, match=r"part\(s\) self, got 'cross'"):
        models["bert"].trace(TEXT, part="cross")
    for layer in (-1, LAYERS):
        with pytest.raises(ArgumentError, match=r"0\.\.2"):
            models["bert"].attention_weights(layer)
    with pytest.raises(ArgumentError, match="part"):
        models["bert"].attention_weights(0, part="decoder")
    with pytest.raises(ArgumentError, match="at least one"):
        models["bert"].trace_batch([])
    config = tf.MambaConfig(vocab_size=len(WORDS), hidden_size=8, num_hidden_layers=2, state_size=3)
    network = tf.AutoModel.from_config(config).eval()
    with pytest.raises(AttentionUnavailableError):
        AttentionModel(network, tokenizer(pairs=False), name="mamba")
    monkeypatch.setattr(models["bert"], "backend", "eager")
    for ask in (models["bert"].head_weights, lambda _: models["bert"].attention_weights(0)):
        with pytest.raises(AttentionUnavailableError, match="computes its attention by itself"):
            ask("W_Q")


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


# -- the network inside --------------------------------------------------------------------------


def test_running_out_of_memory_is_told(models, monkeypatch):
    def forward(*args, **kwargs):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    model = models["bert"]
    monkeypatch.setattr(model.network.base_model, "forward", forward)
    with pytest.raises(mv.MhaVizError, match="ran out of memory on cpu"):
        model.trace(TEXT)


MATRICES = ("W_Q", "W_K", "W_V", "W_O")


def test_head_weights_of_shared_heads_are_repeated():
    model = build("llama")
    for name in MATRICES:
        for layer, weight in enumerate(model.head_weights(name)):
            own = getattr(model.attention_weights(layer), name)
            assert len(weight) == 6 and len(own) == (3 if name in ("W_K", "W_V") else 6)
            for head in range(6):
                assert torch.equal(weight[head], own[head * len(own) // 6])


def test_head_weights_of_a_part_and_of_nothing(models):
    model = build("t5")
    for part, layers in (("encoder", 2), ("decoder", 3), ("cross", 3)):
        weights = model.head_weights("W_K", part)
        assert len(weights) == layers
        assert torch.equal(weights[1], model.attention_weights(1, part).W_K)
    assert torch.equal(model.head_weights("W_K")[0], model.head_weights("W_K", "encoder")[0])
    for name in ("W_X", "b_Q", "", "scale"):
        with pytest.raises(ArgumentError, match="name must be one of W_Q, W_K, W_V, W_O"):
            model.head_weights(name)
    with pytest.raises(ArgumentError, match=r"part\(s\) self, got 'cross'"):
        models["bert"].head_weights("W_Q", part="cross")


@pytest.mark.parametrize(
    ("name", "special", "n_ctx"),
    [("tiny-bert", 2, 128), ("tiny-gpt2", 0, 128), ("tiny-llama", 0, 1024)],
)
def test_a_long_text_is_cut_and_the_record_says_by_how_much(name, special, n_ctx):
    model, text = mv.load(name), "cat " * (n_ctx + 200)
    assert model.n_ctx == n_ctx
    record = model.trace(text, keep=("pattern",))
    whole = len(model.tokenizer(text, add_special_tokens=False)["input_ids"])
    assert len(record.tokens) == n_ctx
    (note,) = record.notes
    assert (
        f"cut to {n_ctx:,} tokens" in note
        and f" {whole - n_ctx + special:,} tokens were left out" in note
    )
    assert model.trace("cat").notes == ()


@pytest.mark.parametrize("pad", [0, 5])
def test_n_ctx_of_roberta_leaves_out_the_positions_up_to_its_padding(pad):
    config = tf.RobertaConfig(**HEADED | dict(pad_token_id=pad))
    model = mv.wrap(tf.RobertaModel(config), tokenizer(pairs=False))
    assert len(model.trace("cat " * 99).tokens) == model.n_ctx == 31 - pad - 1


def test_a_pair_is_two_segments(models):
    record = models["bert"].trace(TEXT, OTHER)
    assert [t.segment for t in record.tokens] == [0] * 8 + [1] * 9
    assert [i for i, t in enumerate(record.tokens) if t.is_special] == [0, 7, 16]
    assert (record.text, record.text_pair) == (TEXT, OTHER)
    # The second segment has an embedding of its own: its text read as part of the first is another.
    assert not torch.allclose(
        record.pattern[..., :6, :6], models["bert"].trace(TEXT).pattern[..., :6, :6], atol=1e-3
    )
    assert models["bert"].accepts_pair


def test_the_decoders_text_is_the_records_second_text():
    record = build("t5").trace(TEXT, OTHER, part="cross")
    assert (record.text, record.text_pair) == (TEXT, OTHER)
    typed = [token for token in record.tokens if not token.is_special]
    assert [OTHER[t.start : t.end] for t in typed] == OTHER.split()
    assert {t.segment for t in record.tokens} == {1} and {t.segment for t in record.key_tokens} == {
        0
    }


def test_a_text_that_is_largely_unknown_says_so():
    model = mv.load("tiny-bert")
    (note,) = model.trace("北京是中国的首都").notes
    assert "8 of " in note
    few = "The old cat sat on the mat beside the red door. 北"
    pair = model.trace(few, "北京")
    assert not model.trace(few).notes and not pair.notes  # 3 of 16
    assert not model.trace("[UNK] [UNK]").notes  # typed, and read as typed
    assert not mv.load("tiny-gpt2").trace("<|endoftext|> 北京").notes
    (note,) = mv.predict(model, "北京 [MASK]").notes
    assert "2 of the 3" in note


def test_n_ctx_of_a_family_that_counts_no_positions_is_bounded_by_memory_alone():
    config = tf.BloomConfig(vocab_size=len(WORDS), hidden_size=20, n_layer=2, n_head=5)
    model = mv.wrap(tf.BloomModel(config), tokenizer(pairs=False))
    assert model.n_ctx > 2048
    assert len(model.trace("cat " * 700).tokens) == 700


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
