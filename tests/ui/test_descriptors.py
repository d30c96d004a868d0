"""File descriptors: the limit is raised, and a server that has few left says so."""

import os
import subprocess
import sys

import pytest

from mha_viz.ui.operating import descriptors
from mha_viz.ui.server import endpoints

resource = pytest.importorskip("resource", reason="Windows has no such limit")


def test_raise_limit_takes_what_the_system_allows() -> None:
    code = (
        "import resource as r\n"
        "from mha_viz.ui.operating import descriptors\n"
        "hard = min(r.getrlimit(r.RLIMIT_NOFILE)[1], 4096)\n"
        "r.setrlimit(r.RLIMIT_NOFILE, (256, hard))\n"
        "descriptors.raise_limit()\n"
        "assert r.getrlimit(r.RLIMIT_NOFILE) == (hard, hard) and descriptors.limit() == hard"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_used_counts_every_open_file() -> None:
    before = descriptors.used()
    assert before is not None
    pair = os.pipe()
    assert descriptors.used() == before + 2
    for end in pair:
        os.close(end)


def test_not_ready_with_few_descriptors_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints.memory, "ready", lambda: "")
    assert endpoints.not_ready() == ""
    taken = descriptors.used()
    monkeypatch.setattr(descriptors, "limit", lambda: taken)
    assert endpoints.not_ready()
    assert b"mha_viz_open_descriptors" in endpoints.written()
