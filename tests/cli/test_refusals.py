"""Refusals before a model is loaded: file names as texts, --out, devices."""

import os
from pathlib import Path

import pytest
import typer

from mha_viz.checkpoints import loading
from mha_viz.cli import main as cli
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


def test_the_list_holds_every_command_with_a_format() -> None:
    found, groups = set(), [("", typer.main.get_command(cli.app))]
    for before, group in groups:
        for key, command in group.commands.items():  # type: ignore[attr-defined]
            if hasattr(command, "commands"):
                groups.append((f"{before}{key} ", command))
            elif any("--format" in param.opts for param in command.params):
                found.add(f"{before}{key}")
    # These print what --format names; their --out, if any, is no table.
    found -= {"study set", "trace", "models"}
    assert found == set(map(name, TABLES))


@pytest.mark.parametrize("command", TABLES, ids=name)
def test_out_of_an_ending_that_nobody_knows_is_refused_with_those_that_are(
    command: tuple[str, ...],
) -> None:
    assert "--out heads.csv.bak" in refusal(*command, "--out", "heads.csv.bak")
    for out in ("heads.csv", "heads.svg", "heads.pdf"):  # it would not hold what it is called
        told = refusal(*command, "--out", out, "--json")
        assert f"--out {out}" in told and ".json" in told
    assert not os.listdir()


@pytest.mark.parametrize("file", ["NOFILE.CSV", "./texts", "/no/texts", "~/a"])
def test_a_file_that_is_not_there_is_no_text(file: str) -> None:
    Path("here").mkdir()
    Path("table.tsv").write_text("clean\tcorrupt\na\tb")
    for command in ("importance", "prune"):
        assert file in refusal(command, file)
        assert "table.tsv" in refusal(command, "table.tsv")  # its lines are no texts


def test_a_command_that_takes_a_text_reads_no_file_and_measures_no_name() -> None:
    Path("notes.txt").write_text(TEXT)
    for command in TABLES:
        if TEXT in command and not set(command) & {"importance", "prune", "map"}:
            given = ["notes.txt" if part == TEXT else part for part in command]
            assert "notes.txt" in refusal(*given)
    assert "notes.txt" in refusal("trace", TEXT, "--pair", "notes.txt")


@pytest.mark.parametrize(
    "text", ["and/or", "e.g.", "I read nofile.txt", "Well...", "/", "3.14", "example.com"]
)
def test_a_text_with_a_dot_or_a_slash_is_a_text(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def loaded(name: str, **_: str) -> None:
        raise KeyboardInterrupt  # the end of the command, without an error

    monkeypatch.setattr(loading, "load", loaded)
    for command in ("trace", "importance"):
        call(command, text, code=130)


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
