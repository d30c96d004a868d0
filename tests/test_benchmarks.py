"""The benchmarks run; how fast anything is depends on the machine and is not tested."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import TimeoutError as PlaywrightTimeout
from transformers import LlamaConfig

import mha_viz as mv
from benchmarks import __main__ as command
from benchmarks import (
    cards,
    circuits,
    composition,
    crowd,
    grid,
    importance,
    labs,
    long,
    measure,
    report,
    study,
    trace,
)
from mha_viz.learn.frame.contents import LABS
from tests.making.comparing import near

pytestmark = pytest.mark.slow

LLAMA = dict(
    architectures=["LlamaForCausalLM"],
    vocab_size=len(trace.WORDS),
    hidden_size=24,
    intermediate_size=37,
    num_hidden_layers=3,
    num_attention_heads=6,
    num_key_value_heads=2,
    max_position_embeddings=101,
)
TINY = dict(num_hidden_layers=2, num_attention_heads=3, hidden_size=12, intermediate_size=7)
SMALL = dict(repeats=1, n_layers=2, n_heads=3, d_model=12)
SUBJECTS = {
    "trace": partial(trace.measure, lengths=(5,), repeats=2, **TINY),
    "study": partial(study.measure, n_texts=3, repeats=1, batch_tokens=300, n_searched=200, **TINY),
    "cards": partial(
        cards.measure, "cpu", n_texts=3, n_tokens=11, repeats=2, llama=LlamaConfig(**LLAMA), **TINY
    ),
    "composition": partial(composition.measure, repeats=2, **TINY),
    "report": partial(report.measure, lengths=(5,), repeats=2, **TINY),
    "importance": partial(importance.measure, **SMALL),
    "circuits": partial(circuits.measure, vocabulary=101, **SMALL),
}


@pytest.mark.parametrize("subject", SUBJECTS)
def test_measure_of_a_subject_names_and_measures_each_of_its_rows(subject: str) -> None:
    results = SUBJECTS[subject]()
    assert len(results) >= 3
    assert all(r.measure and r.ours for r in results)
    assert all(float(r.ratio) > 0 for r in results if r.ratio.replace(".", "").isdigit())


def test_memory_of_a_large_model_is_that_of_its_tensors() -> None:
    llama = LlamaConfig(**LLAMA)
    model = long.model(llama, dtype=torch.bfloat16)
    sizes = cards.memory(llama, 101)
    weights = sum(weight.nbytes for weight in model.network.parameters())
    assert sizes["weights"] == weights + 2 * len(trace.WORDS) * 24  # and the head's, not tied
    record = model.trace(trace.text(101), keep="all")
    kept = sum(getattr(record, name).numel() for name in ("query", "key", "z"))
    assert sizes["queries, keys and z until the end"] == 2 * kept
    assert sizes["mask"] == 2 * 101**2 and sizes["tiles"] == 4 * 3 * 6 * 128**2
    pattern = 4 * 6 * 101**2
    assert 2 * pattern < sizes["working memory"] < 20 * pattern


def test_held_counts_bytes_while_tensors_hold_them() -> None:
    with cards._Held() as held:
        a = torch.empty(7, device="meta")
        b = a * 2
        view = b[2:]
        del a, b
        c = view + 1  # 7 and 5 numbers: the view holds what it is of
        del c
        d = torch.empty(17, device="meta")
    assert (held.now, held.most) == (4 * (7 + 17), 4 * (7 + 17)) and len(d) == 17
    del view, d
    assert held.now == 0


def test_the_double_loops_compute_what_is_measured() -> None:
    model = trace.traced_model(**TINY)
    record = model.trace(trace.text(7), keep=("pattern", "z"))
    a, b = (record.pattern.flatten(0, 1)[i].numpy() for i in (1, 4))
    z_a, z_b = (record.kept("z").flatten(0, 1)[i].numpy() for i in (1, 4))
    measures = ("hellinger", "correlation", "redundancy", "cka")
    ours = [float(mv.head_similarity(record, name)[1, 4]) for name in measures]
    assert report._four(a, b, z_a, z_b) == pytest.approx(ours, abs=1e-4)
    divergence = float(mv.head_similarity(record, "jensen_shannon")[1, 4])
    assert report._clark(a, b) == pytest.approx(divergence, rel=0.02, abs=1e-6)  # smoothed


def test_importance_is_that_of_separate_passes() -> None:
    model = importance.random_model("causal", 30522, n_layers=2, n_heads=3, d_model=12)
    sentence = trace.text(11)
    whole = importance._pass(model, sentence, ())
    separate = [
        [importance._pass(model, sentence, [(layer, head)]) - whole for head in range(3)]
        for layer in range(2)
    ]
    ours = mv.head_importance(model, sentence, method="ablation").mean
    assert ours.numpy() == near(np.array(separate))


def test_transformer_lens_computes_the_same_in_the_benchmark() -> None:
    model = importance.random_model("causal", 101, n_layers=3, n_heads=2, d_model=46)
    lens = importance.in_transformer_lens(model)
    if lens is None:
        # Nothing but the benchmark needs it; tests of paths have hooks on the eager model.
        pytest.skip("not downloaded: python -m benchmarks --fetch importance")
    clean, other = circuits.text(7), circuits._changed(circuits.text(7))
    ids, others = (circuits._ids(model, one) for one in (clean, other))
    ours = mv.logit_attribution(model, clean).heads.flatten()
    assert ours.numpy() == near(circuits._logit(lens, ids).flatten().numpy())
    path = mv.path_effect(model, clean, other, (0, 0), (2, 0, "key"), "logit").direct
    assert path == near(circuits._path(lens, ids, others, 3))


def test_every_lab_has_a_control_that_is_measured() -> None:
    assert sorted([*labs.SLIDERS, *labs.BUTTONS]) == sorted(lab.key for lab in LABS)


def test_write_replaces_what_stands_between_its_markers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Head\n<!-- begin grid -->\nold\n<!-- end grid -->\nfoot\n")
    rows = [measure.Result("click", "210 ms", aim="200 ms", met=False)]
    command.write("grid", command.table(rows), page)
    command.write("grid", command.table(rows), page)  # a second time changes nothing
    written = page.read_text()
    assert "| click | 210 ms |  |  | 200 ms | **missed** |" in written
    assert written.startswith("# Head\n") and written.endswith("\nfoot\n") and "old" not in written
    with pytest.raises(SystemExit):
        command.write("memory", "", page)


def test_interleaved_takes_turns_after_warming_up() -> None:
    turns: list[str] = []
    ways = {"a": lambda: turns.append("a"), "b": lambda: turns.append("b")}
    seconds = measure.interleaved(ways, repeats=2, warm_up=1)
    assert "".join(turns) == "ab" + "abab"
    assert [len(values) for values in seconds.values()] == [2, 2]
    assert measure.ratio([2.0, 9.0, 4.0], [1.0, 1.0, 2.0]) == 2.0


def test_length_of_a_peer_that_gives_up_says_so_and_a_fault_of_ours_is_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    errors = [
        PlaywrightTimeout("Page.wait_for_function: Timeout 150000ms exceeded."),
        PlaywrightError("Page.evaluate: ReferenceError: x is not defined"),
    ]

    def fails(*_: object) -> None:
        raise errors.pop(0)

    monkeypatch.setattr(grid, "_ours", lambda *_: (0.5, 1000))
    monkeypatch.setattr(grid, "_bertviz", fails)
    time, size = grid._length(None, 8, 1, missing="")
    assert "150 s" in time.beside and not size.beside
    with pytest.raises(PlaywrightError, match="ReferenceError"):
        grid._length(None, 8, 1, missing="")


def test_a_crowd_waits_and_each_sees_what_is_theirs() -> None:
    sizes = dict(raw=3, browsers=0, pause=0.3, seconds=6, n_alone=3)
    sizes["replicas"] = 2 if shutil.which("caddy") else 1
    with ThreadPoolExecutor(1) as thread:  # other tests' browser may have an event loop in this one
        results = thread.submit(crowd.measure, **sizes).result()
    assert results[-1].met and results[-1].ours.startswith("0 of ")
