"""The memory that a model takes: its arithmetic, weights by memory map, and refusals."""

import re
from pathlib import Path

import pytest
import torch
import transformers as tf

import mha_viz as mv
from mha_viz.checkpoints import building, loading
from mha_viz.core import available_memory
from mha_viz.errors import ArgumentError, OutOfMemoryError
from tests.making.checkpoints import TEXT, gpt2, save

LLAMA_8B = {
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 8192,
}
STATUS = Path("/proc/self/status")
RESET = Path("/proc/self/clear_refs")  # "5" sets the peak to what is held now
needs_proc = pytest.mark.skipif(not RESET.exists(), reason="reads /proc")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_size_of_a_folder_is_that_of_the_network_in_it(tmp_path, dtype):
    network = gpt2()
    folder = str(save(network, tmp_path / "gpt2", pairs=False))
    size = loading.size_of(folder, dtype)
    width = {"float32": 4, "bfloat16": 2}[dtype]
    n_parameters = network.num_parameters()
    assert (size.n_parameters, size.weights) == (n_parameters, width * n_parameters)
    assert size.n_ctx == network.config.n_positions


def test_size_of_a_token_counts_key_heads_once():
    config = tf.LlamaConfig(**LLAMA_8B)
    size = building.model_size(config, 8_030_261_248, torch.bfloat16)
    assert size.token == 2 * 4 * 32 * (32 + 8) * 128  # z, query; key, value; in float32
    assert size.weights == 16_060_522_496 and size.n_ctx == 8192


def test_token_bytes_are_those_of_a_record(tmp_path):
    model = mv.load(str(save(gpt2(), tmp_path / "gpt2", pairs=False)))
    model.cut_texts(1)  # from here on every text is a long one
    model.n_ctx = 31
    record = model.trace(TEXT, keep="all")
    size = building.model_size(model.network.config, 0, torch.float32)
    held = [record.z, record.query, record.key, record.value]
    assert sum(one.nbytes for one in held) == size.token * len(record.tokens)


# -- loading -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Path:
    """100 MB of weights, nearly all of them in one matrix."""
    config = tf.GPT2Config(vocab_size=200_000, n_embd=128, n_layer=1, n_head=2, n_positions=31)
    network = tf.GPT2LMHeadModel(config).eval()
    return save(network, tmp_path_factory.mktemp("large") / "large", pairs=False)


def resident(field: str) -> int:
    return 1024 * int(re.search(rf"{field}:\s+(\d+)", STATUS.read_text())[1])


@needs_proc
@pytest.mark.parametrize("dtype", ["auto", torch.float32, "bfloat16"])
def test_load_takes_no_more_memory_than_weights_and_file(large, dtype):
    stored = (large / "model.safetensors").stat().st_size
    mv.load(str(large), device="cpu", dtype=dtype)  # what the libraries take once
    RESET.write_text("5")
    before = resident("VmRSS")
    model = mv.load(str(large), device="cpu", dtype=dtype)
    weights = sum(weight.nbytes for weight in model.network.parameters())
    copied = weights if dtype == "bfloat16" else 0
    assert resident("VmHWM") - before < 1.2 * (stored + copied)


def test_dtype_auto_is_that_of_the_config_or_float32(tmp_path):
    half = save(gpt2().to(torch.float16), tmp_path / "half", pairs=False)
    assert mv.load(str(half), dtype="auto").dtype == torch.float16
    config = building.load_config(half)
    config.dtype = None
    config.save_pretrained(half)
    assert mv.load(str(half), dtype="auto").dtype == torch.float32


# -- several devices, as far as one machine without accelerate can tell ---------------------------


def test_device_map_needs_accelerate_and_no_device(monkeypatch):
    monkeypatch.setattr(loading, "find_spec", lambda name: None)
    with pytest.raises(ArgumentError, match="device_map needs the package accelerate, which is"):
        mv.load("tiny-bert", device_map="auto")
    with pytest.raises(ArgumentError, match="Give device or device_map, not both"):
        mv.load("tiny-bert", device="cpu", device_map="auto")


@pytest.mark.parametrize("device_map", ["auto", {"": "cpu"}])
def test_device_map_is_what_transformers_gets(tmp_path, monkeypatch, device_map):
    folder, got = str(save(gpt2(), tmp_path / "gpt2", pairs=False)), []
    read = tf.GPT2LMHeadModel.from_pretrained

    def with_accelerate(*args, device_map=None, **options):
        got.append(device_map)
        return read(*args, **options)

    monkeypatch.setattr(loading, "find_spec", lambda name: True)
    monkeypatch.setattr(tf.GPT2LMHeadModel, "from_pretrained", with_accelerate)
    model = mv.load(folder, device_map=device_map)
    assert got == [device_map]
    assert torch.equal(model.trace(TEXT).pattern, mv.load(folder).trace(TEXT).pattern)

    def offloaded(*args, **options):
        network, info = with_accelerate(*args, **options)
        network.transformer.wte.to("meta")
        return network, info

    monkeypatch.setattr(tf.GPT2LMHeadModel, "from_pretrained", offloaded)
    with pytest.raises(OutOfMemoryError, match="into the memory of the devices of device_map"):
        mv.load(folder, device_map=device_map)


# -- what does not fit ---------------------------------------------------------------------------


def test_load_refuses_weights_beyond_the_memory_before_reading_them(tmp_path, monkeypatch):
    folder = save(gpt2(), tmp_path / "gpt2", pairs=False)
    n_parameters = gpt2().num_parameters()
    monkeypatch.setattr(building, "available", lambda: 3 * n_parameters)
    assert mv.load(str(folder), device="cpu", dtype="bfloat16").dtype == torch.bfloat16
    read = lambda *_, **__: pytest.fail("was read")  # noqa: E731
    monkeypatch.setattr(tf.PreTrainedModel, "_load_pretrained_model", staticmethod(read))
    needed, there = 4 * n_parameters / 1000, 3 * n_parameters / 1000
    with pytest.raises(OutOfMemoryError, match=rf"needs {needed:.3g} kB .* {there:.3g} kB free"):
        mv.load(str(folder), device="cpu")


def test_check_room_reads_the_free_memory_of_a_graphics_card(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (7 * 10**9, 80 * 10**9))
    card = torch.device("cuda:0")
    building.check_room("m", 6 * 10**9, card)
    with pytest.raises(OutOfMemoryError, match=r"m needs 8 GB .*, and cuda:0 has 7 GB free"):
        building.check_room("m", 8 * 10**9, card)
    monkeypatch.setattr(available_memory, "_MACHINE", tmp_path / "nothing")
    assert available_memory.available() is None
    building.check_room("m", 10**15, torch.device("cpu"))


def test_available_is_what_a_container_has_left(monkeypatch, tmp_path):
    machine = tmp_path / "meminfo"
    machine.write_text("MemTotal: 16000 kB\nMemAvailable: 9000 kB\n")
    monkeypatch.setattr(available_memory, "_MACHINE", machine)
    monkeypatch.setattr(available_memory, "_GROUP", tmp_path)
    assert available_memory.available() == 9000 * 1024
    for name, value in {"max": 5000, "current": 4000, "stat": "anon 1\ninactive_file 300"}.items():
        (tmp_path / f"memory.{name}").write_text(f"{value}\n")
    assert available_memory.available() == 1300
    (tmp_path / "memory.max").write_text("max\n")
    assert available_memory.available() == 9000 * 1024
