"""The forge's files are read as they are meant, and name what is there."""

import re
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
