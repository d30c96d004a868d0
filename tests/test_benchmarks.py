"""The benchmarks run; how fast anything is depends on the machine and is not tested."""

import mmap
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
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
    memory,
    report,
    siege,
    soak,
    study,
    study_search,
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


def test_trace_measures_every_way_at_every_length() -> None:
    results = trace.measure(lengths=(5, 32), repeats=2, **TINY)
    assert [r.measure.split(", ")[-1] for r in results] == ["5 tokens"] * 3 + ["32 tokens"] * 3
    assert all(float(r.ratio) > 0 and "ms" in r.ours for r in results)
    assert [r.aim for r in results if r.aim] == ["at most 1.00"]


def test_study_measures_every_way_beside_bare_passes_and_a_loop() -> None:
    results = study.measure(n_texts=3, repeats=1, batch_tokens=300, n_searched=200, **TINY)
    assert [r.measure for r in results[:3]] == list(study.WAYS)
    assert all(float(r.ratio) > 0 and "texts/s" in r.ours for r in results[:3])
    assert float(results[3].ours) >= 1 and "times faster" in results[4].ratio
    assert [r.aim for r in results if r.aim] == [
        *("at least 0.85", "at least 0.75"),
        *["under 0.5 s"] * len(study_search.SEARCHES),
    ]


def test_a_device_is_measured_where_there_is_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The processor in its place: every line is there, and what runs is what a card runs."""
    llama = LlamaConfig(**LLAMA)
    sizes = dict(n_texts=3, n_tokens=11, repeats=2, llama=llama)
    results = cards.measure("cpu", **sizes, **TINY)
    assert [r.aim for r in results] == [
        *("at least 0.5", "at least 0.3", "", "at most 3", "at most 15 ms", "at most 80 GB")
    ]
    assert all(r.ours and bool(r.verdict) == bool(r.aim) for r in results)
    assert float(results[3].ratio) > 0
    assert "2.9 kB fetched" in results[4].beside  # 4 bytes x 2 layers x 3 heads x 11 x 11
    with pytest.raises(SystemExit):
        command.main(["--device", "cpu", "trace"])
    assert "give no subject" in capsys.readouterr().err
    monkeypatch.setattr(cards, "measure", lambda device: [results[2]] if device == "cpu" else [])
    monkeypatch.setattr(measure, "SIDE", 16)  # of the matrices that tell how fast a machine is
    written = {"text": ""}
    monkeypatch.setattr(command, "write", lambda *given: written.update(text=given[1]))
    command.main(["--device", "cpu"])
    assert "Measured on the processor; beside it:" in written["text"]
    assert f"| {results[2].measure} | {results[2].ours} |" in written["text"]


def test_the_bytes_of_a_large_model_are_those_of_its_tensors() -> None:
    llama = LlamaConfig(**LLAMA)
    model = long.model(llama, dtype=torch.bfloat16)
    found = cards.memory(llama, 101)
    held = sum(weight.nbytes for weight in model.network.parameters())
    assert found["weights"] == held + 2 * len(trace.WORDS) * 24  # and the head's, not tied
    record = model.trace(trace.text(101), keep="all")
    kept = sum(getattr(record, name).numel() for name in ("query", "key", "z"))
    assert found["queries, keys and z until the end"] == 2 * kept
    assert found["mask"] == 2 * 101**2 and found["tiles"] == 4 * 3 * 6 * 128**2
    pattern = 4 * 6 * 101**2
    assert 2 * pattern < found["working memory"] < 20 * pattern


def test_bytes_are_counted_while_tensors_hold_them() -> None:
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


def test_composition_is_measured_beside_a_bare_pass_and_the_definition() -> None:
    results = composition.measure(repeats=2, **TINY)
    assert [r.measure for r in results] == ["9 pairs, GPT-2", "9 pairs, BERT", "the same, GPT-2"]
    assert [r.aim for r in results] == ["at most 2", "at most 2", ""]
    assert all("ms" in r.ours for r in results) and "times faster" in results[2].ratio


def test_report_measures_every_way_and_its_double_loops() -> None:
    results = report.measure(lengths=(5,), repeats=2, **TINY)
    assert [r.measure for r in results] == [
        f"{name}, 5 tokens"
        for name in (
            "report",
            "of it every head",
            "of it four matrices",
            "`head_report`",
            "once per model: the root of W_O W_Oᵀ",
            "effective rank of every head",
            "`jensen_shannon`, all pairs",
            "`coverage`, all layers",
            "four matrices",
            "`jensen_shannon`, all pairs",
        )
    ]
    assert all(float(r.ratio) > 0 and "ms" in r.ours for r in results[:8])
    assert all("scaled up" in r.beside and "times faster" in r.ratio for r in results[8:])
    assert not any(r.aim for r in results)  # aims are of 128 tokens


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


def test_importance_is_measured_beside_passes_that_find_the_same() -> None:
    model = importance.random_model("causal", 30522, n_layers=2, n_heads=3, d_model=12)
    sentence = trace.text(11)
    whole = importance._pass(model, sentence, ())
    separate = [
        [importance._pass(model, sentence, [(layer, head)]) - whole for head in range(3)]
        for layer in range(2)
    ]
    ours = mv.head_importance(model, sentence, method="ablation").mean
    assert ours.numpy() == near(np.array(separate))
    results = importance.measure(repeats=1, n_layers=2, n_heads=3, d_model=12)
    assert [r.measure for r in results if "TransformerLens" not in r.beside] == [
        "ablation of 6 heads, GPT-2 head",
        "gradient, GPT-2 head",
        "ablation of 6 heads, BERT head",
        "gradient, BERT head",
    ]


def test_circuits_measure_what_they_say() -> None:
    results = circuits.measure(repeats=1, vocabulary=101, n_layers=2, n_heads=3, d_model=12)
    assert [r.measure for r in results if "TransformerLens" not in r.beside] == [
        "a logit, by heads",
        "a score of the last layer",
        "composition of keys",
        "one path, exact",
        "estimates of all paths",
        "estimates, the 20 largest measured",
        "the graph of a token",
    ]


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


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
def test_memory_of_a_study_is_that_of_its_whole_process() -> None:
    assert memory.status("VmRSS") <= memory.study(n_texts=3) < 2**36


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process its peak, in /proc")
def test_peak_memory_is_of_what_was_done_last() -> None:
    memory.forget_peak()
    before = memory.status("VmRSS")
    # not a bytearray: malloc may give it room that earlier tests have freed, resident already
    with mmap.mmap(-1, 50 * memory.MIB) as block:
        for page in range(0, len(block), mmap.PAGESIZE):
            block[page] = 1
        assert memory.status("VmHWM") - before > 0.9 * len(block)
    with pytest.raises(measure.Skipped):
        memory.status("VmNothing")


def test_tables_go_between_their_markers(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (PlaywrightTimeout("Page.wait_for_function: Timeout 150000ms exceeded."), "after 150 s"),
        (
            PlaywrightError(
                "BrowserContext.close: Target page, context or browser has been closed"
            ),
            "the browser ended before its page was painted",
        ),
        (PlaywrightError("Page.evaluate: Target crashed "), "the browser ended before"),
    ],
)
def test_a_peer_that_gives_up_is_told_of_in_words(
    monkeypatch: pytest.MonkeyPatch, error: PlaywrightError, words: str
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(grid, "_ours", lambda *_: (0.5, 1000))
    monkeypatch.setattr(grid, "_bertviz", fails)
    time, size = grid._length(None, 8, 1, missing="")
    assert time.beside.startswith("BertViz gave up: ") and words in time.beside
    assert not size.beside


def test_a_fault_of_the_measurement_is_no_result_of_a_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise PlaywrightError("Page.evaluate: ReferenceError: x is not defined")

    monkeypatch.setattr(grid, "_ours", lambda *_: (0.5, 1000))
    monkeypatch.setattr(grid, "_bertviz", fails)
    with pytest.raises(PlaywrightError, match="ReferenceError"):
        grid._length(None, 8, 1, missing="")


def aside(measured, **sizes):
    """Measure in a thread: a browser of other tests may have an event loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(measured, **sizes).result()


