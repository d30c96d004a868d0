"""Records and runs of ids: of a generation, a padded batch, a pair, a chat, and of no text."""

from typing import Any

import numpy as np
import pytest
import torch
import transformers as tf

import mha_viz as mv
from mha_viz.errors import RecordError, TextError

TEXT = "The old cat sat on the mat"
SIZES = {"hidden_size": 24, "intermediate_size": 20, "num_attention_heads": 4}
SIZES |= {"num_key_value_heads": 2, "num_hidden_layers": 3, "vocab_size": 4096}
SIZES |= {"eos_token_id": None, "bos_token_id": 0, "pad_token_id": 0}
NEW = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
NEW |= {"return_dict_in_generate": True, "output_attentions": True}
WINDOW = 5
GENERATING = {
    "all keys": (tf.LlamaForCausalLM, tf.LlamaConfig(**SIZES)),
    "a window": (tf.MistralForCausalLM, tf.MistralConfig(**SIZES, sliding_window=WINDOW)),
    "both": (
        tf.Gemma3ForCausalLM,
        tf.Gemma3TextConfig(**SIZES | {"num_hidden_layers": 7}, head_dim=6, sliding_window=WINDOW),
    ),
}


@pytest.fixture(scope="module")
def tokenizer() -> tf.PreTrainedTokenizerBase:
    return mv.load("tiny-gpt2").tokenizer


@pytest.mark.parametrize("kind", GENERATING)
def test_record_of_generate_is_that_of_the_whole_text(kind: str, tokenizer: Any) -> None:
    make, config = GENERATING[kind]
    network = make(config).eval()
    network.set_attn_implementation("eager")
    ids = tokenizer(TEXT, return_tensors="pt").input_ids
    made = network.generate(ids, **NEW)
    whole = torch.cat(network(made.sequences[:, :-1], output_attentions=True).attentions).detach()
    record = mv.record(made.attentions, made.sequences, tokenizer=tokenizer)
    torch.testing.assert_close(record.pattern, whole)
    assert (
        record.causal and [token.id for token in record.tokens] == made.sequences[0, :-1].tolist()
    )
    assert record.labels[:7] == tuple(TEXT.split())

    network.set_attn_implementation("sdpa")
    with mv.capture(network) as taken:
        network.generate(ids, **NEW | {"output_attentions": False})
    pieces = tokenizer.convert_ids_to_tokens(made.sequences[0])
    torch.testing.assert_close(taken.record(pieces).pattern, whole)


def test_record_of_generate_of_two_stacks(tokenizer: Any) -> None:
    config = tf.T5Config(d_model=24, d_kv=6, d_ff=20, num_layers=2, num_heads=4, vocab_size=4096,
                         decoder_start_token_id=0)  # fmt: skip
    network = tf.T5ForConditionalGeneration(config).eval()
    network.set_attn_implementation("eager")
    ids = tokenizer(TEXT, return_tensors="pt").input_ids
    made = network.generate(ids, **NEW)
    whole = network(ids, decoder_input_ids=made.sequences[:, :-1], output_attentions=True)
    decoder = mv.record(made.decoder_attentions, made.sequences, tokenizer=tokenizer)
    torch.testing.assert_close(decoder.pattern, torch.cat(whole.decoder_attentions).detach())
    cross = mv.record(made.cross_attentions, made.sequences, ids, tokenizer=tokenizer)
    torch.testing.assert_close(cross.pattern, torch.cat(whole.cross_attentions).detach())
    assert cross.tokens[0].is_special and cross.text == TEXT
    assert cross.merge_words().key_labels == tuple(TEXT.split())


