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


def test_the_workflow_runs_what_is_there() -> None:
    jobs = read(ROOT / ".github/workflows/test.yml")["jobs"]
    runs = "\n".join(step["run"] for job in jobs.values() for step in job["steps"] if "run" in step)
    assert ".ci/run" in runs and (ROOT / ".ci/run").is_file()
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = re.findall(r"\bmake ([\w-]+)", runs)
    assert {"docs", "lowest", "wheel-try"} <= set(targets)
    assert not [target for target in targets if f"\n{target}:" not in makefile]
    assert "docker compose up --build" in runs and (ROOT / "compose.yaml").is_file()


GATE = {
    "passing": ("def test_steady(): pass", 0, "1 passed"),
    "failing": ("def test_never(): assert not 'nothing'", 1, "1 failed"),
    "unsteady": (
        """
        from pathlib import Path

        import pytest

        @pytest.mark.flaky(reruns=1)
        def test_second_try():
            mark = Path(__file__).with_suffix(".mark")
            tried = mark.exists()
            mark.touch()
            assert tried, "the first try"
        """,
        0,
        "1 passed, 1 rerun",
    ),
}


@pytest.mark.skipif(not (shutil.which("bash") and shutil.which("make")), reason="needs both")
@pytest.mark.parametrize(("source", "code", "closing"), GATE.values(), ids=GATE)
def test_gate_names_failures_and_what_passed_when_run_again(
    tmp_path: Path, source: str, code: int, closing: str
) -> None:
    script = (ROOT / ".ci/run").read_text("utf-8")
    begins, stages, ends = (script.index(f"\n{word}") for word in ("logs=", "stage 20", "printf"))
    commands = '\nstage 2 tests make tests ARGS="--color=no"\nstage 2 other true'
    functions = script[begins:stages]
    (tmp_path / "gate").write_text(f"set -euo pipefail\n{functions}{commands}{script[ends:]}")
    plugins = "-p pytest_rerunfailures -p tests.reruns"
    alone = f"-m pytest --disable-plugin-autoload {plugins} -c /dev/null --rootdir=. test_it.py"
    run = f"PYTHONPATH={shlex.quote(str(ROOT))} {shlex.quote(sys.executable)} {alone} $(ARGS)"
    (tmp_path / "Makefile").write_text(f"tests:\n\t@{run}\n")
    (tmp_path / "test_it.py").write_text(textwrap.dedent(source))
    done = subprocess.run(
        ["bash", "gate"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    report = done.stdout.rpartition("\ntests: exit code ")[2].splitlines()
    assert closing in report[-1] and "other: exit code 0" in "\n".join(report)
    named = [line for line in report if line.startswith("    ")]
    assert len(named) == (closing != "1 passed")
    assert all("test_it.py::test_" in line for line in named)
    assert closing != "1 passed, 1 rerun" or "the first try" in named[0]
