"""Listed and drawn faults against code and tests, and the check itself on a small project."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutations.__main__ import summary
from tests.mutations.mutants import (
    HELD_BACK,
    NODE_TEST,
    SAMPLE,
    Mutant,
    StaleError,
    is_defined,
    read_lists,
    read_rows,
    read_sample,
)

ROOT = Path(__file__).parents[2]
MUTATIONS = read_lists()
SUMS = "def add(a, b):\n    return a + b\n\n\ndef most(values):\n    return max(values)\n"
TESTS = (
    "from mha_viz.core.sums import add, most\n\n\ndef test_add():\n    assert add(7, 5) == 12\n\n\n"
    "def test_most():\n    assert most([3, 3]) == 3\n"
)
LIST = """
[[mutation]]
name = "sum with the wrong sign"
file = "mha_viz/core/sums.py"
before = "a + b"
after = "a - b"
tests = ["tests/core/test_sums.py::test_add"]

[[mutation]]
name = "least for the most"
file = "mha_viz/core/sums.py"
before = "max(values)"
after = "min(values)"
tests = ["tests/core/test_sums.py"]
"""
DRAWN = Mutant("s001", "sums.py", "    return a + b", "    return a - b", line=2)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_mutated_listed_piece_occurs_once_and_its_tests_exist(mutation: Mutant) -> None:
    text = mutation.mutated(ROOT)
    assert text != (ROOT / mutation.file).read_text("utf-8")
    if mutation.file.endswith(".py"):
        compile(text, mutation.file, "exec")
    assert mutation.tests and all(is_defined(test, ROOT) for test in mutation.tests)


def test_read_lists_finds_mutations_of_every_room() -> None:
    assert {"core", "engine", "corpus", "circuits", "web", "ui"} <= {m.room for m in MUTATIONS}
    assert len(MUTATIONS) >= 40


def test_samples_have_the_drawn_numbers_and_compile_where_lines_fit() -> None:
    sample, held_back = read_sample(SAMPLE), read_sample(HELD_BACK)
    assert (len(sample), len(held_back)) == (400, 100)
    assert len({mutant.name for mutant in sample + held_back}) == 500
    assert {mutant.group for mutant in sample} == {"ui", "web (JavaScript)", "learn", "rest"}
    for mutant in sample:
        try:
            text = mutant.mutated(ROOT)
        except StaleError:
            continue  # code moves
        if mutant.file.endswith(".py"):
            compile(text, mutant.file, "exec")


def test_mutated_drawn_takes_the_nearest_lines_and_names_lines_that_are_gone(
    tmp_path: Path,
) -> None:
    (tmp_path / "sums.py").write_text(2 * SUMS)
    second = Mutant("s002", "sums.py", DRAWN.before, DRAWN.after, line=9)
    assert DRAWN.mutated(tmp_path) == SUMS.replace("a + b", "a - b") + SUMS
    assert second.mutated(tmp_path) == SUMS + SUMS.replace("a + b", "a - b")
    removed = Mutant("s003", "sums.py", DRAWN.before, "", line=2)
    assert removed.mutated(tmp_path) == SUMS.replace("    return a + b\n", "") + SUMS
    (tmp_path / "sums.py").write_text(SUMS.replace("a + b", "a + b + 0"))
    with pytest.raises(StaleError, match=r"s001.*sums\.py"):
        DRAWN.mutated(tmp_path)


def test_tests_in_runs_named_tests_that_exist_or_those_of_the_room() -> None:
    killer = "tests/mutations/test_mutations.py::test_read_lists_finds_mutations_of_every_room[x y]"
    script = "tests/web/javascript/test_flow.js::some title"
    named = Mutant("", "mha_viz/core/a.py", "", "", (killer, "tests/core/test_none.py::test_a"))
    assert named.tests_in(ROOT) == ((killer.partition("[")[0],), False)
    unnamed = Mutant("", "mha_viz/learn/a.py", "", "", ("tests/core/test_units.py::test_none",))
    assert unnamed.tests_in(ROOT) == (("tests/ui", "tests/labs", "mha_viz/ui"), True)
    in_node = Mutant("", "mha_viz/web/components/a/b.js", "", "", (script,))
    assert in_node.tests_in(ROOT) == ((f"{NODE_TEST}[test_flow]",), False)


def test_summary_equivalent_mutants_do_not_count() -> None:
    mutants = [Mutant(f"s{i}", "a.py", "a", "b", line=1) for i in range(3)]
    mutants.append(Mutant("s3", "a.py", "a", "b", line=1, equivalent="never called"))
    rows = {m.name: {"killers": ["test"] if m.name == "s0" else []} for m in mutants}
    text = summary(mutants, rows)
    assert "rest: 1 of 3 noticed (33%)" in text
    assert "s1" in text and "s3" not in text and "+ b" in text


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Make a project of one module, half of which is tested."""
    options = "[pytest]\npythonpath = .\naddopts = --import-mode=importlib\n"
    for name, text in {
        "mha_viz/__init__.py": "",
        "mha_viz/core/__init__.py": "",
        "mha_viz/core/sums.py": SUMS,
        "tests/core/test_sums.py": TESTS,
        "pytest.ini": f"{options}markers = browser\n extended\n",
        "faults.toml": LIST,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    return tmp_path


# The tests of the small project need none of the large libraries, which take seconds.
LIGHT = """
import sys
from tests.mutations import runs
runs.LIBRARIES = ("pytest",)
from tests.mutations.__main__ import main
sys.exit(main())
"""


def check(project: Path, *options: str, light: bool = True) -> tuple[int, str]:
    """Run the check on a project, and return its exit code and output."""
    program = ["-c", LIGHT] if light else ["-m", "tests.mutations"]
    mutants = () if "--sample" in options else ("--list", "faults.toml")
    done = subprocess.run(
        [sys.executable, *program, *mutants, "--jobs", "2", *options],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.extended
@pytest.mark.slow
def test_check_names_what_survives_and_leaves_the_project_alone(project: Path) -> None:
    paths = list(project.glob("*/core/*.py"))
    before = [path.read_bytes() for path in paths]
    code, said = check(project, light=False)
    assert code == 1, said
    assert "sum with the wrong sign: noticed by tests/core/test_sums.py::test_add" in said
    assert "least for the most: SURVIVED" in said and "rest: 1 of 2 noticed" in said
    code, said = check(project, "-k", "sign")
    assert code == 0 and "rest: 1 of 1 noticed" in said, said
    assert before == [path.read_bytes() for path in paths]


@pytest.mark.extended
@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("== 12", "== 13", "Without any mutation the tests do not pass"),
        # A fault that is put into a test, and no skip of this one.
        ("    assert", "    import pytest; pytest.skip()\n    assert", "sign: UNCLEAR"),
    ],
)
def test_check_cannot_tell_where_tests_fail_anyway_or_are_skipped(
    project: Path, before: str, after: str, expected: str
) -> None:
    path = project / "tests/core/test_sums.py"
    path.write_text(path.read_text().replace(before, after))
    code, said = check(project, "-k", "sign")
    assert code == 2 and expected in said, said


