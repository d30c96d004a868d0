"""`mha-viz circuits`: what its commands about weights print is the library's own."""

import json

import pytest

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
    expected = "Invalid value for '--kind' / '-k': 'W' is not one of 'Q', 'K', 'V'."
    assert wrong.stderr == f"error: {expected} See root circuits composition -h.\n"


@pytest.mark.extended
def test_vocabulary_prints_pairs_directions_or_chosen_words() -> None:
    head = ("circuits", "vocabulary", "--layer", "1", "--head", "2")
    model = mv.load("tiny-gpt2")
    found = mv.head_vocabulary(model, 1, 2, top_k=3)
    shown = json.loads(call(*head, "--top", "3", "-f", "json").stdout)["rows"]
    expected = found.circuits["OV"].pairs
    assert [row["source"] for row in shown] == expected.source.tolist()
    for column in expected.select_dtypes("number"):
        assert [row[column] for row in shown] == near(expected[column].tolist())
    table = call(*head, "--circuit", "QK", "--directions").stdout
    assert "tiny-gpt2: QK of L1 H2" in table and "singular_value" in table
    shown = json.loads(call(*head, "--words", "cat dog", "-f", "json").stdout)["rows"]
    matrix = mv.token_matrices(model, 1, 2, ["cat", "dog"])["OV"]
    assert [row["dog"] for row in shown] == near(matrix["dog"].tolist())
    assert "not one of 'QK', 'OV'" in call(*head, "--circuit", "XY", code=2).stderr
    bert = call("circuits", "vocabulary", "tiny-bert", *head[2:], "--words", "cat", code=2)
    assert "has no OV over tokens" in bert.stderr
