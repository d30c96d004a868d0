"""Downloads: shared, stopped, gone on with where they were, and only where there is room."""

import shutil
from collections import namedtuple

import pytest
import torch
from huggingface_hub import constants

import mha_viz as mv
from mha_viz.checkpoints import hub
from mha_viz.checkpoints.catalog import list_models
from mha_viz.checkpoints.download import Download, download, under_way
from mha_viz.checkpoints.hub_cache import repository
from mha_viz.errors import ModelNotFoundError
from tests.making import fake_hub
from tests.making.checkpoints import TEXT
from tests.making.fake_hub import NAME
from tests.waiting import wait_for

WEIGHTS = "model.safetensors"


def until_half(served) -> tuple[Download, int]:
    """A download of which half of the weights have come, and nothing comes any more."""
    served.faults[WEIGHTS] = fake_hub.slow
    half = (served.folder / WEIGHTS).stat().st_size // 2
    found = download(NAME)
    wait_for(lambda: not found.running or found.done >= half, "half of the weights")
    assert found.done == half and found.total == sum(f.stat().st_size for f in served.files())
    return found, half


def go_on(served) -> Download:
    """Another attempt, with a Hub that is well again."""
    served.faults.clear()
    served.closing.set()  # what is silent ends
    found = download(NAME)
    found.wait()
    return found


def check_whole(served) -> None:
    assert NAME in [info.name for info in list_models()]
    kept = mv.load(NAME, download=False).trace(TEXT).pattern
    assert torch.equal(kept, mv.load(str(served.folder)).trace(TEXT).pattern)


def test_two_who_ask_for_the_same_model_wait_for_the_same_download(served):
    found, _ = until_half(served)
    assert download(NAME) is found and under_way() == [found]
    assert sum(path.endswith(WEIGHTS) for path in served.asked) == 2  # its size, and the file
    served.closing.set()
    with pytest.raises(ModelNotFoundError, match="connection broke off"):
        found.wait()
    assert under_way() == []


def test_what_was_stopped_goes_on_where_it_was(served):
    found, half = until_half(served)
    found.stop()
    assert not found.running and under_way() == []
    with pytest.raises(ModelNotFoundError, match="it was stopped; ask for it again"):
        found.wait()
    assert NAME not in [info.name for info in list_models()]
    again = go_on(served)
    assert served.begun == [(WEIGHTS, half)]
    assert again is not found and again.done == again.total
    check_whole(served)


@pytest.mark.parametrize(
    ("fault", "message", "is_kept"),
    [
        (fake_hub.cut, "connection broke off", True),
        (fake_hub.spoilt, "has come with errors in it; try again", False),
    ],
)
def test_what_has_come_is_gone_on_with_unless_it_has_errors(served, fault, message, is_kept):
    served.faults[WEIGHTS] = fault
    with pytest.raises(ModelNotFoundError, match=message):
        download(NAME).wait()
    go_on(served)
    half = (served.folder / WEIGHTS).stat().st_size // 2
    assert served.begun[-1:] == ([(WEIGHTS, half)] if is_kept else [])
    check_whole(served)


def test_a_disk_without_room_is_told_of_before_anything_is_fetched(served, monkeypatch):
    usage = namedtuple("usage", "total used free")
    total = sum(file.stat().st_size for file in served.files())
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(total, 1, total - 1))
    with pytest.raises(ModelNotFoundError, match=r"\wB are still to come, .* \wB left; make room"):
        download(NAME).wait()
    assert not any("resolve" in path for path in served.asked)


def test_what_has_come_needs_no_room_again(served, monkeypatch):
    found, half = until_half(served)
    found.stop()
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(0, 0, found.total - half))
    go_on(served)
    check_whole(served)


def test_without_network_it_is_one_sentence(served, monkeypatch):
    monkeypatch.setattr(hub, "_reachable", lambda endpoint: False)
    with pytest.raises(ModelNotFoundError, match="there is no network here, or the Hub does not"):
        download(NAME).wait()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelNotFoundError, match="HF_HUB_OFFLINE is set"):
        download(NAME).wait()
    assert served.asked == []


def test_a_revision_is_fetched_by_its_name_and_found_again_by_it(served):
    name = f"{NAME}@step512"
    found = mv.load(name).trace(TEXT).pattern
    assert torch.equal(found, mv.load(str(served.folder)).trace(TEXT).pattern)
    assert any(path.endswith("/revision/step512") for path in served.asked)
    assert (repository(NAME) / "refs" / "step512").read_text() == fake_hub.COMMIT
    served.asked.clear()
    assert torch.equal(mv.load(name, download=False).trace(TEXT).pattern, found)
    by_commit = mv.load(f"{NAME}@{fake_hub.COMMIT}", download=False)
    assert torch.equal(by_commit.trace(TEXT).pattern, found)
    assert not served.asked
    with pytest.raises(ModelNotFoundError, match=f"hf download {NAME} --revision step1024"):
        mv.load(f"{NAME}@step1024", download=False)


@pytest.mark.parametrize("revision", ["", "../main", "a/b", "-x", "step 1", "a@b"])
def test_what_is_no_revision_is_no_name(revision):
    with pytest.raises(ModelNotFoundError, match="a Hub id looks like"):
        mv.load(f"{NAME}@{revision}", download=False)
