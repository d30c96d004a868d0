"""The same calls on a GPU and on the processor, compared value by value.

Runs where torch has CUDA or Apple's MPS; CONTRIBUTING.md says so, as the machines that test a
change have neither. `tests/engine/test_other_devices.py` runs everywhere, on devices that are not
there.
"""

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import mha_viz as mv
from mha_viz.core.measure import measure
from mha_viz.corpus.measure.pair_similarity import MEASURES as PAIR_MEASURES
from mha_viz.corpus.treebank.trees import SAMPLE
from mha_viz.engine import loaded_network
from mha_viz.engine.model import AttentionModel
from tests.circuits.test_path_effect import predicting
from tests.engine.between_layers import between_layers
from tests.engine.test_families import CAUSAL, FALLBACK, PAIRED, SINGLE
from tests.engine.test_families import build as build_family
from tests.making.comparing import assert_alike

GPU = "cuda" if torch.cuda.is_available() else "mps"
N_CARDS = torch.cuda.device_count()
pytestmark = pytest.mark.skipif(
    GPU == "mps" and not torch.backends.mps.is_available(),
    reason="compares a GPU with the processor, and there is none",
)
TEXT, OTHER = "The cat sat on the mat because it was tired.", "A dog ran to the house and it slept."
EVERYTHING = ("pattern", "z", "tiles", "metrics")
SHORT, SHORT_OTHER = "the cat sat on a mat", "the cat ran on the mat"


def on_gpu(model: AttentionModel) -> AttentionModel:
    """The same network and tokenizer, moved."""
    network = copy.deepcopy(model.network).to(GPU)
    return AttentionModel(network, model.tokenizer, name=model.name)


@pytest.mark.parametrize("name", [*SINGLE, *PAIRED])
def test_every_family_leaves_the_same_record(name: str) -> None:
    here = build_family({**SINGLE, **PAIRED}[name], name)
    there = on_gpu(here)
    keep = ("pattern",) if name in FALLBACK else ("pattern", "z", "query", "key", "value")
    records = [model.trace(SHORT, keep=keep) for model in (here, there)]
    for kept in keep:
        assert_alike(*(getattr(record, kept) for record in records))


@pytest.mark.parametrize("name", [name for name in SINGLE if name not in FALLBACK])
def test_every_family_predicts_the_same(name: str) -> None:
    here = predicting(name)
    place = None if name in CAUSAL else 4
    both = [mv.predict(model, SHORT, position=place).log_probs for model in (here, on_gpu(here))]
    assert_alike(*both)


MEASURED: dict[str, Callable[[AttentionModel], Any]] = {
    "report": lambda model: mv.head_report(model.trace(TEXT), model),
    "reduced": lambda model: measure(model.trace(TEXT, keep=EVERYTHING)),
    "tiles": lambda model: model.trace(TEXT, keep=EVERYTHING).tiles(),
    "a head of what was reduced": lambda model: model.trace(TEXT, keep=EVERYTHING)[2, 3],
    "weights of what was reduced": lambda model: model.trace(TEXT, keep=EVERYTHING).pattern,
    "hellinger": lambda model: mv.head_similarity(model.trace(TEXT)),
    "jensen_shannon": lambda model: mv.head_similarity(model.trace(TEXT), "jensen_shannon"),
    "cka": lambda model: mv.head_similarity(model.trace(TEXT), "cka"),
    "redundancy": lambda model: mv.head_similarity(model.trace(TEXT), "redundancy"),
    "parameters": lambda model: mv.parameter_similarity(model, "W_Q", "subspace_overlap"),
    "diversity": lambda model: mv.diversity(model, 1),
    "predict": lambda model: mv.predict(model, TEXT, position=3).log_probs,
    "ablate zero": lambda model: mv.ablate(model, TEXT, [(1, 2), (2, 3)], position=3).table(),
    "ablate mean": lambda model: mv.ablate(
        model, TEXT, [(1, 2)], "mean", reference=[TEXT, OTHER], position=3
    ).table(),
    "by ablation": lambda model: mv.head_importance(model, [TEXT, OTHER]).table(),
    "by gradient": lambda model: mv.head_importance(model, [TEXT, OTHER], "gradient").table(),
    "logit": lambda model: mv.logit_attribution(model, TEXT, position=3),
    "score": lambda model: mv.score_attribution(model, TEXT, 1, 2, 5, 3),
    "K-composition": lambda model: mv.composition(model, "K"),
    "copying": lambda model: mv.copying_scores(model).score,
    "lens": lambda model: mv.logit_lens(model, TEXT, position=3).table(),
    "path": lambda model: mv.path_effect(
        model, TEXT, [TEXT, OTHER], (0, 3), (1, 2, "query"), "kl", position=3
    ),
    "paths": lambda model: mv.path_effects(model, TEXT, [TEXT, OTHER], "kl", position=3).table(),
    "patching": lambda model: mv.patching_map(
        model, TEXT, TEXT.replace("cat", "dog"), "kl", "attention", position=3
    ).table(),
    "vocabulary": lambda model: mv.token_matrices(model, 1, 2, ["cat", "dog", "sat"])["QK"],
    "flow": lambda model: mv.flow_graph(model, TEXT, 5),
    "prediction": lambda model: torch.tensor(
        mv.prediction_graph(model, TEXT, position=3, share=1).path_sum
    ),
}


