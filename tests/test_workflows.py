"""The forge's files are read as they are meant, and name what is there."""

import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / ".github").rglob("*.yml"))


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_of_the_forge_is_yaml_with_something_in_it(path: Path) -> None:
    assert isinstance(read(path), dict)


def test_every_python_of_the_classifiers_is_tested_and_must_pass() -> None:
    matrix = read(ROOT / ".github/workflows/test.yml")["jobs"]["test"]["strategy"]["matrix"]
    required = {entry["python"] for entry in matrix["include"] if not entry["may_fail"]}
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    promised = {v for v in ("3.11", "3.12", "3.13", "3.14") if f"Python :: {v}" in project}
    assert promised <= required
    assert {entry["python"] for entry in matrix["include"]} >= {"3.11", "3.12", "3.13", "3.14"}


def test_the_workflow_runs_what_is_there() -> None:
    jobs = read(ROOT / ".github/workflows/test.yml")["jobs"]
    runs = "\n".join(step["run"] for job in jobs.values() for step in job["steps"] if "run" in step)
    assert ".ci/run" in runs and (ROOT / ".ci/run").is_file()
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = re.findall(r"\bmake ([\w-]+)", runs)
    assert {"docs", "lowest", "wheel-try"} <= set(targets)
    assert not [target for target in targets if f"\n{target}:" not in makefile]
    assert "docker compose up --build" in runs and (ROOT / "compose.yaml").is_file()


def test_an_issue_template_has_questions_with_names_of_their_own() -> None:
    for name in ("fault", "idea"):
        template = read(ROOT / ".github/ISSUE_TEMPLATE" / f"{name}.yml")
        ids = [part["id"] for part in template["body"]]
        assert template["name"] and template["description"] and len(ids) == len(set(ids)) > 1


UNSTEADY = """
    from pathlib import Path

    def test_steady(): pass

    def test_passes_at_the_second_try():
        mark = Path(__file__).with_suffix(".mark")
        tried = mark.exists()
        mark.touch()
        assert tried
"""
FAILING = """
    def test_steady(): pass

    def test_never_passes(): assert not "nothing"
"""


@pytest.mark.skipif(not (shutil.which("bash") and shutil.which("make")), reason="needs both")
@pytest.mark.parametrize(("source", "again"), [(UNSTEADY, "1 passed"), (FAILING, "1 failed")])
def test_the_gate_tells_whether_a_failed_test_fails_once_more(
    tmp_path: Path, source: str, again: str
) -> None:
    script = (ROOT / ".ci/run").read_text("utf-8")
    begins, stages, ends = (
        script.index(f"\n{word}") for word in ("logs=", "stage 30 test", "printf")
    )
    (tmp_path / "gate").write_text(
        "set -euo pipefail\n"
        + script[begins:stages]
        + '\nstage 2 tests make tests ARGS="--color=no"\nstage 2 rest true'
        + script[ends:]
    )
    pytest_alone = "-m pytest --disable-plugin-autoload -c /dev/null --rootdir=. test_it.py"
    run = f"{shlex.quote(sys.executable)} {pytest_alone} $(ARGS)"
    (tmp_path / "Makefile").write_text(f"tests:\n\t@{run}\n")
    (tmp_path / "test_it.py").write_text(textwrap.dedent(source))
    done = subprocess.run(
        ["bash", "gate"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    report = done.stdout.rpartition("\ntests: exit code ")[2]
    assert done.returncode == 1, done.stdout + done.stderr
    assert report.startswith("2 after") and "1 failed, 1 passed" in report
    assert "    FAILED test_it.py::test_" in report
    assert "rest: exit code 0" in report
    assert f"{again}, 1 deselected" in report
    assert "1 failed, 1 passed" in report.splitlines()[-1]
