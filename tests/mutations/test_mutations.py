"""Lists of mutations against code and tests, and the check itself on a small project."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutations.listing import Mutation, read_lists

ROOT = Path(__file__).parents[2]
MUTATIONS = read_lists()
LIST = """
[[mutation]]
name = "sum with the wrong sign"
file = "sums.py"
before = "a + b"
after = "a - b"
tests = ["test_sums.py::test_add"]

[[mutation]]
name = "least for the most"
file = "sums.py"
before = "max(values)"
after = "min(values)"
tests = ["test_sums.py"]
"""


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.name)
def test_mutated_listed_piece_occurs_once_and_its_tests_exist(mutation: Mutation) -> None:
    text = mutation.mutated(ROOT)
    assert text != (ROOT / mutation.file).read_text("utf-8")
    if mutation.file.endswith(".py"):
        compile(text, mutation.file, "exec")
    assert mutation.tests
    for test in mutation.tests:
        file, _, name = test.partition("::")
        defined = re.escape(f"def {name.partition('[')[0]}")
        assert not name or re.search(rf"^{defined}\(", (ROOT / file).read_text("utf-8"), re.M)


def test_read_lists_finds_mutations_of_every_room() -> None:
    rooms = {"/".join(Path(one.file).parts[1:2]) for one in MUTATIONS}
    assert {"core", "engine", "corpus", "circuits", "web", "ui"} <= rooms
    assert len(MUTATIONS) >= 40


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Make a project of one module, half of which is tested."""
    (tmp_path / "sums.py").write_text(
        "def add(a, b):\n    return a + b\n\n\ndef most(values):\n    return max(values)\n"
    )
    (tmp_path / "test_sums.py").write_text(
        "from sums import add, most\n\n\ndef test_add():\n    assert add(7, 5) == 12\n\n\n"
        "def test_most():\n    assert most([3, 3]) == 3\n"
    )
    (tmp_path / "faults.toml").write_text(LIST)
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
    done = subprocess.run(
        [sys.executable, *program, "--list", "faults.toml", "--jobs", "2", *options],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.extended
@pytest.mark.slow
def test_check_names_what_survives_and_leaves_the_project_alone(project: Path) -> None:
    before = {path.name: path.read_bytes() for path in project.iterdir() if path.is_file()}
    code, said = check(project, light=False)
    assert code == 1, said
    assert "sum with the wrong sign: noticed by test_sums.py::test_add" in said
    assert "least for the most: SURVIVED" in said and "1 of 2 mutations noticed" in said
    code, said = check(project, "-k", "sign")
    assert code == 0 and "1 of 1 mutations noticed" in said, said
    assert before == {path.name: path.read_bytes() for path in project.iterdir() if path.is_file()}


@pytest.mark.extended
@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("== 12", "== 13", "Without any mutation the tests do not pass"),
        ("    assert", "    import pytest; pytest.skip()\n    assert", "sign: UNCLEAR"),
    ],
)
def test_check_cannot_tell_where_tests_fail_anyway_or_are_skipped(
    project: Path, before: str, after: str, expected: str
) -> None:
    path = project / "test_sums.py"
    path.write_text(path.read_text().replace(before, after))
    code, said = check(project, "-k", "sign")
    assert code == 2 and expected in said, said


def test_check_names_a_mutation_whose_piece_is_gone(project: Path) -> None:
    path = project / "sums.py"
    path.write_text(path.read_text().replace("a + b", "b + a"))
    code, said = check(project)
    assert code == 2 and "sum with the wrong sign: expected this piece once" in said, said
