"""The random sample: its files, where a mutant fits, the tests that cover it, and loaded code."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutations.node_runs import importers, run_javascript
from tests.mutations.patching import PatchError, is_in_function, loaded_functions, patch
from tests.mutations.sample import HELD_BACK, SAMPLE, Sampled, StaleError, read_sample, write_sample
from tests.mutations.sampled import read_rows, summary

ROOT = Path(__file__).parents[2]
SUMS = "def least(a, b):\n    if a < b:\n        return a\n    return b\n\n\nLIMIT = least(3, 2)\n"
MUTANT = Sampled("s001", "sums.py", 2, "order", "    if a < b:", "    if a > b:")


def test_sample_files_have_the_drawn_numbers_and_different_ids() -> None:
    sample, held_back = read_sample(SAMPLE), read_sample(HELD_BACK)
    assert (len(sample), len(held_back)) == (400, 100)
    assert len({mutant.id for mutant in sample + held_back}) == 500
    assert {mutant.group for mutant in sample} == {"ui", "web (JavaScript)", "learn", "rest"}
    assert not {(m.file, m.before, m.after, m.line) for m in sample} & {
        (m.file, m.before, m.after, m.line) for m in held_back
    }


def test_mutated_where_lines_fit_compiles() -> None:
    for mutant in read_sample(SAMPLE):
        try:
            text = mutant.mutated(ROOT)
        except StaleError:
            continue  # code moves
        if mutant.file.endswith(".py"):
            compile(text, mutant.file, "exec")


def test_mutated_takes_the_nearest_lines_and_names_lines_that_are_gone(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text(SUMS + SUMS.replace("least", "most"))
    second = replace(MUTANT, line=12)
    assert second.first_line(tmp_path) == 9
    assert second.mutated(tmp_path).count("a < b") == 1
    assert second.mutated(tmp_path).index("a < b") < second.mutated(tmp_path).index("a > b")
    removed = replace(MUTANT, after="")
    assert removed.mutated(tmp_path).count("\n") == 2 * SUMS.count("\n") - 1
    (tmp_path / "sums.py").write_text("")
    with pytest.raises(StaleError, match=r"s001.*sums\.py"):
        second.mutated(tmp_path)


def test_write_sample_read_again_is_the_same(tmp_path: Path) -> None:
    mutants = [MUTANT, replace(MUTANT, id="s002", after="", equivalent="a and b are equal")]
    write_sample(mutants, tmp_path / "sample.jsonl")
    assert read_sample(tmp_path / "sample.jsonl") == mutants


def test_patch_changes_loaded_functions_of_the_module_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "patched_sums.py"
    path.write_text(SUMS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    module = __import__("patched_sums")
    least = module.least
    functions = loaded_functions(tmp_path)[str(path)]
    patch(path, SUMS, MUTANT.after.join(SUMS.split(MUTANT.before)), functions)
    assert least(5, 7) == 7 and module.LIMIT == 2
    with pytest.raises(PatchError):
        patch(tmp_path / "unloaded.py", SUMS, SUMS, functions)
    monkeypatch.delitem(sys.modules, "patched_sums")


def test_is_in_function_head_of_a_function_is_not() -> None:
    assert is_in_function(SUMS, 2, 3)
    assert not is_in_function(SUMS, 1, 1) and not is_in_function(SUMS, 7, 7)


def test_importers_of_a_component_are_tests_that_load_it(tmp_path: Path) -> None:
    tests, component = tmp_path / "tests/web/javascript", tmp_path / "mha_viz/web/components/a"
    for folder in (tests, component):
        folder.mkdir(parents=True)
    (component / "sums.js").write_text("export const sum = (a, b) => a + b;\n")
    (component / "sums_view.js").write_text('export { sum } from "./sums.js";\n')
    (tests / "test_sums.js").write_text(
        'import "../../../mha_viz/web/components/a/sums_view.js";\n'
    )
    (tests / "test_other.js").write_text("")
    file = "mha_viz/web/components/a/sums.js"
    assert importers(tmp_path, file) == [tests / "test_sums.js"]


def test_summary_equivalent_mutants_do_not_count() -> None:
    mutants = [replace(MUTANT, id=f"s00{i}") for i in range(4)]
    mutants[3] = replace(mutants[3], equivalent="never called")
    rows = {
        mutant.id: {"killers": ["test"] if i == 0 else [], "n_tests": 5}
        for i, mutant in enumerate(mutants)
    }
    text = summary(mutants, rows)
    assert "rest: 1 of 3 noticed (33%)" in text
    assert "s001" in text and "s003" not in text and "+     if a > b:" in text


TESTS = """
import sums


def test_least():
    assert sums.least(5, 7) == 5


def test_limit():
    assert sums.LIMIT == 2
"""


@pytest.mark.extended
@pytest.mark.slow
def test_sample_on_a_small_project_names_its_survivors_and_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("pytest_cov")
    options = "pythonpath = .\naddopts = --import-mode=importlib\nmarkers = browser\n extended\n"
    for name, text in {
        "mha_viz/__init__.py": "",
        "mha_viz/sums.py": SUMS,
        "tests/test_sums.py": TESTS.replace("import sums", "from mha_viz import sums"),
        "pytest.ini": f"[pytest]\n{options}",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    mutants = [
        replace(MUTANT, file="mha_viz/sums.py"),
        replace(MUTANT, file="mha_viz/sums.py", id="s002", after="    if a <= b:"),
        replace(MUTANT, file="mha_viz/sums.py", id="s003", before="gone"),
    ]
    write_sample(mutants, tmp_path / "drawn.jsonl")
    command = [sys.executable, "-m", "tests.mutations", "--sample", "drawn.jsonl", "--jobs", "1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1"}
    for _ in range(2):
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "rest: 1 of 2 noticed (50%)" in done.stdout, done.stdout + done.stderr
        assert "1 mutants are stale" in done.stdout
    rows = read_rows(tmp_path / "build" / "mutations" / "drawn_results.jsonl")
    assert rows["s001"]["killers"] == ["tests/test_sums.py::test_least"]


def test_run_javascript_leaves_the_component_as_it_was(tmp_path: Path) -> None:
    mutant = Sampled(
        "s001",
        "mha_viz/web/components/a/sums.js",
        1,
        "+ to -",
        "export const a = 1 + 1;",
        "export const a = 1 - 1;",
    )
    for tree in ("whole", "copy"):
        path = tmp_path / tree / mutant.file
        path.parent.mkdir(parents=True)
        path.write_text(mutant.before + "\n")
        (tmp_path / tree / "tests/web/javascript").mkdir(parents=True)
    result = run_javascript(
        mutant, tmp_path / "whole", tmp_path / "copy", tmp_path / "values.json", every=False
    )
    assert (result.n_tests, result.failed) == (0, [])
    assert (tmp_path / "copy" / mutant.file).read_text() == mutant.before + "\n"
