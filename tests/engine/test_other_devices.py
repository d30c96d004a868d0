"""Models elsewhere than on the processor, on one device or split over two, beside the same here.

The devices are not there: `tests.making.other_device`.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

import mha_viz as mv
from mha_viz.core.measure import measure
from mha_viz.core.record.patterns import ComputedPatterns, StoredPatterns
from mha_viz.corpus.measure.shard import Settings, measure_shard
from mha_viz.corpus.sources.source import Item
from mha_viz.engine.model import AttentionModel
from tests.engine.test_families import SINGLE, build
from tests.making.comparing import close
from tests.making.other_device import FIRST, MPS, SECOND, ElsewhereTensor, other_devices, put

TEXT, OTHER = "the cat sat on the mat because it was too tired", "a dog ran"
FAMILIES = ("bert", "gemma2", "gpt_oss")  # the last two have a soft cap and windows, and sinks
REDUCED = ("pattern", "z", "tiles", "metrics")


def on_two(name: str) -> torch.device:
    """Return a device for each module: the last of the three layers is on the other one."""
    return SECOND if "2" in name.split(".") else FIRST


PLACED: dict[str, Callable[[str], torch.device]] = {
    "one": lambda name: FIRST,
    "two": on_two,
    "mps": lambda name: MPS,
}


OFTEN = ("bert on two", "gemma2 on one", "gpt_oss on mps")
PLACEMENTS = [f"{family} on {n}" for family in FAMILIES for n in PLACED]


@pytest.fixture(
    params=[
        name if name in OFTEN else pytest.param(name, marks=pytest.mark.extended)
        for name in PLACEMENTS
    ]
)
def both(request: pytest.FixtureRequest) -> Iterator[tuple[AttentionModel, AttentionModel]]:
    """A model on the processor, and the same elsewhere."""
    family, _, n = request.param.partition(" on ")
    here = build(SINGLE[family], family)
    network = copy.deepcopy(here.network)
    if family == "gpt_oss":  # else its experts are counted by a kernel that the processor lacks
        network.set_experts_implementation("eager")
    put(network, PLACED[n])
    with other_devices():
        there = AttentionModel(network, here.tokenizer, name=family)
        expected = {PLACED[n](name) for name in ("layers.0", "layers.2")}
        assert {weight.device for weight in there.network.parameters()} == expected
        assert there.backend == "mha_viz" and there.device == PLACED[n]("")
        yield here, there


def test_a_record_is_the_same_wherever_layers_are(
    both: tuple[AttentionModel, AttentionModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [model.trace(TEXT, keep="all") for model in both]
    for kept in ("pattern", "z", "query", "key", "value"):
        ours, theirs = (getattr(record, kept) for record in records)
        assert not isinstance(theirs, ElsewhereTensor)
        close(theirs, ours)
    ours, theirs = (record.sink for record in records)
    assert (ours is None) == (theirs is None)
    if ours is not None:
        close(theirs, ours)
    gates = torch.ones(both[0].n_layers, both[0].n_heads)
    gates[0, 1] = gates[2, 3] = 0.0
    ours, theirs = (model.trace(TEXT, keep=("pattern", "z"), gates=gates) for model in both)
    assert not ours.z[2, 3].any()
    close(theirs.z, ours.z)
    expected = both[0].trace(TEXT).pattern
    monkeypatch.setattr(AttentionModel, "runs_by_rows", lambda self, n: True)
    monkeypatch.setattr("mha_viz.core.attention.scoring.DEVICE_BLOCK_BYTES", 4 * 6 * 11 * 3)
    record = both[1].trace(TEXT)
    assert isinstance(record.patterns, ComputedPatterns)
    close(record.pattern, expected)


def test_tiles_and_metrics_are_made_where_each_layer_is(
    both: tuple[AttentionModel, AttentionModel],
) -> None:
    """No pattern is fetched for them: it is computed of queries and keys when it is asked for."""
    ours, theirs = (model.trace(TEXT, keep=REDUCED) for model in both)
    assert isinstance(ours.patterns, StoredPatterns)
    assert isinstance(theirs.patterns, ComputedPatterns) and theirs.patterns.measured
    expected, found = measure(ours), measure(theirs)
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        close(found[key], values)
    close(theirs.tiles(), ours.tiles())
    close(theirs[1, 3], ours[1, 3])
    close(theirs.pattern, ours.pattern)


def numbers(model: AttentionModel) -> dict[str, Tensor]:
    """Return the numbers of each table of a shard of three texts, with trees of none."""
    items = [Item(i, text, f"texts:{i + 1}") for i, text in enumerate((TEXT, OTHER, TEXT[8:]))]
    tables = measure_shard(model, items, Settings()).tables
    frames = {name: table.to_pandas().select_dtypes("number") for name, table in tables.items()}
    return {name: torch.from_numpy(frame.to_numpy(float)) for name, frame in frames.items()}


def test_a_shard_of_a_study_is_the_same_wherever_layers_are(
    both: tuple[AttentionModel, AttentionModel],
) -> None:
    ours, theirs = map(numbers, both)
    assert theirs.keys() == ours.keys() >= {"texts", "edges", "pairs", "profile", "chance"}
    for name, table in ours.items():
        torch.testing.assert_close(theirs[name], table, rtol=1e-4, atol=1e-5, equal_nan=True)


PREDICTED: dict[str, Callable[[AttentionModel], Any]] = {
    "predict": lambda model: mv.predict(model, TEXT, position=3).log_probs,
    "ablation": lambda model: mv.head_importance(model, [TEXT, OTHER]).mean,
    "gradient": lambda model: mv.head_importance(model, [TEXT, OTHER], "gradient").mean,
}


@pytest.mark.parametrize(
    ("name", "what", "n"),
    [
        ("tiny-bert", "predict", "two"),
        ("tiny-bert", "gradient", "two"),
        ("tiny-gpt2", "ablation", "mps"),
    ],
)
def test_predictions_are_the_same_elsewhere(name: str, what: str, n: str) -> None:
    here = mv.load(name, device="cpu")
    network = copy.deepcopy(here.network)
    put(network, PLACED[n])
    with other_devices():
        there = AttentionModel(network, here.tokenizer, name=name)
        found: Sequence[Any] = [PREDICTED[what](model) for model in (here, there)]
    torch.testing.assert_close(*map(torch.as_tensor, reversed(found)), rtol=1e-4, atol=2e-5)
