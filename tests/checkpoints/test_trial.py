"""Hostile checkpoints hang, crash or eat memory in another process; here one sentence is left."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mha_viz as mv
from mha_viz.checkpoints import trial
from mha_viz.errors import BrokenCheckpointError, LoadError, UnsafeCheckpointError
from tests.making.checkpoints import LAYERS, bounded, copy
from tests.waiting import wait_for

pytestmark = pytest.mark.slow


@pytest.fixture
def builder(monkeypatch):
    """A process of this test's own, which nothing has passed yet."""
    own = trial._TrialProcess()
    monkeypatch.setattr(trial, "_trial_process", own)
    monkeypatch.setattr(trial, "_passed", set())
    yield own
    own.stop_if_idle()
    assert own._process is None


def limit(monkeypatch, **limits: int) -> None:
    monkeypatch.setattr(trial, "LIMITS", trial.LIMITS | limits)


def endless(folder: Path, to: Path) -> Path:
    """GPT-Neo writes out a list of all layers while its config is read: here, of a trillion."""
    return copy(
        folder,
        to,
        model_type="gpt_neo",
        attention_types=[[["global"], 10**12]],
        num_layers=3,
        num_heads=5,
        classifier_dropout=0.1,
    )


def test_memory_without_end_is_stopped(folder, tmp_path, monkeypatch):
    limit(monkeypatch, bytes=101_000_000)
    with bounded(4), pytest.raises(UnsafeCheckpointError, match="more than 101 MB of memory"):
        mv.load(str(endless(folder, tmp_path / "bad")))


def test_time_without_end_is_stopped(folder, tmp_path, monkeypatch):
    limit(monkeypatch, cpu_seconds=1, bytes=2**40)
    with bounded(4), pytest.raises(UnsafeCheckpointError, match="took more than 1 s"):
        mv.load(str(endless(folder, tmp_path / "bad")))
    limit(monkeypatch, cpu_seconds=100, seconds=1, bytes=2**40)
    with bounded(4), pytest.raises(UnsafeCheckpointError, match="took more than"):
        mv.load(str(endless(folder, tmp_path / "worse")))
    assert mv.load(str(copy(folder, tmp_path / "good"))).n_layers == LAYERS


def test_a_pattern_that_panics_is_a_broken_checkpoint(folder, tmp_path):
    path = copy(folder, tmp_path / "bad") / "tokenizer.json"
    split = {
        "type": "Split",
        "pattern": {"Regex": "(a+)+$"},
        "behavior": "Isolated",
        "invert": False,
    }
    path.write_text(json.dumps(json.loads(path.read_text()) | {"pre_tokenizer": split}))
    with pytest.raises(BrokenCheckpointError, match=r"crashes the libraries.*retry-limit"):
        mv.load(str(path.parent))


def test_a_process_that_is_killed_is_told_and_replaced(folder, builder, monkeypatch):
    mv.load(str(folder))
    first = builder._process
    request = {"folder": str(folder), "stored": 0, "family": "bert", **trial.LIMITS}
    answer = trial._answer_line
    monkeypatch.setattr(trial, "_answer_line", lambda to, _: (to.kill(), answer(to, {}))[1])
    assert builder.ask(request) == {"died": "crash"}
    assert first.returncode is not None  # waited for: no zombie
    monkeypatch.setattr(trial, "_answer_line", answer)
    assert "error" in builder.ask(request | {"folder": "/no/such"})
    assert builder._process.pid != first.pid


@pytest.fixture
def starts(monkeypatch):
    """The processes that were started: each imports torch and transformers once."""
    started, real = [], trial._started

    def start():
        started.append(real())
        return started[-1]

    monkeypatch.setattr(trial, "_started", start)
    return started


def test_two_trials_are_two_forks_of_one_process_that_imports_once(
    folder, tmp_path, builder, starts
):
    """The first one leaves no limit, no module and no crash to the second."""
    request = {"folder": str(folder), "stored": 0, "family": "bert", **trial.LIMITS}
    grows = request | {"folder": str(endless(folder, tmp_path / "grows"))}
    assert builder.ask(grows | {"bytes": 101_000_000}) == {"died": "memory"}
    assert builder.ask(grows | {"bytes": 2**40, "cpu_seconds": 1}) == {"died": "late"}
    assert builder.ask(request) == {}
    mv.load(str(copy(folder, tmp_path / "other")))
    assert len(starts) == 1


def test_a_process_that_nobody_asks_is_let_go(builder, starts, monkeypatch):
    monkeypatch.setattr(trial, "IDLE", 0.01)
    trial.prepare()
    wait_for(lambda: starts and starts[0].returncode is not None, "the end of the idle process")


def test_a_folder_that_passed_is_not_built_again_until_it_changes(folder, tmp_path, monkeypatch):
    good = copy(folder, tmp_path / "good")
    mv.load(str(good))
    asked = []

    def ask(request):
        asked.append(request["folder"])
        return {"error": "BrokenCheckpointError", "message": "no"}

    monkeypatch.setattr(trial._trial_process, "ask", ask)
    assert mv.load(str(good)).n_layers == LAYERS and not asked
    assert mv.load("tiny-bert").n_layers == 4 and not asked  # nor is what is shipped
    with (good / "tokenizer_config.json").open("a") as file:
        file.write("\n")
    with pytest.raises(BrokenCheckpointError, match=r"^no$"):
        mv.load(str(good))
    assert asked == [str(good)]


def test_the_process_gets_no_secrets_and_ends_when_it_is_let_go(folder, builder, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    mv.load(str(folder))
    process = builder._process
    environment = Path(f"/proc/{process.pid}/environ")
    if environment.exists():
        assert b"secret" not in environment.read_bytes()
        assert b"HF_HUB_OFFLINE=1" in environment.read_bytes()
    builder.stop_if_idle()
    assert process.returncode is not None
    mv.load(str(folder))  # has passed: no other is started
    assert builder._process is None


def test_where_no_process_can_be_started_it_is_said(folder, builder, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(LoadError, match=r"none can be started here: .*no/such/python"):
        mv.load(str(folder))
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(LoadError, match=r"started here: it ended before it was ready\."):
        mv.load(str(folder))


SCRIPT = """
import os, sys
for stream in (0, 1, 2):
    os.close(stream)
import mha_viz
os._exit(40 + mha_viz.load(sys.argv[1]).n_layers)
"""


@pytest.mark.skipif(os.name == "nt", reason="streams are not numbers there")
def test_it_works_without_standard_streams_and_from_a_script_without_a_guard(folder, tmp_path):
    # In a folder that would be imported from if anything were.
    (tmp_path / "torch.py").write_text("raise SystemExit('imported')")
    package = str(Path(mv.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-P", "-c", SCRIPT, str(folder)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": package},
        timeout=300,
        check=False,
    )
    assert done.returncode == 40 + LAYERS