# Of a masked model there are no weights from token to token, and nothing to say of copying.
@pytest.mark.parametrize(
    ("name", "what"),
    [
        (name, what)
        for name in ("tiny-bert", "tiny-gpt2")
        for what in MEASURED
        if (name, what) != ("tiny-bert", "copying")
    ],
)
def test_every_measure_is_the_same(name: str, what: str) -> None:
    here, there = (mv.load(name, device=device) for device in ("cpu", GPU))
    assert_alike(MEASURED[what](here), MEASURED[what](there), atol=1e-4, rtol=2e-3)


def test_a_circuit_carries_the_same() -> None:
    found = []
    for device in ("cpu", GPU):
        model = mv.load("tiny-gpt2", device=device)
        found.append(mv.faithfulness(model, "induction", [(0, 7), (1, 2)], n_random=3).table())
    assert_alike(*found, atol=1e-3, rtol=1e-3)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Passes in which CUDA itself refuses every wait, from the first layer to the last."""
    set_mode = torch.cuda.set_sync_debug_mode
    with between_layers(
        monkeypatch, lambda: set_mode("error"), lambda: set_mode("default")
    ) as all_:
        yield all_


@pytest.mark.parametrize("name", ["tiny-bert", "tiny-gpt2", "tiny-llama"])
@pytest.mark.parametrize("by_rows", [False, True])
def test_a_trace_waits_for_no_layer(
    monkeypatch: pytest.MonkeyPatch, spans: list[int], name: str, by_rows: bool
) -> None:
    if by_rows:
        monkeypatch.setattr(loaded_network, "STORED_BYTES", 0)
    model = mv.load(name, device="cuda")
    model.trace(TEXT, keep=("pattern", "z", "tiles", "metrics"))
    assert spans[-1] == model.n_layers


@pytest.mark.parametrize("name", ["tiny-bert", "tiny-gpt2", "tiny-llama"])
def test_a_study_waits_for_no_layer(spans: list[int], name: str, tmp_path) -> None:
    model = mv.load(name, device="cuda")
    mv.study(model, SAMPLE, tmp_path, sample=53)
    assert len(spans) >= 2  # the model's own and that of its copy with random weights


@pytest.mark.parametrize("name", ["tiny-bert", "tiny-gpt2"])
def test_a_study_of_trees_finds_the_same(name: str, tmp_path) -> None:
    studies = []
    for device in ("cpu", GPU):
        model = mv.load(name, device=device)
        studies.append(mv.study(model, SAMPLE, tmp_path / device, sample=53))
    here, there = studies
    assert here.n_texts == there.n_texts == 53
    for table in ("heads", "trees", "relations", "parts_of_speech", "profile"):
        assert_alike(*(getattr(one, table) for one in studies), atol=1e-4, rtol=2e-3)
    for pair_measure in PAIR_MEASURES:
        assert_alike(*(one.pairs(pair_measure) for one in studies), atol=1e-4, rtol=2e-3)


@pytest.mark.skipif(not N_CARDS, reason="there is no CUDA card")
def test_a_study_on_all_cards_finds_the_same(tmp_path: Path) -> None:
    """A single card has a process of its own, too."""
    model = mv.load("tiny-bert", device="cpu")
    here = mv.study(model, SAMPLE, tmp_path / "here", sample=53)
    there = mv.study(model, SAMPLE, tmp_path / "there", sample=53, devices="all")
    for table in ("heads", "trees", "relations", "profile"):
        assert_alike(*(getattr(one, table) for one in (here, there)), atol=1e-4, rtol=2e-3)


@pytest.mark.skipif(N_CARDS < 2, reason="there are no two CUDA cards")
@pytest.mark.parametrize("name", ["tiny-bert", "tiny-gpt2", "tiny-llama"])
def test_a_model_on_two_cards_leaves_the_same_record(name: str) -> None:
    pytest.importorskip("accelerate")
    here, there = mv.load(name, device="cpu"), mv.load(name, device_map="balanced")
    assert {weight.device.index for weight in there.network.parameters()} >= {0, 1}
    for keep in ("all", EVERYTHING):
        records = [model.trace(TEXT, keep=keep) for model in (here, there)]
        for kept in ("pattern", "z"):
            assert_alike(*(getattr(record, kept) for record in records))
        assert_alike(*map(measure, records), atol=1e-4, rtol=2e-3)


@pytest.mark.skipif(not N_CARDS, reason="there is no CUDA card")
def test_weights_are_fetched_to_pages_that_stay() -> None:
    record = mv.load("tiny-bert", device="cuda").trace(TEXT)
    assert record.pattern.is_pinned() and not record.pattern.is_cuda
