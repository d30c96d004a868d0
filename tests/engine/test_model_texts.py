"""AttentionModel: the texts that it takes, alone and in pairs, and those that it refuses."""

import pytest
import torch
import transformers as tf

import mha_viz as mv
from tests.making.checkpoints import OTHER, TEXT, WORDS, tokenizer
from tests.making.families import HEADED, build


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
