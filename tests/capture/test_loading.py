"""Loading: shipped, cached and local checkpoints, and every kind of bad one."""

import json
import logging
import pickle
import struct
import threading
import time
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants
from safetensors.torch import load_file, save_file
from transformers.utils import logging as transformers_logging

import mha_viz as mv
from mha_viz.capture import catalog
from mha_viz.capture.catalog import find_model, list_models
from mha_viz.errors import (
    ArgumentError,
    BrokenCheckpointError,
    MhaVizError,
    ModelNotFoundError,
    TextError,
    UnsafeCheckpointError,
)
from tests.capture.checkpoints import (
    HEADS,
    LAYERS,
    WORDS,
    bert,
    bounded,
    copy,
    gpt2,
    save,
    tokenizer,
)

TEXT = "the cat sat on a mat"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(bert(), tmp_path_factory.mktemp("checkpoints") / "bert")


def change_weights(folder: Path, **changes: torch.Tensor | None) -> None:
    """Other tensors in the file, by names with __ for the dot; None takes one out."""
    path = folder / "model.safetensors"
    weights = load_file(path)
    for name, tensor in changes.items():
        weights[name.replace("__", ".")] = tensor
    save_file({k: v for k, v in weights.items() if v is not None}, path, {"format": "pt"})


# -- what loads ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "causal"), [("tiny-bert", False), ("tiny-gpt2", True)])
def test_shipped_models_load_and_trace_quietly(name, causal, capfd):
    model = mv.load(name)
    record = model.trace("The cat sat on the mat.")
    assert (model.mechanism, model.causal, model.notes) == ("ours", causal, ())
    assert record.pattern.shape[:2] == (4, 8)
    assert (record.pattern.sum(-1) - 1).abs().max() < 1e-5
    assert capfd.readouterr() == ("", "")  # no progress bar either


def test_a_local_folder_loads_and_says_what_it_is(folder):
    model = mv.load(str(folder))
    assert (model.n_layers, model.n_heads, model.notes) == (LAYERS, HEADS, ())
    assert model.trace(TEXT).model == str(folder)


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


def test_bfloat16_gives_a_float32_record_near_that_of_float32(folder):
    model = mv.load(str(folder), dtype="bfloat16")
    assert model.dtype == torch.bfloat16 and model.mechanism == "ours"
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


def test_no_config(folder, tmp_path):
    bad = copy(folder, tmp_path / "bad")
    (bad / "config.json").unlink()
    with pytest.raises(BrokenCheckpointError, match=r"no config\.json"):
        mv.load(str(bad))


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '"bert"', "{}", '{"model_type": 7}', "[" * 100_000, '{"a":' * 50_000,
     '{"model_type": "bert", "hidden_size": ' + "9" * 5000 + "}", "\ufeff{}", "\0"],
    ids=["empty", "open", "list", "string", "no type", "type no string", "deep list", "deep object",
         "huge number", "byte order mark", "NUL"],
)  # fmt: skip
def test_config_that_is_none(folder, tmp_path, text):
    bad = copy(folder, tmp_path / "bad")
    (bad / "config.json").write_text(text, "utf-8")
    with bounded(2), pytest.raises(BrokenCheckpointError, match=r"config\.json of bad"):
        mv.load(str(bad))


def test_config_that_is_not_utf8_or_far_too_long(folder, tmp_path):
    bad = copy(folder, tmp_path / "bad")
    (bad / "config.json").write_bytes(b'{"model_type": "b\xff"}')
    with pytest.raises(BrokenCheckpointError, match="not JSON"):
        mv.load(str(bad))
    (bad / "config.json").write_text('{"model_type": "bert"}' + " " * 2**20)
    with pytest.raises(UnsafeCheckpointError, match="larger than 1 MB"):
        mv.load(str(bad))