def test_a_crowd_waits_and_each_sees_what_is_theirs() -> None:
    sizes = dict(raw=3, browsers=0, pause=0.3, seconds=6, n_alone=3)
    results = aside(crowd.measure, **sizes, replicas=2 if shutil.which("caddy") else 1)
    rows = ["", "", "below 3", "below 5", ""]
    assert [r.aim for r in results] == [*rows * (1 + bool(shutil.which("caddy"))), "0"]
    assert results[-1].met and results[-1].ours.startswith("0 of ")


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads /proc, which Linux has")
def test_a_short_siege_says_what_visitors_waited_and_what_is_left() -> None:
    results = aside(siege.measure, minutes=0.3)
    named = {r.measure: r for r in results}
    assert named["pages with a traceback"].met and named["most memory"].met
    assert named["open handles left behind"].met and named["temporary files left behind"].met
    tries = named["open handles left behind"].beside
    assert all(word in tries for word in ("idle sockets", "fragments", "uploads", "pages"))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads /proc, which Linux has")
def test_a_short_soak_counts_what_the_server_holds() -> None:
    results = aside(soak.measure, minutes=0.2, visitors=2)
    named = {r.measure: r for r in results}
    assert named["pages with a traceback"].met and int(named["visits"].ours) >= 2
    assert float(named["resident memory"].ours.split()[0].replace(",", "")) > 50
    assert int(named["threads"].ours) > 1 and int(named["open handles"].ours) > 5
