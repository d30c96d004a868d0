"""The command as a process of its own: its start, its streams and its end."""

import os
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
