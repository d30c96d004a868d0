"""What flows into a token, in a terminal."""

import json

import pytest
from typer.testing import CliRunner

import mha_viz as mv
from mha_viz.cli.main import app
from tests.making.comparing import near

TEXT = "The cat sat on the mat."


def run(*arguments: str):
    return CliRunner().invoke(app, ["circuits", "flow", TEXT, *arguments])


def test_json_has_every_edge_and_what_was_cut():
    done = run("--position", "4", "--threshold", "0.05", "--measure", "norm", "--format", "json")
    assert done.exit_code == 0, done.output
    shown = json.loads(done.stdout)
    found = mv.flow_graph(mv.load("tiny-gpt2"), TEXT, 4, 0.05, measure="norm")
    assert [row["source"] for row in shown["rows"]] == found.edges.source.tolist()
    assert [row["flow"] for row in shown["rows"]] == near(found.edges.flow.tolist())
    assert shown["kept"] + shown["cut"] == near(1)


def test_a_table_shows_the_largest_edges():
    done = run("--model", "tiny-bert")
    assert done.exit_code == 0 and "% cut" in done.stdout and "out @" in done.stdout
    assert len(done.stdout.splitlines()) < 40


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--position", "70"], "position must be"), (["--threshold", "2"], "threshold must lie")],
)
def test_errors_are_one_line(arguments, said):
    done = run(*arguments)
    assert done.exit_code != 0 and said in done.stderr and "Traceback" not in done.output