def test_several_runs_that_are_no_generation_are_refused() -> None:
    layer = torch.nn.TransformerEncoderLayer(14, 2, batch_first=True).eval()
    with mv.capture(layer) as taken:
        for n in (3, 5):
            layer(torch.randn(1, n, 14))
    with pytest.raises(RecordError, match="called 2 times"):
        taken.record("abcde")


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_is_no_text(side: str) -> None:
    model = mv.load("tiny-gpt2")
    network = tf.AutoModel.from_pretrained(
        "models/tiny-gpt2", attn_implementation="eager", dtype=torch.float32
    )
    tokenizer = tf.AutoTokenizer.from_pretrained("models/tiny-gpt2", padding_side=side)
    tokenizer.pad_token = tokenizer.eos_token
    batch = tokenizer([TEXT, TEXT + " and the dog ran."], padding=True, return_tensors="pt")
    positions = (batch.attention_mask.cumsum(-1) - 1).clamp(min=0)
    run = network(**batch, position_ids=positions, output_attentions=True)
    weights = [layer[0] for layer in run.attentions]
    ids, mask = batch.input_ids[0].numpy(), batch.attention_mask[0]
    record = mv.record(weights, ids, tokenizer=tokenizer, attention_mask=mask)
    alone = model.trace(TEXT)
    torch.testing.assert_close(record.pattern, alone.pattern, atol=1e-5, rtol=1e-4)
    assert record.tokens == alone.tokens and record.causal and record.text == TEXT
    with pytest.raises(RecordError, match="was not given this attention_mask"):
        mv.record(weights, ids, attention_mask=1 - mask, tokenizer=tokenizer)
    with pytest.raises(RecordError, match="at most"):
        mv.record(weights, ids, attention_mask=[0] * len(ids), tokenizer=tokenizer)


def test_ids_of_any_container_run_as_the_text_does() -> None:
    model = mv.load("tiny-bert")
    text = model.trace(TEXT, "It ran.")
    ids = [token.id for token in text.tokens]
    for given in (ids, np.array(ids), torch.tensor([ids])):
        record = model.trace(given)
        assert torch.equal(record.pattern, text.pattern)
        assert record.labels[1:7] == tuple(TEXT.lower().split()[:6])
        assert [one.segment for one in record.tokens] == [one.segment for one in text.tokens]
    assert len(model.trace(ids * 40).tokens) == model.n_ctx
    assert "cut to" in model.trace(ids * 40).notes[-1]


def test_ids_that_no_text_gives_carry_their_pieces(tokenizer: Any) -> None:
    model = mv.load("tiny-gpt2")
    ids = tokenizer(TEXT).input_ids
    parts = [*tokenizer(" m").input_ids, *tokenizer("at").input_ids]  # " mat" is one token
    record = model.trace([*ids[:3], *parts])
    assert record.labels == ("The", "old", "cat", "m", "at")
    assert [token.word for token in record.tokens] == [0, 1, 2, 3, 3]
    assert record.merge_words().shape[2] == 4


def test_a_chat_runs_by_the_template_and_its_marks_are_special(tokenizer: Any) -> None:
    model = mv.load("tiny-gpt2")
    messages = [{"role": "user", "content": "The cat"}, {"role": "user", "content": "sat."}]
    with pytest.raises(TextError, match="no chat template"):
        model.trace(messages)
    model.tokenizer.chat_template = (
        "{% for m in messages %}<|endoftext|>{{ m.content }}{% endfor %}"
    )
    record = model.trace(messages)
    assert record.labels == ("<|endoftext|>", "The", "cat", "<|endoftext|>", *record.labels[4:])
    assert [i for i, token in enumerate(record.tokens) if token.is_special] == [0, 3]
    assert record.text == "The cat sat."
    typed = model.trace("<|endoftext|>The cat")
    assert [token.is_special for token in typed.tokens] == [True, False, False]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "no ids"),
        ([-1], "got -1"),
        ([4096], "4,096 of 4,096"),
        (torch.ones(2, 3, dtype=torch.long), r"got shape \(2, 3\)"),
        (torch.ones(3), "whole numbers"),
    ],
)
def test_ids_that_are_none_are_refused(given: Any, message: str) -> None:
    with pytest.raises(TextError, match=message):
        mv.load("tiny-gpt2").trace(given)
