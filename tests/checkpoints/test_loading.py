"""Loading: shipped and local checkpoints, and what in a bad one is refused or told."""

import json
import logging
from pathlib import Path

import pytest
import torch
import transformers as tf
from safetensors.torch import load_file, save_file
from transformers.utils import logging as transformers_logging

import mha_viz as mv
from mha_viz.errors import (
    ArgumentError,
    BrokenCheckpointError,
    MhaVizError,
    TextError,
    UnsafeCheckpointError,
)
from tests.making.checkpoints import (
    LAYERS,
    TEXT,
    WORDS,
    bert,
    copy,
    gpt2,
    save,
    tokenizer,
)


def change_weights(folder: Path, **changes: torch.Tensor | None) -> None:
    """Other tensors in the file, by names with __ for the dot; None takes one out."""
    path = folder / "model.safetensors"
    weights = load_file(path)
    for name, tensor in changes.items():
        weights[name.replace("__", ".")] = tensor
    save_file({k: v for k, v in weights.items() if v is not None}, path, {"format": "pt"})


# -- what loads ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "causal"), [("tiny-bert", False), ("tiny-gpt2", True), ("tiny-llama", True)]
)
def test_shipped_models_load_and_trace_quietly(name, causal, capfd):
    model = mv.load(name)
    record = model.trace("The cat sat on the mat.")
    assert (model.backend, model.causal, model.notes) == ("mha_viz", causal, ())
    assert record.pattern.shape[:2] == (4, 8)
    assert (record.pattern.sum(-1) - 1).abs().max() < 1e-5
    assert capfd.readouterr() == ("", "")  # no progress bar either


def test_loading_leaves_transformers_log_and_bars_as_they_were(folder):
    level = logging.getLogger("transformers").level
    transformers_logging.enable_progress_bar()
    mv.load(str(folder))
    assert transformers_logging.is_progress_bar_enabled()
    assert logging.getLogger("transformers").level == level
    transformers_logging.disable_progress_bar()
    mv.load(str(folder))
    assert not transformers_logging.is_progress_bar_enabled()


def test_a_sharded_checkpoint_is_the_same_model(folder, tmp_path):
    sharded = save(bert(), tmp_path / "sharded", max_shard_size="20KB")
    assert len(list(sharded.glob("*.safetensors"))) > 1
    assert torch.equal(
        mv.load(str(sharded)).trace(TEXT).pattern, mv.load(str(folder)).trace(TEXT).pattern
    )


@pytest.mark.parametrize("dtype", ["bfloat16", torch.bfloat16])
def test_bfloat16_gives_a_float32_record_near_that_of_float32(folder, dtype):
    model = mv.load(str(folder), dtype=dtype)
    assert model.dtype == torch.bfloat16 and model.backend == "mha_viz"
    record, exact = model.trace(TEXT), mv.load(str(folder)).trace(TEXT)
    assert record.pattern.dtype == record.z.dtype == torch.float32
    assert (record.pattern.sum(-1) - 1).abs().max() < 0.01
    assert 0 < (record.pattern - exact.pattern).abs().max() < 0.05
    assert torch.get_default_dtype() == torch.float32


@pytest.mark.parametrize(
    "options", [{"device": "tpu"}, {"device": ""}, {"dtype": "int8"}, {"dtype": "float64"}]
)
def test_unknown_device_or_dtype(options):
    with pytest.raises(ArgumentError, match="must be"):
        mv.load("tiny-bert", **options)


@pytest.mark.skipif(torch.cuda.is_available(), reason="has a CUDA device")
def test_a_device_that_is_not_here():
    with pytest.raises(ArgumentError, match=r"no cuda:1: choose auto or cpu"):
        mv.load("tiny-bert", device="cuda:1")


# -- what does not -------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers(folder, tmp_path, number):
    bad = copy(folder, tmp_path / "bad")
    name = "bert__encoder__layer__1__attention__self__key__bias"
    change_weights(bad, **{name: torch.full((35,), number)})
    with pytest.raises(BrokenCheckpointError, match=r"NaN or infinite numbers in .*layer\.1.*key"):
        mv.load(str(bad))


def test_weights_of_another_shape(folder, tmp_path):
    bad = copy(folder, tmp_path / "bad")
    name = "bert__encoder__layer__0__attention__self__query__weight"
    change_weights(bad, **{name: torch.zeros(35, 36)})
    with pytest.raises(
        BrokenCheckpointError, match=r"query.*\(35, 36\) in the file and \(35, 35\)"
    ):
        mv.load(str(bad))


