"""The benchmarks run; how fast anything is depends on the machine and is not tested."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from transformers import LlamaConfig

from benchmarks import (
    cards,
    circuits,
    composition,
    importance,
    report,
    study,
    trace,
)
from benchmarks.measure import Result
from benchmarks.page import PAGE, Row, read_rows, update_page

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
    "study": partial(
        study.measure, n_texts=3, repeats=1, batch_tokens=300, n_searched=200, n_small=5, **TINY
    ),
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


def test_update_page_replaces_the_rows_of_its_bench_alone(tmp_path: Path) -> None:
    copy = tmp_path / "benchmarks.md"
    copy.write_text(PAGE.read_text("utf-8"), "utf-8")
    before = list(read_rows(copy))
    results = [
        Result("an aim met", "7 ms", aim="11 ms", met=True),
        Result("an aim missed", "13 ms", ratio="1.3", aim="10 ms", met=False),
        Result("no aim", "17 ms"),
    ]
    update_page("labs", results, "today", copy)
    rows = list(read_rows(copy))
    assert [row for row in rows if row.bench != "labs"] == [r for r in before if r.bench != "labs"]
    labs = {row.result.measure: row for row in rows if row.bench == "labs"}
    assert labs.keys() == {"an aim met", "an aim missed"}
    assert labs["an aim met"].result == replace(results[0], ratio="0.64 of the aim")
    assert labs["an aim missed"] == Row("labs", results[1], "today")


def test_the_page_gives_a_reason_for_each_aim_that_is_missed() -> None:
    page, rows = PAGE.read_text("utf-8"), list(read_rows())
    assert len(rows) > 50 and any(not row.result.met for row in rows)
    assert "not yet known" not in page and all(row.result.ratio for row in rows)
