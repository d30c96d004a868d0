"""Results that the labs open with are those of a live run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from mha_viz.core import stored_runs
from mha_viz.core.stored_runs import StoredRun
from models.store_lab_runs import all_runs
from tests.making.comparing import assert_alike

MOST = 5_000_000  # bytes of all files


class Pair(NamedTuple):
    name: str
    size: float | None


@dataclass(frozen=True)
class Leaf:
    weights: Tensor
    counts: np.ndarray
    table: pd.DataFrame
    pairs: tuple[Pair, ...]
    place: tuple[int, str]


@dataclass(frozen=True)
class Tree:
    leaves: dict[int, Leaf]
    by_head: dict[tuple[int, int], float]
    beside: Tensor | None = None


def leaf(seed: int) -> Leaf:
    weights = torch.rand(3, 7, generator=torch.Generator().manual_seed(seed))
    table = pd.DataFrame({"head": ["L0 H1", "L1 H0"], "score": [0.25, np.nan], "n": [2, 5]})
    counts, pairs = np.arange(11) * seed, (Pair("a", 0.5), Pair("b", None))
    return Leaf(weights.T, counts, table, pairs, (seed, "x"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(stored_runs, "FOLDER", tmp_path)
    return tmp_path


def test_a_result_is_read_as_it_was_written(folder: Path) -> None:
    tree = Tree({2: leaf(2), 5: leaf(5)}, {(1, 3): 0.125, (0, 2): float("nan")})
    run = StoredRun("tree", (1,), Tree, lambda: tree)
    stored_runs.write(run, tree)
    found = stored_runs.read(run)
    assert_alike(tree, found, atol=0, rtol=0)
    assert found.beside is None and isinstance(found.by_head, dict)
    for number, expected in tree.leaves.items():
        leaf_found = found.leaves[number]
        assert (leaf_found.pairs, leaf_found.place) == (expected.pairs, expected.place)
        assert all(type(pair) is Pair for pair in leaf_found.pairs)
        pd.testing.assert_frame_equal(leaf_found.table, expected.table)


def test_stored_runs_are_small_and_each_is_declared() -> None:
    sizes = {path.stem: path.stat().st_size for path in stored_runs.FOLDER.glob("*.safetensors")}
    assert sizes.keys() == {run.name for run in all_runs()}
    assert sum(sizes.values()) <= MOST, sizes


@pytest.mark.extended
@pytest.mark.parametrize("run", all_runs(), ids=lambda run: run.name)
def test_a_stored_run_is_that_of_a_live_one(run: StoredRun[Any]) -> None:
    # Training adds up rounding, which differs between processors.
    assert_alike(stored_runs.read(run), run.make(), rtol=2e-2, atol=2e-2)
