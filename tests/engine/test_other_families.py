"""Families that need something else: refused with the next step, or run text by text."""

from typing import Any

import pytest
import torch
import transformers as tf
from safetensors.torch import load_file, save_file

import mha_viz as mv
from mha_viz.corpus.measure.batches import batches
from mha_viz.corpus.sources.source import Item
from mha_viz.errors import AttentionUnavailableError, BrokenCheckpointError

SIZES: dict[str, Any] = {"hidden_size": 20, "num_hidden_layers": 2, "num_attention_heads": 5}
SIZES |= {"intermediate_size": 12, "vocab_size": 4096}
IMAGE = {**SIZES, "image_size": 8, "patch_size": 4}
SEQUENCES = {"d_model": 20, "encoder_layers": 2, "decoder_layers": 2, "vocab_size": 4096}
SEQUENCES |= {"encoder_attention_heads": 5, "decoder_attention_heads": 5, "encoder_ffn_dim": 12}
SEQUENCES |= {"decoder_ffn_dim": 12, "pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0}
SEQUENCES |= {"decoder_start_token_id": 0}
TEXTS = ("The cat", "The cat sat on the mat and the dog ran away from it, and then it sat there.")


def tokenizer(name: str = "tiny-gpt2") -> Any:
    return mv.load(name).tokenizer


@pytest.mark.parametrize(
    ("make", "config", "message"),
    [
        (tf.MambaModel, tf.MambaConfig(hidden_size=20, num_hidden_layers=2), "has no attention"),
        (
            tf.WhisperModel,
            tf.WhisperConfig(**SEQUENCES),
            r"input_features, not text: .*mv\.capture",
        ),
        (tf.ViTModel, tf.ViTConfig(**IMAGE), r"pixel_values, not text: .*mv\.capture"),
        (
            tf.CLIPModel,
            tf.CLIPConfig(text_config=SIZES, vision_config=IMAGE),
            r"mv\.wrap\(network\.text_model\)",
        ),
        (
            tf.DPRQuestionEncoder,
            tf.DPRConfig(**SIZES),
            r"mv\.wrap\(network\.question_encoder\.bert_model\)",
        ),
        (tf.BigBirdModel, tf.BigBirdConfig(**SIZES), "attention_type='original_full'"),
        (
            tf.FalconModel,
            tf.FalconConfig(**SIZES),
            "built with 'sdpa' attention.*attn_implementation=\"eager\"",
        ),
    ],
)
def test_a_network_that_no_text_runs_through_says_what_to_do(
    make: Any, config: Any, message: str
) -> None:
    with pytest.raises(AttentionUnavailableError, match=message):
        mv.wrap(make(config), tokenizer())


def test_the_parts_that_a_refusal_names_can_be_wrapped() -> None:
    clip = tf.CLIPModel(tf.CLIPConfig(text_config=SIZES, vision_config=IMAGE))
    dpr = tf.DPRQuestionEncoder(tf.DPRConfig(**SIZES))
    for part in (clip.text_model, dpr.question_encoder.bert_model):
        assert mv.wrap(part, tokenizer()).trace(TEXTS[0]).shape[:2] == (2, 5)


def test_a_loaded_falcon_shows_no_weight_of_the_future(tmp_path: Any) -> None:
    network = tf.FalconForCausalLM(tf.FalconConfig(**SIZES, bos_token_id=0, eos_token_id=0))
    network.save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    model = mv.load(str(tmp_path))
    assert model.backend == "eager" and "of its own" in model.notes[0]
    record = model.trace(TEXTS[1])
    assert record.causal and not record.pattern.triu(1).any()
    ids = torch.tensor([[token.id for token in record.tokens]])
    eager = tf.FalconForCausalLM.from_pretrained(tmp_path, attn_implementation="eager").eval()
    own = torch.cat(eager(ids, output_attentions=True).attentions).detach()
    torch.testing.assert_close(record.pattern, own)


@pytest.mark.parametrize(
    ("make", "config", "limit"),
    [
        (tf.FlaubertModel, tf.FlaubertConfig(emb_dim=20, n_layers=2, n_heads=5, n_words=4096), 0),
        (
            tf.Phi3Model,
            tf.Phi3Config(
                **SIZES,
                num_key_value_heads=5,
                max_position_embeddings=64,
                original_max_position_embeddings=11,
                rope_scaling={
                    "type": "longrope",
                    "short_factor": [1.0, 1.0],
                    "long_factor": [2.0, 3.0],
                },
                **{f"{name}_token_id": 0 for name in ("pad", "bos", "eos")},
            ),
            11,
        ),
    ],
)
def test_texts_that_padding_would_change_run_alone(make: Any, config: Any, limit: int) -> None:
    # FlauBERT takes each token of the number that its config names for padding: here [CLS].
    model = mv.wrap(make(config), tokenizer("tiny-gpt2" if limit else "tiny-bert"))
    assert model.pad_limit == limit and "one by one" in model.notes[0]
    for record, text in zip(model.trace_batch(TEXTS), TEXTS, strict=True):
        torch.testing.assert_close(record.pattern, model.trace(text).pattern)
    items = [Item(i, text, "") for i, text in enumerate((*TEXTS, *TEXTS))]
    packed, _ = batches(model.reader, items, 1000)
    sizes = [len(batch.items) for batch in packed]
    assert sizes == ([2, 1, 1] if limit else [1, 1, 1, 1])
    assert mv.load("tiny-bert").pad_limit == float("inf")


def test_computed_positions_are_not_missing_and_renamed_weights_are(tmp_path: Any) -> None:
    network = tf.MarianMTModel(tf.MarianConfig(**SEQUENCES))
    network.save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    weights = {k: v for k, v in load_file(file).items() if "embed_positions" not in k}
    save_file(weights, file, {"format": "pt"})
    assert not mv.load(str(tmp_path)).notes
    save_file({f"module.{k}": v for k, v in weights.items()}, file, {"format": "pt"})
    with pytest.raises(BrokenCheckpointError, match=r"module\..*would be random"):
        mv.load(str(tmp_path))
