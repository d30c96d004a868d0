"""Pairs that strangers paste: a task, or a sentence on why there is none."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import mha_viz as mv
from tests.strangers.fuzzing import fuzzed
from tests.strangers.hostile_texts import PIECES

SIGNS = (
    "{A}",
    "{x=a/b}",
    "{place}",
    "{{",
    "}",
    "[MASK]",
    "clean",
    "wrong",
    ",",
    "|",
    "\t",
    '"',
    " ",
)
CELLS = st.lists(st.sampled_from(SIGNS) | st.sampled_from(PIECES), max_size=5).map("".join)
ROWS = st.lists(st.sampled_from(("cat", "dog", "the")) | CELLS, min_size=3, max_size=5)


def made(model, source):
    """The task, or None and the sentence on why there is none."""
    try:
        return mv.make_task(model, source, 4), ""
    except mv.MhaVizError as error:
        return None, str(error)


@given(rows=st.lists(ROWS, max_size=4), separator=st.sampled_from(",|\t"))
@fuzzed(daily=15, long=3_000)
def test_any_lines_are_a_task_or_a_sentence(gpt, masked, rows, separator) -> None:
    for model in (gpt, masked):
        for source in ("\n".join(separator.join(row) for row in rows) + "\n", rows):
            task, refusal = made(model, source)
            assert len(refusal) < 3_000
            if task is None:
                continue
            assert task.examples and all(len(one) < 900 for one in task.left_out)
            for clean, corrupt, place, right, wrong in task.examples:
                assert len(clean.input_ids) == len(corrupt.input_ids) > place and right != wrong