@pytest.mark.parametrize("model_type", ["bert", "a-family-of-its-own"])
def test_foreign_code_never_runs(folder, tmp_path, model_type):
    marker = tmp_path / "ran"
    bad = copy(
        folder,
        tmp_path / "bad",
        model_type=model_type,
        auto_map={
            "AutoConfig": "foreign.Config",
            "AutoModel": "foreign.Model",
            "AutoModelForMaskedLM": "foreign.Model",
            "AutoTokenizer": "foreign.Tokenizer",
        },
    )
    (bad / "foreign.py").write_text(f"open({str(marker)!r}, 'w')\nConfig = Model = Tokenizer = 0\n")
    path = bad / "tokenizer_config.json"
    named = {"auto_map": {"AutoTokenizer": ["foreign.Tokenizer", None]}}
    path.write_text(json.dumps(json.loads(path.read_text()) | named))
    if model_type == "bert":
        assert mv.load(str(bad)).n_layers == LAYERS  # transformers' own code does
    else:
        with pytest.raises(UnsafeCheckpointError, match="code of its own"):
            mv.load(str(bad))
    assert not marker.exists()


def test_an_unknown_family(folder, tmp_path):
    with pytest.raises(BrokenCheckpointError, match="not one that transformers can use"):
        mv.load(str(copy(folder, tmp_path / "bad", model_type="no-such-family")))


@pytest.mark.parametrize("base", ["bert", "gpt2"])
def test_one_stack_that_is_said_to_be_two(folders, tmp_path, base):
    bad = copy(folders[base], tmp_path / "bad", is_encoder_decoder=True)
    with pytest.raises(BrokenCheckpointError, match=r"is an encoder-decoder, but .* is one stack"):
        mv.load(str(bad))


@pytest.mark.parametrize(
    "claim",
    [
        {"text_config": {"model_type": "llama"}},
        {"id2label": 5},
        {"return_dict": False},
        {"quantization_config": 5},
        {"quantization_config": {"quant_method": "gptq", "bits": 4}},
        {"num_attention_heads": 0},
    ],
    ids=str,
)
def test_whatever_a_config_makes_the_libraries_raise_is_ours(folder, tmp_path, claim):
    with pytest.raises(MhaVizError) as caught:
        mv.load(str(copy(folder, tmp_path / "odd", **claim)))
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 600


def test_a_tokenizer_of_another_model(folder, tmp_path):
    odd = copy(folder, tmp_path / "odd")
    tokenizer(True, [*WORDS, *"A short text , to see whether dog".split()]).save_pretrained(odd)
    model = mv.load(str(odd))
    assert any("do not belong together" in note for note in model.notes)
    assert model.trace(TEXT).n_layers == LAYERS
    with pytest.raises(TextError, match="do not belong together"):
        model.trace("the dog")


# -- missing weights are told, not hidden --------------------------------------------------------


def test_missing_attention_bias_of_gpt2_is_noted(tmp_path):
    """ "attn.c_attn.bias" ends like the buffer "attn.bias" that old files rightly lack."""
    odd = save(gpt2(), tmp_path / "odd", pairs=False)
    change_weights(odd, transformer__h__1__attn__c_attn__bias=None)
    (note,) = mv.load(str(odd)).notes
    assert "h.1.attn.c_attn.bias" in note and "mean nothing" in note


def test_a_missing_head_spoils_predictions_only(folder, tmp_path):
    odd = copy(folder, tmp_path / "odd")
    change_weights(odd, cls__predictions__transform__dense__weight=None)
    (note,) = mv.load(str(odd)).notes
    assert "predictions mean nothing" in note and "Attention does not depend" in note
    assert torch.equal(
        mv.load(str(odd)).trace(TEXT).pattern, mv.load(str(folder)).trace(TEXT).pattern
    )


def test_a_missing_pooler_is_nobodys_business(folder, tmp_path):
    base = save(bert().bert, tmp_path / "base")
    assert "pooler.dense.weight" not in load_file(base / "model.safetensors")
    assert mv.load(str(base)).notes == ()


def test_a_model_of_images_says_what_to_do_instead(tmp_path):
    images = tmp_path / "vit"
    config = tf.ViTConfig(hidden_size=12, num_hidden_layers=2, num_attention_heads=3)
    tf.ViTModel(config).save_pretrained(images)
    (images / "preprocessor_config.json").write_text("{}")
    with pytest.raises(BrokenCheckpointError, match=r"reads images .* mv\.capture"):
        mv.load(str(images))
