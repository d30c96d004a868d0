"""The catalog of models: names, the Hub and its cache, and configs that cannot be read."""

import threading
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants

import mha_viz as mv
from mha_viz.checkpoints import catalog, hub, hub_cache
from mha_viz.checkpoints.catalog import SUGGESTED, find_model, list_models, suggested
from mha_viz.errors import (
    ArgumentError,
    BrokenCheckpointError,
    ModelNotFoundError,
)
from tests.making.checkpoints import TEXT, copy

# -- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "   ", "a\0b", "x" * 5000])
def test_names_that_are_none(name):
    with pytest.raises(ArgumentError, match="model name"):
        find_model(name)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("https://huggingface.co/openai-community/gpt2", "openai-community/gpt2"),
        ("huggingface.co/gpt2", "gpt2"),
        ("https://hf.co/a/b/tree/step512?x=1#y", "a/b@step512"),
        ("https://huggingface.co/a/b/blob/main/config.json", "a/b"),
        ("https://x.org/a/b", "https://x.org/a/b"),
        ("http://[", "http://["),
        ("a/b", "a/b"),
    ],
)
def test_name_of_address(typed, meant):
    assert hub_cache.name_of_address(typed) == meant


@pytest.mark.parametrize("name", ["tiny_bert", "Tiny-BERT", "tinybert", "some/../tiny_bert"])
def test_a_misspelled_name_asks_for_the_one_that_is_meant(name):
    with pytest.raises(ModelNotFoundError) as caught:
        mv.load(name, download=False)
    assert ("Did you mean tiny-bert?" in str(caught.value)) == ("/" not in name)


def test_a_folder_without_a_config_says_what_is_in_it(tmp_path):
    (tmp_path / "checkpoint-500").mkdir()
    (tmp_path / "checkpoint-1500").mkdir()
    with pytest.raises(BrokenCheckpointError, match=r"such as .*checkpoint-1500"):
        mv.load(str(tmp_path))
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed" / "model.Q4.gguf").touch()
    with pytest.raises(BrokenCheckpointError, match="GGUF"):
        mv.load(str(tmp_path / "packed"))


# -- configs -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "claim",
    [
        {"architectures": [5]},
        {"architectures": "BertModel"},
        {"text_config": 5},
        {"is_encoder_decoder": "yes"},
        {"eos_token_id": 10**30},
        {"eos_token_id": [1, -(10**30)]},
    ],
    ids=str,
)
def test_config_in_which_something_else_stands_than_in_any_model(folder, tmp_path, claim):
    with pytest.raises(BrokenCheckpointError, match=r"config\.json of bad"):
        mv.load(str(copy(folder, tmp_path / "bad", **claim)))


# -- the Hub and its cache -----------------------------------------------------------------------


@pytest.fixture
def online(monkeypatch, tmp_path):
    """The environment of a user: nothing cached, and the library may ask the network."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "https://huggingface.example")


GIVEN_UP = threading.Event()  # until then a host that hangs does not answer


def hang(*args, **kwargs):
    GIVEN_UP.wait()
    raise OSError("no route")


def refuse(*args, **kwargs):
    raise OSError("no route")


@pytest.mark.parametrize("network", [hang, refuse])
def test_a_hub_id_without_network_waits_for_no_answer(online, monkeypatch, network):
    assert hub.NETWORK_TIMEOUT < 1  # seconds
    monkeypatch.setattr(hub.socket, "create_connection", network)
    GIVEN_UP.clear()
    with pytest.raises(ModelNotFoundError, match="without network") as caught:
        mv.load("somebody/no-such-model")
    GIVEN_UP.set()
    assert "tiny-bert" in str(caught.value)


def test_offline_never_touches_the_network(online, monkeypatch):
    monkeypatch.setattr(hub.socket, "create_connection", lambda *a, **k: pytest.fail("asked"))
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
        (snapshot / "tokenizer.json").write_text("{}")
    (cache / "models--a--empty").mkdir()
    (cache / "models--a--pickle" / "snapshots" / "1").mkdir(parents=True)
    (cache / "datasets--a--b").mkdir()
    names = [info.name for info in list_models()]
    shipped = ["tiny-bert", "tiny-gpt2", "tiny-llama"]
    assert names == [*shipped, "a/broken", "a/huge", "some-lab/small-bert"]
    with pytest.raises(BrokenCheckpointError):
        mv.load("a/broken")


def test_shipped_models_are_in_the_package_or_beside_the_source(monkeypatch, tmp_path):
    place = tmp_path / "mha_viz" / "checkpoints" / "catalog.py"
    monkeypatch.setattr(catalog, "__file__", str(place))
    assert catalog.shipped_folder() == tmp_path / "models"
    (tmp_path / "mha_viz" / "shipped_models").mkdir(parents=True)
    assert catalog.shipped_folder() == tmp_path / "mha_viz" / "shipped_models"


def test_what_is_here_is_not_suggested_by_its_older_name_either():
    names = [one.name for one in suggested({"gpt2", "FacebookAI/roberta-base", "mine/gpt2"})]
    assert "openai-community/gpt2" not in names and "FacebookAI/roberta-base" not in names
    assert len(names) == len(SUGGESTED) - 2
    assert len(suggested({"mine/gpt2", "tiny-bert"})) == len(SUGGESTED)
