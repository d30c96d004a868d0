"""Texts of decoders, held to what the model's own training makes of them as labels."""

from typing import Any

import pytest
import torch
import transformers as tf

import mha_viz as mv
from tests.making.small_tokenizers import make

PIECES = ["▁the", "▁cat", "▁sat", "▁on", "▁mat", "▁", "s", "▁a"]
VOCAB = [(name, 0.0) for name in ("<s>", "<pad>", "</s>", "<unk>")]
VOCAB += [(piece, -float(i + 1)) for i, piece in enumerate(PIECES)]
MERGED = {name: i for i, (name, _) in enumerate(VOCAB)}
SIZES = {"d_model": 20, "encoder_layers": 2, "decoder_layers": 2, "max_position_embeddings": 40}
SIZES |= {"encoder_attention_heads": 5, "decoder_attention_heads": 5, "encoder_ffn_dim": 12}
T5 = {"d_model": 20, "d_kv": 4, "d_ff": 12, "num_layers": 2, "num_heads": 5}
T5 |= {"decoder_start_token_id": 0}


def _mbart(**languages: str) -> Any:
    return tf.MBartTokenizer(vocab=VOCAB, **languages)


def _nllb(**languages: str) -> Any:
    return tf.NllbTokenizer(vocab=MERGED, merges=[], **languages)


@pytest.mark.parametrize(
    ("tokenizer", "make_network", "config", "begin"),
    [
        (lambda: make("roberta_like"), tf.BartForConditionalGeneration, tf.BartConfig, "</s> <s>"),
        (lambda: make("t5_like"), tf.T5ForConditionalGeneration, tf.T5Config, "<pad>"),
        (
            lambda: _mbart(src_lang="en_XX", tgt_lang="ro_RO"),
            tf.MBartForConditionalGeneration,
            tf.MBartConfig,
            "ro_RO",
        ),
        (
            lambda: _mbart(src_lang="en_XX"),
            tf.MBartForConditionalGeneration,
            tf.MBartConfig,
            "en_XX",
        ),
        (
            lambda: _nllb(src_lang="eng_Latn", tgt_lang="fra_Latn"),
            tf.M2M100ForConditionalGeneration,
            tf.M2M100Config,
            "</s> fra_Latn",
        ),
    ],
)
def test_decoder_reads_what_its_training_makes_of_labels(
    tokenizer: Any, make_network: Any, config: Any, begin: str
) -> None:
    tokenizer = tokenizer()
    sizes = T5 if config is tf.T5Config else SIZES | {"decoder_ffn_dim": 12}
    if config is tf.BartConfig:
        sizes |= {"decoder_start_token_id": tokenizer.sep_token_id}
    network = make_network(config(vocab_size=len(tokenizer), **sizes)).eval()
    before = tokenizer("the cat sat").input_ids
    model = mv.wrap(network, tokenizer)
    record = model.trace("the cat sat", "a cat on the mat", part="cross")
    start = model.trace("the cat sat", part="decoder")
    assert start.labels == tuple(begin.split())
    assert record.labels[: len(start.labels)] == start.labels
    assert [token.is_special for token in record.tokens[:5]] == [
        i < len(start.labels) for i in range(5)
    ]
    assert tokenizer("the cat sat").input_ids == before  # its own mode stays

    network.set_attn_implementation("eager")
    own = network(
        **tokenizer("the cat sat", return_tensors="pt", return_token_type_ids=False),
        labels=tokenizer(text_target="a cat on the mat", return_tensors="pt").input_ids,
        output_attentions=True,
    )
    torch.testing.assert_close(record.pattern, torch.cat(own.cross_attentions).detach())
