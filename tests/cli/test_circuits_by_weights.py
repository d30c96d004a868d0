"""`mha-viz circuits`: what its commands about weights print is the library's own."""

import json

import mha_viz as mv
from tests.cli.command import call
from tests.making.comparing import near


def test_composition_prints_what_the_library_finds() -> None:
    shown = json.loads(call("circuits", "composition", "tiny-gpt2", "-k", "V", "-f", "json").stdout)
    found = mv.composition(mv.load("tiny-gpt2"), "V").table()
    assert shown["through"] == "V" and len(shown["rows"]) == len(found) == 6 * 8 * 8
    for column in found:
        assert [row[column] for row in shown["rows"]] == near(found[column].tolist())
    table = call("circuits", "composition", "tiny-gpt2", "--kind", "V").stdout
    assert "tiny-gpt2: V-composition, 20 of 384 pairs, by z-score" in table
    assert len([line for line in table.splitlines() if "." in line]) == 20


def test_copying_prints_what_the_library_finds() -> None:
    shown = json.loads(call("circuits", "copying", "--format", "json").stdout)
    found = mv.copying_scores(mv.load("tiny-gpt2")).table()
    assert len(shown["rows"]) == len(found) == 32
    for column in found:
        assert [row[column] for row in shown["rows"]] == near(found[column].tolist())
    assert "not linear" in call("circuits", "copying", "tiny-bert", code=2).stderr


def test_notes_go_to_stderr_and_errors_are_one_line() -> None:
    done = call("circuits", "composition", "tiny-bert")
    assert "Norms stand in the stream" in done.stderr and "stream" not in done.stdout
    wrong = call("circuits", "composition", "--kind", "W", code=2)
    assert wrong.stderr == 'error: kind must be "Q", "K" or "V", got \'W\'.\n'