@pytest.mark.parametrize(
    "claim",
    [{"num_attention_heads": 10**9}, {"vocab_size": 10**9}, {"hidden_size": 10**7},
     {"num_hidden_layers": 10**9}, {"max_position_embeddings": 10**9}, {"num_labels": 10**9},
     {"hidden_size": -5}, {"hidden_size": 1e300}, {"num_attention_heads": "many"},
     {"text_config": {"model_type": "llama", "num_hidden_layers": 10**9}},
     # Each within the limits, but far beyond what the file of weights explains.
     {"vocab_size": 3_999_999, "hidden_size": 35 * 1024}, {"num_hidden_layers": 512,
     "hidden_size": 5 * 2048, "intermediate_size": 100_003}, {"max_position_embeddings": 10**7}],
    ids=str,
)  # fmt: skip
def test_config_that_claims_absurd_sizes(folder, tmp_path, claim):
    with bounded(4), pytest.raises(UnsafeCheckpointError, match=r"config\.json of bad"):
        mv.load(str(copy(folder, tmp_path / "bad", **claim)))


def test_absurd_buffers_are_not_laid_out(folder, tmp_path):
    # GPT-Neo keeps a square mask of all positions in each layer.
    claim = {
        "model_type": "gpt_neo", "attention_types": [[["global"], 3]], "num_layers": 3,
        "num_heads": 5, "classifier_dropout": 0.1, "max_position_embeddings": 500_000,
    }  # fmt: skip
    with bounded(4), pytest.raises(UnsafeCheckpointError, match="too many numbers"):
        mv.load(str(copy(folder, tmp_path / "bad", **claim)))


def test_a_family_of_many_small_modules_is_stopped(folder, tmp_path):
    # ALBERT's groups are not among the sizes that every family has.
    claim = {"model_type": "albert", "num_hidden_groups": 10**9, "embedding_size": 11}
    with bounded(8), pytest.raises(UnsafeCheckpointError, match="too many"):
        mv.load(str(copy(folder, tmp_path / "bad", **claim)))


@pytest.mark.parametrize("cut", [0, 5, 200, -1])
def test_truncated_weights(folder, tmp_path, cut):
    bad = copy(folder, tmp_path / "bad")
    path = bad / "model.safetensors"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(BrokenCheckpointError, match="damaged or incomplete"):
        mv.load(str(bad))


@pytest.mark.parametrize(
    "content",
    [b"garbage" * 1000, struct.pack("<Q", 2**63) + b"{}", pickle.dumps({"a": 1})],
    ids=["garbage", "huge header", "renamed pickle"],
)
def test_weights_that_are_no_safetensors(folder, tmp_path, content):
    bad = copy(folder, tmp_path / "bad")
    (bad / "model.safetensors").write_bytes(content)
    with bounded(2), pytest.raises(BrokenCheckpointError, match="cannot be read as safetensors"):
        mv.load(str(bad))


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


def test_pickled_weights_are_never_read(folder, tmp_path):
    class Bomb:
        def __reduce__(self):
            return (Path.touch, (marker,))

    marker = tmp_path / "ran"
    bad = copy(folder, tmp_path / "bad", drop="*.safetensors")
    torch.save({"weight": Bomb()}, bad / "pytorch_model.bin")
    with pytest.raises(UnsafeCheckpointError, match=r"pytorch_model\.bin.*can run code"):
        mv.load(str(bad))
    # A config may name another file of weights; it is not followed to one that nobody checked.
    good = copy(folder, tmp_path / "good", transformers_weights="adapter_model.bin")
    (bad / "pytorch_model.bin").rename(good / "adapter_model.bin")
    assert mv.load(str(good)).notes == ()
    assert not marker.exists()


def test_no_weights(folder, tmp_path):
    with pytest.raises(BrokenCheckpointError, match=r"no .* file with weights"):
        mv.load(str(copy(folder, tmp_path / "bad", drop="*.safetensors")))


@pytest.mark.parametrize("model_type", ["bert", "a-family-of-its-own"])
def test_foreign_code_never_runs(folder, tmp_path, model_type):
    marker = tmp_path / "ran"
    bad = copy(
        folder, tmp_path / "bad", model_type=model_type,
        auto_map={"AutoConfig": "foreign.Config", "AutoModel": "foreign.Model",
                  "AutoModelForMaskedLM": "foreign.Model", "AutoTokenizer": "foreign.Tokenizer"},
    )  # fmt: skip
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