def test_check_names_a_mutation_whose_piece_is_gone(project: Path) -> None:
    path = project / "mha_viz/core/sums.py"
    path.write_text(path.read_text().replace("a + b", "b + a"))
    code, said = check(project)
    assert code == 2 and "sum with the wrong sign: expected this piece once" in said, said


@pytest.mark.extended
@pytest.mark.slow
def test_sample_on_a_small_project_runs_the_room_and_goes_on(project: Path) -> None:
    fault = {"file": "mha_viz/core/sums.py", "line": 2, "after": "    return a - b"}
    rows = [
        {"id": "s001", **fault, "before": "    return a + b"},
        {"id": "s002", **fault, "line": 6, "before": "    return max(values)", "after": ""},
        {"id": "s003", **fault, "before": "gone"},
        {"id": "s004", **fault, "before": "    return a + b", "after": "    return b + a"},
    ]
    (project / "drawn.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for _ in range(2):
        code, said = check(project, "--sample", "drawn.jsonl", "--results", "build/rows.jsonl")
        assert code == 0 and "rest: 2 of 3 noticed (67%)" in said, said
        assert "1 drawn mutants are stale" in said
    results = read_rows(project / "build/rows.jsonl")
    assert results["s001"]["killers"] == ["tests/core/test_sums.py::test_add"]
    assert results["s004"]["killers"] == []
