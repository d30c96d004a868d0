"""Refusals before a model is loaded: file names as texts, --out, devices."""

from pathlib import Path

import pytest

from mha_viz.checkpoints import loading
from mha_viz.errors import ArgumentError
from tests.cli.command import TEXT, call

HEAD = ("--layer", "0", "--head", "0")
SCORE = (*HEAD, "--query", "1", "--key", "0")
# The commands that write what --format names, each with what else it needs.
TABLES = (
    ("show", TEXT, *HEAD),
    ("report", TEXT),
    ("ablate", TEXT, "--heads", "0.0"),
    ("importance", TEXT),
    ("prune", TEXT),
    ("circuits", "logits", TEXT),
    ("circuits", "scores", TEXT, *SCORE),
    ("circuits", "tokens", TEXT, *HEAD),
    ("circuits", "lens", TEXT),
    ("circuits", "composition"),
    ("circuits", "copying"),
    ("circuits", "vocabulary", *HEAD),
    ("circuits", "path", TEXT, TEXT, "--sender", "0.0"),
    ("circuits", "paths", TEXT, TEXT),
    ("circuits", "patch", TEXT, TEXT),
    ("circuits", "faithfulness", "phrase"),
    ("circuits", "edges", "phrase"),
    ("circuits", "flow", TEXT),
    ("circuits", "map", TEXT, *HEAD),
    ("study", "probe", "sample"),
    ("study", "show", "nowhere"),
    ("study", "search", "nowhere"),
    ("study", "examples", "nowhere", "--head", "1.2"),
    ("study", "compare", "nowhere", "nowhere"),
)


def name(command: tuple[str, ...]) -> str:
    return " ".join(command[: 2 if command[0] in ("circuits", "study") else 1])


@pytest.fixture(autouse=True)
def nothing_is_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(loading, "load", lambda name, **_: pytest.fail("a model was loaded"))
    monkeypatch.chdir(tmp_path)


def refusal(*arguments: str) -> str:
    done = call(*arguments, code=2)
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1 and not done.stdout
    return done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("trace", TEXT),
        *(command for command in TABLES if command[0] != "study"),
        ("study", "make", "sample", "--out", "made"),
    ],
    ids=name,
)
def test_every_command_that_loads_a_model_takes_device_and_dtype(command, monkeypatch):
    given = []

    def load(name: str, **options: str) -> None:
        given.append(options)
        raise ArgumentError("no model is needed")

    monkeypatch.setattr(loading, "load", load)
    refusal(*command, "--device", "cuda", "--dtype", "bfloat16")
    refusal(*command)
    assert given == [
        {"device": "cuda", "dtype": "bfloat16"},
        {"device": "auto", "dtype": "float32"},
    ]


@pytest.mark.parametrize(
    ("device", "message"), [("all", "CUDA"), ("cpu,cuda:99", "cuda:99"), ("cpu,", "''")]
)
def test_several_devices_of_a_study_that_there_are_not(device, message):
    """Said before a model is loaded."""
    assert message in refusal("study", "sample", "--out", "made", "--device", device)
