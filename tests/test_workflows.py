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


def test_the_workflow_runs_what_is_there() -> None:
    jobs = read(ROOT / ".github/workflows/test.yml")["jobs"]
    runs = "\n".join(step["run"] for job in jobs.values() for step in job["steps"] if "run" in step)
    assert ".ci/run" in runs and (ROOT / ".ci/run").is_file()
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = re.findall(r"\bmake ([\w-]+)", runs)
    assert {"docs", "lowest", "newest", "wheel-try"} <= set(targets)
    assert not [target for target in targets if f"\n{target}:" not in makefile]
    assert "docker compose up --build" in runs and (ROOT / "compose.yaml").is_file()
