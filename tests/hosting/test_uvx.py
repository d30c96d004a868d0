"""The wheel as people try it: uvx puts it into an environment of its own, and runs its command.

`make wheel-try` builds the wheel, brings uv, and names the wheel in WHEEL.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ui.serving import free_port, request
from tests.waiting import wait_for

WHEEL = os.environ.get("WHEEL", "")
CONSTRAINTS = Path(__file__).parents[2] / "requirements.txt"
SENTENCE = "The cat sat on the mat."
FIGURE = ("show", SENTENCE, "--layer", "2", "--head", "5", "--out")
ENV = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.extended,
    pytest.mark.skipif(not WHEEL, reason="make wheel-try builds the wheel that this tries"),
]


def command(extra: str, *arguments: str) -> list[str]:
    """Return the line that the README gives, with the wheel's path, as arguments."""
    uvx = ["uvx", "--python", sys.executable, "--constraints", str(CONSTRAINTS)]
    return [*uvx, "--from", WHEEL + extra, "mha-viz", *arguments]


def run(cwd: Path, extra: str, *arguments: str, code: int = 0) -> str:
    """Return what the command prints, errors included; it has to end with that exit code."""
    line = command(extra, *arguments)
    done = subprocess.run(line, cwd=cwd, env=ENV, capture_output=True, text=True)
    printed = done.stdout + done.stderr
    assert done.returncode == code, printed
    return printed


def test_the_wheel_alone_traces_and_names_the_extra_that_a_study_needs(tmp_path: Path) -> None:
    assert "tiny-llama" in run(tmp_path, "", "models")
    assert "tiny-gpt2" in run(tmp_path, "", "trace", SENTENCE, "--model", "tiny-gpt2")
    run(tmp_path, "", *FIGURE, "head.html")
    assert "4 layers × 8 heads" in (tmp_path / "head.html").read_text("utf-8")
    assert "mha-viz[study]" in run(tmp_path, "", "study", "sample", "--out", "study", code=2)


def test_the_wheel_with_the_app_draws_studies_and_serves(tmp_path: Path) -> None:
    run(tmp_path, "[app]", *FIGURE, "head.svg")
    assert "</svg>" in (tmp_path / "head.svg").read_text("utf-8")
    run(tmp_path, "[app]", "study", "sample", "--out", "study")
    port = free_port()
    log = tmp_path / "app.log"
    with log.open("w") as file:
        line = command("[app]", "app", "--port", str(port))
        app = subprocess.Popen(
            line, cwd=tmp_path, env=ENV, stdout=file, stderr=file, start_new_session=True
        )
    try:
        wait_for(lambda: answer(port, "/readyz"), log.read_text)
        assert b"<title>" in answer(port, "/")
    finally:
        os.killpg(app.pid, signal.SIGTERM)
        app.wait(30)


def answer(port: int, path: str) -> bytes:
    """Return the body that the app sends; b"" while it sends none or an error."""
    try:
        found, body = request(port, path)
    except OSError:
        return b""
    return body if found.status == 200 else b""
