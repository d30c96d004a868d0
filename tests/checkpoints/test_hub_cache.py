"""The cache as others leave it: broken links, folders that may not be read, halves of models."""

import json
import os
from pathlib import Path

import pytest

import mha_viz as mv
from mha_viz.checkpoints.catalog import find_model, list_models
from mha_viz.checkpoints.hub_cache import is_complete
from mha_viz.errors import BrokenCheckpointError, ModelNotFoundError
from tests.making.checkpoints import TEXT, copy

SHIPPED = ["tiny-bert", "tiny-gpt2", "tiny-llama"]
INDEX = "model.safetensors.index.json"


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    root = tmp_path / "hub"
    root.mkdir()
    monkeypatch.setenv("HF_HUB_CACHE", str(root))
    return root


def put(cache: Path, folder: Path, name: str, commit: str = "1" * 40) -> Path:
    """A model in the cache -> its snapshot."""
    return copy(folder, cache / f"models--{name}" / "snapshots" / commit)


@pytest.mark.parametrize(
    ("cached", "typed"),
    [
        ("google-bert--bert-base-uncased", "bert-base-uncased"),
        ("bert-base-uncased", "google-bert/bert-base-uncased"),
        ("google-bert--bert-base-uncased", "https://huggingface.co/bert-base-uncased"),
    ],
)
def test_a_model_that_got_an_owner_is_found_by_both_names(cache, folder, cached, typed):
    snapshot = put(cache, folder, cached)
    assert find_model(typed, download=False).path == snapshot
    with pytest.raises(ModelNotFoundError):
        find_model("someone/bert-base-uncased", download=False)


def names() -> list[str]:
    return [info.name for info in list_models()]


def dangle(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(path.with_name("nowhere") / "blob")


def loop(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(path.name)


@pytest.mark.parametrize("file", ["model.safetensors", "config.json", "tokenizer.json"])
@pytest.mark.parametrize("spoil", [dangle, loop, Path.unlink])
def test_a_model_that_has_lost_a_file_takes_nothing_down(cache, folder, spoil, file):
    put(cache, folder, "a--whole")
    lost = put(cache, folder, "a--lost")
    spoil(lost / file)
    assert names() == [*SHIPPED, "a/whole"]
    with pytest.raises(ModelNotFoundError, match="only in part") as caught:
        mv.load("a/lost")
    assert str(cache) not in str(caught.value)


def test_folders_that_are_links_or_files(cache, folder):
    put(cache, folder, "a--whole")
    for number, spoil in enumerate((dangle, loop, Path.touch)):
        spoil(cache / f"models--b--{number}")
        (cache / f"models--c--{number}").mkdir()
        spoil(cache / f"models--c--{number}" / "snapshots")
        (cache / f"models--d--{number}" / "snapshots").mkdir(parents=True)
        spoil(cache / f"models--d--{number}" / "snapshots" / ("2" * 40))
    put(cache, folder, "not a name--<b>")
    assert names() == [*SHIPPED, "a/whole"]


@pytest.mark.parametrize("spoil", [dangle, loop, Path.touch, lambda path: None])
def test_a_cache_that_is_none(tmp_path, monkeypatch, spoil):
    spoil(tmp_path / "hub")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    assert names() == SHIPPED


@pytest.fixture
def forbidden(monkeypatch) -> list[str]:
    """Names of files and folders that may not be looked at, also by root, who runs tests."""
    closed: list[str] = []
    for method in ("stat", "iterdir"):
        original = getattr(Path, method)

        def ask(self, *args, original=original, **kwargs):
            if any(name in self.parts for name in closed):
                raise PermissionError(13, "Permission denied", str(self))
            return original(self, *args, **kwargs)

        monkeypatch.setattr(Path, method, ask)
    return closed


def test_folders_that_may_not_be_read(cache, folder, forbidden, monkeypatch):
    put(cache, folder, "a--whole")
    put(cache, folder, "a--locked")
    for name in ("models--a--locked", "1" * 40, "hub"):
        forbidden[:] = [name]
        expected = [*SHIPPED, "a/whole"] if name == "models--a--locked" else SHIPPED
        assert names() == expected
    forbidden[:] = []
    weights = put(cache, folder, "a--shut") / "model.safetensors"
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != weights and access(path, mode))
    assert names() == [*SHIPPED, "a/locked", "a/whole"]
    forbidden[:] = ["mine"]
    with pytest.raises(ModelNotFoundError, match="may not be read by the user"):
        mv.load(str(cache.parent / "mine"))


def test_a_file_that_vanishes_after_it_was_listed(cache, folder, monkeypatch):
    whole = put(cache, folder, "a--whole")
    original = Path.iterdir

    def listed_before(self):
        yield from original(self)
        if self == whole:
            yield self / "gone.safetensors"

    monkeypatch.setattr(Path, "iterdir", listed_before)
    assert names() == SHIPPED  # until it is looked at again


def test_a_newer_snapshot_that_is_not_whole_is_not_taken(cache, folder):
    old, new = (put(cache, folder, "a--b", commit) for commit in ("1" * 40, "2" * 40))
    assert find_model("a/b").path in (old, new)
    (new / "model.safetensors").unlink()
    assert find_model("a/b").path == old
    mv.load("a/b").trace(TEXT)


def test_a_typed_folder_whose_weights_lead_into_nothing_is_a_folder(folder, tmp_path):
    bad = copy(folder, tmp_path / "bad")
    dangle(bad / "model.safetensors")
    assert find_model(str(bad)).n_bytes == 0
    with pytest.raises(BrokenCheckpointError, match=r"model\.safetensors in bad .* link to a file"):
        mv.load(str(bad))
    (bad / "config.json").unlink()
    dangle(bad / "config.json")
    with pytest.raises(BrokenCheckpointError, match=r"config\.json in bad .* link to a file"):
        mv.load(str(bad))


def test_weights_in_parts_are_whole_with_the_last_of_them(folder, tmp_path):
    one = copy(folder, tmp_path / "one", drop="model.safetensors")
    parts = [f"model-0000{n}-of-00002.safetensors" for n in (1, 2)]
    (one / parts[0]).write_bytes(b"")
    assert not is_complete(one)  # the index, which names the others, has not come yet
    (one / INDEX).write_text(json.dumps({"weight_map": {"a": parts[0], "b": parts[1]}}))
    assert not is_complete(one)
    (one / parts[1]).write_bytes(b"")
    assert is_complete(one)
    for index in ("", "[]", '{"weight_map": 5}', '{"weight_map": [1]}', "[" * 100_000):
        (one / INDEX).write_text(index)
        assert not is_complete(one)


@pytest.mark.parametrize(
    ("files", "whole"),
    [(["tokenizer.json"], True), (["vocab.txt"], True), (["vocab.json", "merges.txt"], True),
     (["spiece.model"], True), (["source.spm"], True), (["special_tokens_map.json"], False),
     (["tokenizer_config.json"], False), ([], False)],
    ids=str,
)  # fmt: skip
def test_a_model_without_its_tokenizer_is_not_whole(folder, tmp_path, files, whole):
    one = copy(folder, tmp_path / "one", drop="tokenizer*")
    for name in files:
        (one / name).write_text("{}")
    assert is_complete(one) == whole


def test_a_tokenizer_of_bytes_needs_no_vocabulary(folder, tmp_path):
    one = copy(folder, tmp_path / "one", drop="tokenizer*")
    (one / "tokenizer_config.json").write_text('{"tokenizer_class": "ByT5Tokenizer"}')
    assert is_complete(one)
    (one / "README.md").symlink_to("nowhere")  # nor what nobody reads
    assert is_complete(one)
