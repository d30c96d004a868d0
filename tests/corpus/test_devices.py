"""Reductions stay on the device: nothing is fetched, and nothing waited for, while layers come."""

import functools
import multiprocessing
import os
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import mha_viz as mv
from mha_viz.checkpoints.device import devices_of
from mha_viz.corpus.measure.batches import Batch, DeviceTransfer, NamedTensors
from mha_viz.corpus.measure.edges import HeaviestKeys, layer_edges
from mha_viz.corpus.measure.measuring import BatchOptions, LayerSums
from mha_viz.corpus.measure.padded import PaddedTexts, visible_keys
from mha_viz.corpus.measure.pair_similarity import MEASURES, PairSums
from mha_viz.corpus.measure.profiles import Profile
from mha_viz.corpus.run.devices import _measured
from mha_viz.corpus.run.progress import Progress
from mha_viz.corpus.run.worker import Task
from mha_viz.engine.probe import LayerTensors
from mha_viz.engine.recording import reduce_texts
from mha_viz.engine.run import Run
from mha_viz.errors import ArgumentError, StudyError
from tests.corpus.reference import one_batch, small
from tests.corpus.small_studies import FEW, LINES, tables_of
from tests.engine.test_families import SINGLE, build
from tests.making.comparing import close
from tests.making.other_device import CUDA, MPS, ElsewhereTensor, other_devices

N_LAYERS, N_HEADS, N_VALUE_HEADS, D_HEAD = 3, 4, 2, 6


@functools.cache
def batch() -> Batch:
    return one_batch(small("bert"))


def layers(device: str) -> list[LayerTensors]:
    """Made-up layers of the batch; the last sees less than the others."""
    dice = torch.Generator().manual_seed(0)
    texts = PaddedTexts.of(batch().encoded, causal=True)
    n_texts, n = texts.real.shape
    window = torch.ones(n, n, dtype=torch.bool).tril().triu(-2)[None]
    found = []
    for layer in range(N_LAYERS):
        allowed = window if layer == N_LAYERS - 1 else None
        seen = visible_keys(texts, allowed).keys[:, None]
        scores = 3 * torch.randn(n_texts, N_HEADS, n, n, generator=dice)
        pattern = scores.masked_fill(~seen, -1e9).softmax(-1) * seen
        z, value = (
            torch.randn(n_texts, heads, n, D_HEAD, generator=dice)
            for heads in (N_HEADS, N_VALUE_HEADS)
        )
        tensors = (pattern, z, value, allowed)
        found.append(
            LayerTensors(layer, *(None if one is None else one.to(device) for one in tensors))
        )
    return found


@pytest.mark.parametrize("name", ["gpt2", "gemma2"])
def test_no_layer_of_a_whole_run_is_fetched(name: str) -> None:
    """transformers itself asks of encoders whether a mask hides anything, once in each run."""
    model = build(SINGLE[name], name)
    encoded = one_batch(model).encoded
    model.network.to("meta")
    roots = torch.empty(model.n_layers, model.n_heads, model.d_head, model.d_head, device="meta")
    texts = PaddedTexts.of(encoded, causal=True, device="meta")
    sums = LayerSums(
        texts, roots, BatchOptions(0.3, Profile(model.n_layers, model.n_heads), chance=True)
    )
    reduce_texts(model, encoded, sums.add)
    assert [one.device.type for one in sums.scores] == ["meta"] * model.n_layers


@pytest.mark.parametrize("min_weight", [0.0, 0.3, 1.0])
def test_the_heaviest_keys_hold_the_edges(
    monkeypatch: pytest.MonkeyPatch, min_weight: float
) -> None:
    """A graphics card hands on what the processor finds."""
    texts = PaddedTexts.of(batch().encoded, causal=True)
    one = layers("cpu")[1]
    one.pattern[:, :, 1] = 0.0
    one.pattern[:, :, 1, :2] = torch.tensor([0.7, 0.3])  # the second of just some least weight
    expected = layer_edges(1, one.pattern, texts, min_weight)
    with other_devices():
        heaviest = layer_edges(1, ElsewhereTensor.of(one.pattern, CUDA), texts, min_weight)
        assert isinstance(heaviest, HeaviestKeys)
        found = heaviest.edges()

    def rows(edges: object) -> np.ndarray:
        names = ("row", "head", "query", "key", "strongest", "weight")
        columns = [np.asarray(getattr(edges, name), float) for name in names]
        return np.stack(columns, 1)[np.lexsort(columns[:4])]

    assert len(rows(expected))
    np.testing.assert_array_equal(rows(found), rows(expected))


