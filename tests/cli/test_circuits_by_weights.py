"""`mha-viz circuits`: what its commands about weights print is the library's own."""

import json

import pytest

import mha_viz as mv
from tests.cli.command import call


def test_composition_prints_what_the_library_finds() -> None:
    shown = json.loads(call("circuits", "composition", "tiny-gpt2", "-k", "V", "-f", "json").stdout)
    found = mv.composition(mv.load("tiny-gpt2"), "V").table()
    assert shown["through"] == "V" and len(shown["rows"]) == len(found) == 6 * 8 * 8
    for column in found:
        assert [row[column] for row in shown["rows"]] == pytest.approx(found[column].tolist())
    table = call("circuits", "composition", "tiny-gpt2", "--kind", "V").stdout
    assert "tiny-gpt2: V-composition, 20 of 384 pairs, by z-score" in table
    assert len([line for line in table.splitlines() if "." in line]) == 20


def test_notes_go_to_stderr_and_errors_are_one_line() -> None:
    done = call("circuits", "composition", "tiny-bert")
    assert "Norms stand in the stream" in done.stderr and "stream" not in done.stdout
    wrong = call("circuits", "composition", "--kind", "W", code=2)
    assert wrong.stderr == 'error: kind must be "Q", "K" or "V", got \'W\'.\n'
