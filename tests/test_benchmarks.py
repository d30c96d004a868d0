"""The benchmarks run; how fast anything is depends on the machine and is not tested."""

from functools import partial

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