@pytest.mark.parametrize("device", [CUDA, MPS], ids=str)
def test_of_pairs_only_matrices_of_heads_are_fetched(device: torch.device) -> None:
    n_all, made = N_LAYERS * N_HEADS, layers("cpu")
    here = {name: [getattr(one, name) for one in made] for name in ("pattern", "z")}
    ours, theirs = PairSums(n_all), PairSums(n_all)
    ours.add(Run(here, None), batch().encoded)
    with other_devices() as fetched:
        there = {name: [ElsewhereTensor.of(one, device) for one in here[name]] for name in here}
        theirs.add(Run(there, None), batch().encoded)
        a, b = (one.table().to_pandas().select_dtypes("number") for one in (ours, theirs))
    close(a, b)
    matrices = [n for n in fetched if n > 1]  # others: whether anything is not defined
    if device == CUDA:  # sums over all texts
        assert matrices == [3 * len(MEASURES) * n_all**2]
    else:  # where there is no float64, they are added up here
        assert matrices == [len(MEASURES) * n_all**2] * len(batch().encoded)
    assert max(matrices) < n_all * max(len(text.tokens) for text in batch().encoded) ** 2


class Copies:
    """Stands for a card's copies: lists when each starts and when it is waited for."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.n_tensors: list[int] = []

    def start(self, packed: Sequence[ElsewhereTensor]) -> Callable[[], Sequence[Tensor]]:
        number = len(self.n_tensors)
        self.n_tensors.append(len(packed))
        self.events.append(f"start {number}")

        def wait() -> Sequence[Tensor]:
            self.events.append(f"wait {number}")
            return [one.inner.clone() for one in packed]

        return wait


def numbers(seed: int) -> dict[object, Tensor]:
    """Tensors of three dtypes, some of them empty or of no axis."""
    dice = torch.Generator().manual_seed(seed)
    return {
        "scores": torch.rand(2, 3, 5, generator=dice),
        ("weight", 0): torch.rand(7, generator=dice, dtype=torch.float64),
        "rows": torch.randint(11, (3, 2), generator=dice),
        "one": torch.rand((), generator=dice),
        "none": torch.rand(0, 13, generator=dice),
        ("weight", 1): torch.rand(5, 2, generator=dice, dtype=torch.float64).mT,
    }


def assert_same(found: NamedTensors, sent: dict[object, Tensor]) -> None:
    assert list(found) != [] and found.keys() == sent.keys()
    for name, one in sent.items():
        assert type(found[name]) is Tensor and found[name].dtype == one.dtype
        assert torch.equal(found[name], one), name


def test_batches_arrive_whole_and_in_order_one_behind_the_card() -> None:
    copies, received = Copies(), list[NamedTensors]()
    transfer, batches = DeviceTransfer(copies.start), [numbers(seed) for seed in range(3)]
    with other_devices() as fetched:
        for at, batch in enumerate(batches):
            sent = {name: ElsewhereTensor.of(one, CUDA) for name, one in batch.items()}
            transfer.send(sent, received.append)
            assert len(received) == at  # the one before, while this one is on its way
        transfer.finish()
        transfer.finish()
    assert fetched == []
    assert copies.events == ["start 0", "start 1", "wait 0", "start 2", "wait 1", "wait 2"]
    assert copies.n_tensors == [3, 3, 3]  # one for each dtype
    for found, batch in zip(received, batches, strict=True):
        assert_same(found, batch)


def test_without_a_stream_of_its_own_a_device_is_read_at_the_end() -> None:
    received = list[NamedTensors]()
    batch = numbers(0)
    del batch["weight", 0], batch["weight", 1]  # no float64 there
    with other_devices() as fetched:
        transfer = DeviceTransfer()
        sent = {name: ElsewhereTensor.of(one, MPS) for name, one in batch.items()}
        transfer.send(sent, received.append)
        assert fetched == []
        transfer.finish()
    assert fetched == [31, 6]
    assert received[0]["scores"].numel() == 30


TWICE = ("cpu", "cpu")


@pytest.mark.usefixtures("small_shards")
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


@pytest.mark.usefixtures("small_shards")
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


@pytest.mark.usefixtures("small_shards")
@pytest.mark.usefixtures("three_cards")
def test_all_are_the_cards_of_this_machine() -> None:
    assert list(map(str, devices_of("all"))) == ["cuda:0", "cuda:1", "cuda:2"]
    assert list(map(str, devices_of(["cuda:2", "cuda:0"]))) == ["cuda:2", "cuda:0"]


@pytest.mark.usefixtures("small_shards")
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


@pytest.mark.usefixtures("small_shards")
def test_all_without_a_card(bert: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(ArgumentError, match=r"CUDA.*all"):
        mv.study(bert, FEW, tmp_path / "study", devices="all")
    with pytest.raises(ArgumentError, match=r"cluster.*devices"):
        mv.study(bert, FEW, tmp_path / "study", devices=TWICE, cluster="auto")
    assert not (tmp_path / "study").exists()
