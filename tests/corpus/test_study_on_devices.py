"""Studies on several devices of a machine (here the processor, twice): the bits of one process."""

import multiprocessing
import os
import struct
from pathlib import Path
from typing import Any

import pytest
import torch

import mha_viz as mv
from mha_viz.checkpoints.device import devices_of
from mha_viz.corpus.run.devices import _measured
from mha_viz.corpus.run.progress import Progress
from mha_viz.corpus.run.worker import Task
from mha_viz.errors import ArgumentError, StudyError
from tests.corpus.small_studies import FEW, LINES, tables_of

TWICE = ("cpu", "cpu")
pytestmark = pytest.mark.usefixtures("small_shards")


@pytest.mark.extended
@pytest.mark.slow
def test_a_process_that_dies_is_told_and_the_same_call_goes_on(
    whole: mv.Study, bert: Any, tmp_path: Path
) -> None:
    killed: list[int] = []

    def kill(_: Progress) -> None:
        for process in multiprocessing.active_children():
            killed.append(process.pid or 0)
            process.kill()
            process.join()

    with pytest.raises(StudyError, match="cpu"):
        mv.study(bert, LINES, tmp_path / "study", devices=TWICE, on_progress=kill)
    assert len(killed) == 2
    mv.study(bert, LINES, tmp_path / "study")
    assert tables_of(tmp_path / "study") == tables_of(whole.folder)


def test_a_process_that_dies_within_a_message_is_told() -> None:
    ours, theirs = multiprocessing.Pipe()
    os.write(theirs.fileno(), struct.pack("!i", 97) + b"a part")
    theirs.close()
    with pytest.raises(StudyError, match="The process on cpu ended"):
        next(_measured({ours: "cpu"}, Task(0, []), iter(())))


@pytest.fixture
def three_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)


@pytest.mark.usefixtures("three_cards")
def test_all_are_the_cards_of_this_machine() -> None:
    assert list(map(str, devices_of("all"))) == ["cuda:0", "cuda:1", "cuda:2"]
    assert list(map(str, devices_of(["cuda:2", "cuda:0"]))) == ["cuda:2", "cuda:0"]


@pytest.mark.usefixtures("three_cards")
@pytest.mark.parametrize(
    ("names", "said"),
    [
        (
            ["cuda:0", "cuda:3"],
            r"cuda:3.*cuda:0 … cuda:2",
        ),
        (["cuda", "cuda:0"], "once.* cuda"),
        (["cpu", "cuda:0"], "cpu, cuda:0"),
        (["cuda:0", "tpu"], "device must be auto, cpu, cuda, .* got 'tpu'"),
        ("cuda:0", r"'cuda:0'"),
    ],
)
def test_devices_that_cannot_work_together_are_refused(names: Any, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        devices_of(names)


def test_all_without_a_card(bert: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(ArgumentError, match=r"CUDA.*all"):
        mv.study(bert, FEW, tmp_path / "study", devices="all")
    with pytest.raises(ArgumentError, match=r"cluster.*devices"):
        mv.study(bert, FEW, tmp_path / "study", devices=TWICE, cluster="auto")
    assert not (tmp_path / "study").exists()
