"""LoRA adapters are merged into their base: as peft computes them, or refused with what to run."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import mha_viz as mv
from mha_viz.checkpoints.catalog import list_models
from mha_viz.errors import BrokenCheckpointError, ModelNotFoundError, UnsafeCheckpointError
from tests.making.checkpoints import TEXT, bert, gpt2, save
from tests.making.comparing import close

RANK, ALPHA = 3, 7.0
BERT = "encoder.layer.1.attention.self.query"
GPT2 = "transformer.h.2.attn.c_attn"


def matrices(*paths: str, width: int = 35, out: int = 35) -> dict[str, Tensor]:
    """A and B of some weights, as peft names them."""
    dice = torch.Generator().manual_seed(5)
    return {
        f"base_model.model.{path}.lora_{name}.weight": torch.randn(shape, generator=dice) / 3
        for path in paths
        for name, shape in (("A", (RANK, width)), ("B", (out, RANK)))
    }


def adapter(folder: Path, base: str | Path, tensors: dict[str, Tensor], **config: Any) -> Path:
    folder.mkdir(parents=True)
    save_file(tensors, folder / "adapter_model.safetensors")
    known = {"peft_type": "LORA", "base_model_name_or_path": str(base), "lora_alpha": ALPHA}
    harmless = {"r": RANK, "megatron_core": "megatron.core", "task_type": "CAUSAL_LM"}
    (folder / "adapter_config.json").write_text(json.dumps(known | harmless | config))
    return folder


def add(network: nn.Module, path: str, tensors: dict[str, Tensor], scale: float) -> None:
    """Compute beside a module what its adapter adds, and change no weight."""
    a, b = tensors.values()
    network.get_submodule(path).register_forward_hook(
        lambda _module, given, output: output + given[0] @ a.T @ b.T * scale
    )


@pytest.mark.extended
@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_a_merged_adapter_computes_as_one_beside_its_base(tmp_path, family, stable):
    network = bert() if family == "bert" else gpt2()
    # One was trained on a network without a head; the other changes weights that lie transposed.
    path, full, out = (BERT, f"bert.{BERT}", 35) if family == "bert" else (GPT2, GPT2, 105)
    tensors = matrices(path, out=out)
    base = save(network, tmp_path / "base", pairs=family == "bert")
    model = mv.load(str(adapter(tmp_path / "lora", base, tensors, use_rslora=stable)))
    network.set_attn_implementation("eager")
    plain = network.get_submodule(full).weight.clone()
    add(network, full, tensors, ALPHA / (math.sqrt(RANK) if stable else RANK))
    ids = torch.tensor([model.tokenizer(TEXT)["input_ids"]])
    expected = network(ids, output_attentions=True)
    close(model.trace(TEXT).pattern, torch.stack(expected.attentions)[:, 0].detach())
    assert not torch.equal(model.network.get_submodule(full).weight, plain)
    assert "merged into" in model.notes[0] and model.name == str(tmp_path / "lora")


def test_an_adapters_own_weights_replace_those_of_the_base_or_are_named(tmp_path):
    base = save(bert(), tmp_path / "base")
    bias = torch.arange(35.0)
    own = {
        f"base_model.model.bert.{BERT}.bias": bias,
        "base_model.model.classifier.weight": torch.ones(2, 35),
    }
    given = adapter(tmp_path / "lora", base, matrices(f"bert.{BERT}") | own)
    shutil.copy(base / "config.json", given)  # as some tools write it beside
    model = mv.load(str(given))
    close(model.network.get_submodule(f"bert.{BERT}").bias, bias)
    assert "weights for classifier.weight" in model.notes[1]


def test_an_adapter_of_a_shipped_model_goes_by_its_id_in_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    tensors = matrices("model.layers.1.self_attn.q_proj", width=256, out=256)
    at = tmp_path / "models--some-lab--lora" / "snapshots" / ("1" * 40)
    adapter(at, "tiny-llama", tensors)
    model, base = mv.load("some-lab/lora", download=False), mv.load("tiny-llama")
    a, b = tensors.values()
    weight = base.network.model.layers[1].self_attn.q_proj.weight
    expected = weight + b.double() @ a.double() * ALPHA / RANK
    close(model.network.model.layers[1].self_attn.q_proj.weight, expected.float())
    assert (model.n_layers, model.name) == (4, "some-lab/lora")
    assert "some-lab/lora" not in [info.name for info in list_models()]


def test_a_base_that_a_cached_adapter_names_is_no_folder_of_this_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    base = save(bert(), tmp_path / "secret")
    adapter(tmp_path / "models--a--lora" / "snapshots" / "1", base, matrices(BERT))
    with pytest.raises(BrokenCheckpointError, match="its base is no model of the Hub"):
        mv.load("a/lora", download=False)
    adapter(tmp_path / "models--b--lora" / "snapshots" / "1", "c/absent", matrices(BERT))
    save(bert(), tmp_path / "c/absent")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelNotFoundError, match="'c/absent' cannot be loaded without network"):
        mv.load("b/lora", download=False)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"peft_type": "IA3"}, "its kind is IA3"),
        ({"base_model_name_or_path": None}, "names no base_model"),
        ({"alpha_pattern": {"(a+)+$": 3}}, "it uses alpha_pattern"),
        ({"an_option_of_next_year": 1}, "it uses an_option_of_next_year"),
        ({"init_lora_weights": "pissa_niter_4"}, "it began as pissa_niter_4"),
        ({"lora_alpha": "7"}, "expected a number as lora_alpha, got 7"),
    ],
)
def test_what_is_not_merged_is_refused_with_the_lines_that_merge_it(
    folder, tmp_path, config, reason
):
    given = adapter(tmp_path / "lora", folder, matrices(BERT), **config)
    with pytest.raises(BrokenCheckpointError, match=reason) as caught:
        mv.load(str(given))
    assert "merge_and_unload(), then mv.wrap(network, transformers.Auto" in str(caught.value)


@pytest.mark.parametrize(
    ("tensors", "reason"),
    [
        (matrices(BERT, width=34), "does not fit a weight"),
        (matrices("encoder.layer.9.attention.self.query"), "nothing is known to take"),
        ({"base_model.model.x.lora_magnitude_vector": torch.ones(2)}, "nothing is known to take"),
        (dict([*matrices(BERT).items()][1:]), "nothing is known to take"),
        ({f"base_model.model.bert.{BERT}.bias": torch.ones(34)}, "does not fit a weight"),
        ({name: x[..., None] for name, x in matrices(BERT).items()}, "does not fit a weight"),
        ({name: x * math.nan for name, x in matrices(BERT).items()}, "NaN or infinite"),
    ],
)
def test_matrices_that_are_not_those_of_the_base_are_refused(folder, tmp_path, tensors, reason):
    with pytest.raises(BrokenCheckpointError, match=reason):
        mv.load(str(adapter(tmp_path / "lora", folder, tensors)))


def test_an_adapter_without_safetensors_or_of_an_adapter_is_refused(folder, tmp_path):
    first = adapter(tmp_path / "first", folder, matrices(BERT))
    with pytest.raises(BrokenCheckpointError, match="is an adapter, too"):
        mv.load(str(adapter(tmp_path / "second", first, matrices(BERT))))
    (first / "adapter_model.safetensors").rename(first / "adapter_model.bin")
    with pytest.raises(BrokenCheckpointError, match="only safetensors is read"):
        mv.load(str(first))
    (first / "adapter_model.safetensors").symlink_to("/dev/zero")
    with pytest.raises(UnsafeCheckpointError, match="is a device"):
        mv.load(str(first))