def test_an_adapter_is_no_model(folder, tmp_path):
    bad = copy(folder, tmp_path / "bad")
    (bad / "adapter_config.json").write_text('{"base_model_name_or_path": "/etc"}')
    with pytest.raises(BrokenCheckpointError, match="adapter for another model"):
        mv.load(str(bad))


@pytest.mark.parametrize("outside", ["../outside.safetensors", "/", "..", "a/../../x", "..\\x"])
def test_an_index_that_leads_out_of_the_folder(folder, tmp_path, outside):
    weights = (folder / "model.safetensors").read_bytes()
    (tmp_path / "outside.safetensors").write_bytes(weights)
    bad = copy(folder, tmp_path / "bad", drop="model.safetensors")
    (bad / "other.safetensors").write_bytes(weights)
    index = {"metadata": {}, "weight_map": dict.fromkeys(load_file(bad / "other.safetensors"))}
    index["weight_map"] = dict.fromkeys(index["weight_map"], outside)
    (bad / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(UnsafeCheckpointError, match="outside of the folder"):
        mv.load(str(bad))


@pytest.mark.parametrize("index", ["", "[]", '{"weight_map": []}', '{"weight_map": {"a": [1]}}'])
def test_an_index_that_is_none(folder, tmp_path, index):
    bad = copy(folder, tmp_path / "bad")
    (bad / "model.safetensors.index.json").write_text(index)
    with pytest.raises(BrokenCheckpointError, match=r"index\.json of bad cannot be read"):
        mv.load(str(bad))


def test_an_index_that_names_a_missing_part(folder, tmp_path):
    bad = copy(folder, tmp_path / "bad")
    index = '{"weight_map": {"a": "model-00002-of-00002.safetensors"}}'
    (bad / "model.safetensors.index.json").write_text(index)
    with pytest.raises(BrokenCheckpointError, match="lacks 'model-00002"):
        mv.load(str(bad))


def test_no_tokenizer(folder, tmp_path):
    with pytest.raises(BrokenCheckpointError, match="no usable tokenizer"):
        mv.load(str(copy(folder, tmp_path / "bad", drop="tokenizer*")))


@pytest.mark.parametrize("content", ["", "{}", "[" * 100_000, '{"version": "1.0", "model": 3}'])
def test_a_broken_tokenizer(folder, tmp_path, content):
    bad = copy(folder, tmp_path / "bad")
    (bad / "tokenizer.json").write_text(content)
    with pytest.raises(BrokenCheckpointError, match="no usable tokenizer"):
        mv.load(str(bad))


def test_a_tokenizer_of_another_model(folder, tmp_path):
    odd = copy(folder, tmp_path / "odd")
    tokenizer(True, [*WORDS, *"A short text , to see whether dog".split()]).save_pretrained(odd)
    model = mv.load(str(odd))
    assert any("do not belong together" in note for note in model.notes)
    assert model.trace(TEXT).n_layers == LAYERS
    with pytest.raises(TextError, match="do not belong together"):
        model.trace("the dog")


# -- missing weights are told, not hidden --------------------------------------------------------


def test_missing_attention_weights_are_noted(folder, tmp_path):
    odd = copy(folder, tmp_path / "odd")
    change_weights(odd, bert__encoder__layer__2__attention__self__value__weight=None)
    (note,) = mv.load(str(odd)).notes
    assert "1 weight tensor(s) are missing" in note and "layer.2.attention.self.value" in note


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


# -- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "   ", "a\0b", "x" * 5000])
def test_names_that_are_none(name):
    with pytest.raises(ArgumentError, match="model name"):
        find_model(name)


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "/etc/passwd", "a/b/c", "-x", "a b", "name?", "~nobody-here/x", "\ud800",
     "x" * 300, "x/" * 1000, "..", "a..b/c", "<script>alert(1)</script>", "https://x.org/a"],
    ids=lambda name: ascii(name)[:30],
)  # fmt: skip
def test_names_that_lead_nowhere(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with (
        bounded(1, clock=time.perf_counter),
        pytest.raises((ModelNotFoundError, BrokenCheckpointError)) as caught,
    ):
        mv.load(name)
    assert len(str(caught.value)) < 600


def test_a_file_of_config_json_alone_is_told_what_it_lacks(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(BrokenCheckpointError, match=r"no .* file with weights"):
        mv.load(str(tmp_path))


# -- the Hub and its cache -----------------------------------------------------------------------


@pytest.fixture
def online(monkeypatch, tmp_path):
    """The environment of a user: nothing cached, and the library may ask the network."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "https://huggingface.example")


def hang(*args, **kwargs):
    time.sleep(5)
    raise OSError("no route")


def refuse(*args, **kwargs):
    raise OSError("no route")


@pytest.mark.parametrize("network", [hang, refuse])
def test_a_hub_id_without_network_fails_within_a_second(online, monkeypatch, network):
    monkeypatch.setattr(catalog.socket, "create_connection", network)
    with (
        bounded(1, clock=time.perf_counter),
        pytest.raises(ModelNotFoundError, match="without network") as caught,
    ):
        mv.load("somebody/no-such-model")
    assert "tiny-bert" in str(caught.value)


def test_offline_never_touches_the_network(online, monkeypatch):
    monkeypatch.setattr(catalog.socket, "create_connection", lambda *a, **k: pytest.fail("asked"))
    with pytest.raises(ModelNotFoundError):
        mv.load("somebody/no-such-model", download=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelNotFoundError):
        mv.load("somebody/no-such-model")


@pytest.fixture
def cache(folder, tmp_path, monkeypatch) -> Path:
    """A cache as huggingface_hub lays it out: blobs, and links to them in a snapshot."""
    root = tmp_path / "hub"
    repo = root / "models--some-lab--small-bert"
    snapshot = repo / "snapshots" / ("0123456789abcdef" * 3)[:40]
    snapshot.mkdir(parents=True)
    (repo / "blobs").mkdir()
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(snapshot.name)
    for number, file in enumerate(sorted(folder.iterdir())):
        (repo / "blobs" / str(number)).write_bytes(file.read_bytes())
        (snapshot / file.name).symlink_to(Path("../../blobs") / str(number))
    monkeypatch.setenv("HF_HUB_CACHE", str(root))
    return root


def test_a_cached_model_is_listed_and_loads_by_its_id(cache, folder):
    listed = {info.name: info for info in list_models()}
    info = listed["some-lab/small-bert"]
    assert (info.source, info.family, info.n_layers, info.n_heads) == ("cached", "bert", 3, 5)
    assert info.n_bytes == (folder / "model.safetensors").stat().st_size
    record = mv.load("some-lab/small-bert").trace(TEXT)
    assert record.model == "some-lab/small-bert"
    assert torch.equal(record.pattern, mv.load(str(folder)).trace(TEXT).pattern)


def test_listing_survives_whatever_lies_in_the_cache(cache):
    for name, config in (("models--a--broken", "{"), ("models--a--huge", '{"vocab_size": 1e99}')):
        snapshot = cache / name / "snapshots" / "1"
        snapshot.mkdir(parents=True)
        (snapshot / "config.json").write_text(config)
        (snapshot / "model.safetensors").write_bytes(b"")
    (cache / "models--a--empty").mkdir()
    (cache / "models--a--pickle" / "snapshots" / "1").mkdir(parents=True)
    (cache / "datasets--a--b").mkdir()
    names = [info.name for info in list_models()]
    assert names == ["tiny-bert", "tiny-gpt2", "a/broken", "a/huge", "some-lab/small-bert"]
    with pytest.raises(BrokenCheckpointError):
        mv.load("a/broken")


def test_every_error_of_loading_is_ours_and_speaks_of_one_thing(tmp_path):
    for name in ("", "no/such", str(tmp_path)):
        with pytest.raises(MhaVizError) as caught:
            mv.load(name, download=False)
        assert "Traceback" not in str(caught.value) and "\n" not in str(caught.value)


def test_two_threads_load_at_once(folder):
    got: list[torch.Tensor] = []

    def work() -> None:
        got.append(mv.load(str(folder)).trace(TEXT).pattern)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 3 and torch.equal(got[0], got[1]) and torch.equal(got[0], got[2])
