"""The benchmarks run; how fast anything is depends on the machine and is not tested."""

from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import measure, trace

TINY = dict(num_hidden_layers=2, num_attention_heads=3, hidden_size=12, intermediate_size=7)


def test_trace_measures_every_way_at_every_length() -> None:
    results = trace.measure(lengths=(5, 32), repeats=2, **TINY)
    assert [r.measure.split(", ")[-1] for r in results] == ["5 tokens"] * 3 + ["32 tokens"] * 3
    assert all(float(r.ratio) > 0 and "ms" in r.ours for r in results)
    assert [r.aim for r in results if r.aim] == ["at most 1.00"]


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
