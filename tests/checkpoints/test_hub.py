"""Fetching from the Hub: what networks do ends in one sentence, and in no half of a model."""

from pathlib import Path

import pytest
import torch

import mha_viz as mv
from mha_viz.checkpoints import download, hub
from mha_viz.checkpoints.catalog import find_model, list_models
from mha_viz.errors import ModelNotFoundError, UnsafeCheckpointError
from tests.making import fake_hub
from tests.making.checkpoints import TEXT
from tests.making.fake_hub import COMMIT, NAME

BROKEN, NO_HUB = "connection broke off; try again", "what answered is not the Hub"
NOT_THERE, STATUS, STALLED = "is not there, or it is private", "status 503", "nothing has come for"
FAULTS = {
    fake_hub.closed: BROKEN,
    fake_hub.reset: BROKEN,
    fake_hub.garbage: BROKEN,
    fake_hub.portal: NO_HUB,
    fake_hub.wrong_json: NO_HUB,
    fake_hub.busy: STATUS,
    fake_hub.missing: NOT_THERE,
    fake_hub.gated: NOT_THERE,
    fake_hub.silent: STALLED,
}
IN_A_FILE = FAULTS | {fake_hub.cut: BROKEN}


def cached(tmp_path: Path) -> set[str]:
    return {path.name for path in (tmp_path / "hub").glob("*/snapshots/*/*")}


def test_a_model_is_fetched_and_found_again(served, folder, tmp_path):
    model = mv.load(NAME)
    assert torch.equal(model.trace(TEXT).pattern, mv.load(str(folder)).trace(TEXT).pattern)
    assert cached(tmp_path) == {path.name for path in folder.iterdir()}
    questions = len(served.asked)
    assert find_model(NAME).path.name == COMMIT and len(served.asked) == questions
    assert NAME in [info.name for info in list_models()]
    main = tmp_path / "hub" / "models--some-lab--fetched-bert" / "refs" / "main"
    assert main.read_text() == COMMIT  # by which other programs find it without network


def check_fails(words: str, tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match=words) as caught:
        find_model(NAME)
    told = str(caught.value)
    assert told.startswith(f"'{NAME}' could not be fetched from the Hub: ") and len(told) < 250
    assert str(tmp_path) not in told and "http" not in told and "\n" not in told
    assert list_models()[-1].name == "tiny-llama"  # none of it is taken for a model
    with pytest.raises(ModelNotFoundError):
        find_model(NAME, download=False)


@pytest.mark.parametrize(
    ("path", "fault"),
    [*(("/api/", fault) for fault in FAULTS), *(("model.safetensors", f) for f in IN_A_FILE)],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_question_or_a_file_that_the_network_spoils(
    served, folder, tmp_path, monkeypatch, path, fault
):
    monkeypatch.setattr(download, "STALLED_AFTER", 0.5 if fault is fake_hub.silent else 20)
    served.faults[path] = fault
    check_fails(IN_A_FILE[fault], tmp_path)
    if fault is fake_hub.silent:
        return  # the library still waits for it, and then fetches the file after all
    served.faults.clear()
    found = find_model(NAME).path
    for path in folder.iterdir():
        assert (found / path.name).read_bytes() == path.read_bytes()


def test_a_hub_that_does_not_answer_in_time(served, monkeypatch, tmp_path):
    monkeypatch.setattr(hub, "ANSWER_TIMEOUT", 0.3)
    served.faults["/api/"] = fake_hub.silent
    check_fails("did not answer within", tmp_path)


def test_a_cache_that_cannot_be_written_to(served, tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device", str(tmp_path))

    monkeypatch.setattr("huggingface_hub.file_download.http_get", full)
    check_fails(r"cache cannot be written to \(No space left on device\)", tmp_path)


@pytest.mark.parametrize("name", ["a--b/c", "some-lab/name.git"])
def test_a_name_that_the_hub_does_not_allow(served, name):
    with pytest.raises(ModelNotFoundError, match="the Hub allows no such name"):
        find_model(name)


def test_what_is_offered_is_looked_at_before_it_is_fetched(served, monkeypatch):
    monkeypatch.setattr(hub, "MAX_DOWNLOAD_BYTES", 1000)
    with pytest.raises(UnsafeCheckpointError, match="at most 1 kB are fetched"):
        find_model(NAME)
    monkeypatch.setattr(served, "files", lambda: [served.folder / "config.json"])
    with pytest.raises(UnsafeCheckpointError, match="nothing in it that could be loaded"):
        find_model(NAME)
    assert not any("resolve" in path for path in served.asked)


def test_pickled_weights_are_not_fetched_but_how_to_convert_them_is_said(served, monkeypatch):
    names = ["config.json", "pytorch_model.bin", "tokenizer.json"]
    pickled = served.folder / "pytorch_model.bin"
    pickled.write_bytes(b"pickled")
    monkeypatch.setattr(served, "files", lambda: [served.folder / name for name in names])
    try:
        with pytest.raises(
            UnsafeCheckpointError, match=r"\(pytorch_model\.bin\) are pickled"
        ) as told:
            find_model(NAME)
    finally:
        pickled.unlink()
    assert "convert it" in str(told.value) and "save_pretrained" in str(told.value)
    assert not any("resolve" in path for path in served.asked)


def test_a_repository_without_a_tokenizer_is_no_model(served, monkeypatch):
    names = ["config.json", "model.safetensors"]
    monkeypatch.setattr(served, "files", lambda: [served.folder / name for name in names])
    with pytest.raises(ModelNotFoundError, match="belong together"):
        find_model(NAME)


def test_files_that_lead_out_of_the_folder_are_not_asked_for(served, monkeypatch):
    offered = fake_hub.Answer.json

    def more(answer, value):
        for file in ("../../evil.json", "a/b.json", "..\\evil.txt", "code.py", "/etc/x.json"):
            value["siblings"].append({"rfilename": file, "size": 3})
        offered(answer, value)

    monkeypatch.setattr(fake_hub.Answer, "json", more)
    assert find_model(NAME).source == "cached"
    assert not any("evil" in path or path.endswith(("b.json", ".py")) for path in served.asked)


def test_what_is_missing_in_the_cache_is_fetched(served, tmp_path):
    snapshot = find_model(NAME).path
    (snapshot / "model.safetensors").resolve().unlink()  # the link now leads into nothing
    (snapshot / "tokenizer.json").unlink()
    assert NAME not in [info.name for info in list_models()]
    with pytest.raises(ModelNotFoundError, match="only in part in this machine's"):
        find_model(NAME, download=False)
    mv.load(NAME).trace(TEXT)
