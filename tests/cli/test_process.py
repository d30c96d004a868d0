"""The command as a process of its own: its start, its streams and its end."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def process(*arguments: str, **options) -> subprocess.Popen:
    command = [sys.executable, "-m", "mha_viz", *arguments]
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return subprocess.Popen(command, cwd=ROOT, **pipes, **options)


def test_help_version_and_the_list_of_models_wait_for_no_library_of_numbers_or_pages():
    code = (
        "import sys; from mha_viz.cli.main import main; sys.argv = ['mha-viz', 'HOW']\n"
        "try: main()\nexcept SystemExit as end: assert not end.code, end\n"
        "libraries = {'torch', 'transformers', 'tokenizers', 'numpy', 'pandas',\n"
        "             'scipy', 'plotly', 'matplotlib', 'streamlit', 'http.client'}\n"
        "assert not libraries & set(sys.modules), libraries & set(sys.modules)"
    )
    for how in ("--help", "--version", "models"):
        subprocess.run(
            [sys.executable, "-c", code.replace("HOW", how)],
            check=True,
            timeout=300,
            stdout=subprocess.DEVNULL,
            cwd=ROOT,
        )


@pytest.mark.parametrize(
    "arguments",
    [
        ("trace", ""),
        ("ablate", "x", "--heads", "0"),
        ("importance", "nofile.txt"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_run_is_refused_before_torch_is_loaded(arguments):
    code = (
        "import sys; from mha_viz.cli.main import main; sys.argv[0] = 'mha-viz'\n"
        "try: main()\nexcept SystemExit as end: assert end.code == 2, end\n"
        "assert not {'torch', 'transformers', 'pandas', 'plotly'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        timeout=300,
        cwd=ROOT,
        text=True,
    )
    assert done.returncode == 0 and done.stderr.startswith("error: "), done.stderr
    assert done.stderr.count("\n") == 1 and done.stdout == ""


def test_a_real_process_writes_utf8_and_nothing_else():
    env = os.environ | {"PYTHONIOENCODING": "ascii"}
    arguments = ("show", "-", "-l", "0", "-H", "0", "-f", "csv")
    shown = process(*arguments, env=env, stdin=subprocess.PIPE)
    out, err = shown.communicate("naïve 👍 <b>".encode(), timeout=300)
    assert (shown.returncode, err) == (0, b"")
    assert "👍" in out.decode("utf-8")


def test_a_real_interrupt():
    code = """
import os, signal, sys, time
from mha_viz.cli.main import main
# A shell that runs the tests in the background has made its children deaf to Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
class Waiting:
    def read(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(600)
sys.stdin, sys.argv = Waiting(), ["mha-viz", "trace", "-"]
main()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


CLOSED = b"error: Standard input or output is closed, and this command needs it: leave it open.\n"


@pytest.mark.parametrize(
    ("command", "code", "complaint"),
    [
        ("--help >&-", 2, CLOSED),
        ("models --json >/dev/full", 2, b"error: No space left on device.\n"),
        ("trace - <&-", 2, CLOSED),
        ("models 2>&- >/dev/null", 0, b""),
        ("trace '' <&- >&- 2>&-", 2, b""),
    ],
)
def test_streams_that_the_caller_closed(command, code, complaint):
    # Python's own buffer, too, must not complain once more when it ends.
    env = {name: text for name, text in os.environ.items() if name != "PYTHONUNBUFFERED"}
    line = ["sh", "-c", f'exec "$0" -m mha_viz {command}', sys.executable]
    done = subprocess.run(line, cwd=ROOT, env=env, capture_output=True, timeout=90)
    assert (done.returncode, done.stderr) == (code, complaint)


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=10).close()
    except OSError:
        return False
    return True


def ended(app: subprocess.Popen) -> bytes:
    """End the app and return what it wrote to standard error."""
    app.send_signal(signal.SIGTERM)
    try:
        return app.communicate(timeout=40)[1]
    finally:
        app.kill()


def test_the_app_says_where_it_is_once_it_is_there(port):
    app = process("app", "--port", str(port))
    try:
        line = app.stdout.readline().decode()
        assert line == f"mha_viz opens at http://127.0.0.1:{port} (Ctrl-C stops it)\n"
        assert answers(port)
        second = process("app", "--port", str(port))
        out, err = second.communicate(timeout=60)
        assert (second.returncode, out) == (2, b"")
        said = re.fullmatch(
            rf"error: Port {port} is taken; (\d+) is free: mha-viz app --port \1\n", err.decode()
        )
        assert said is not None, err
        socket.create_server(("127.0.0.1", int(said[1]))).close()
    finally:
        said = ended(app)
    assert b"Traceback" not in said
