"""`mha-viz circuits`: what each command prints is the library's own; errors are one line."""

import json
from typing import Any

import pytest

import mha_viz as mv
from tests.cli.command import call
from tests.making.comparing import near

TEXT, SENTENCE = "Once upon a", "The cat sat on the mat."
CLEAN, CORRUPT = "A bird saw a cat. A bird saw a", "A bird saw a dog. A bird saw a"
TOKENS = ("--target", "cat", "--against", "dog")
TARGETS = dict(target="cat", against="dog")
TEMPLATE = (
    "The {noun1} saw the {noun2} and the {noun1} saw the"
    " | The {noun1} saw the {verb} and the {noun1} saw the | {noun2} | {verb}"
)


def shown(*arguments: str) -> dict[str, Any]:
    """Run a command and read its JSON, in which nothing is NaN."""
    done = call("circuits", *arguments, "--format", "json")
    return json.loads(done.stdout, parse_constant=pytest.fail)


def column(table: dict[str, Any], name: str) -> list[Any]:
    return [row[name] for row in table["rows"]]


# A command with its arguments, a column, and what the library has in it.
COMMANDS = {
    "logits": (
        ("logits", TEXT, "--token", "time", "--versus", "man"),
        "share",
        lambda model: mv.logit_attribution(model, TEXT, "time", "man").shares,
    ),
    "logits by source": (
        ("logits", TEXT, "--sources", "3.2"),
        "share",
        lambda model: mv.logit_attribution(model, TEXT).sources_table(3, 2)["share"],
    ),
    "tokens": (
        ("tokens", TEXT, "--layer", "3", "--head", "0", "--top", "3"),
        "promoted",
        lambda model: list(mv.head_tokens(model, TEXT, 3, 0, top_k=3).promoted),
    ),
    "lens": (
        ("lens", TEXT, "--token", "time"),
        "time",
        lambda model: mv.logit_lens(model, TEXT, "time").chosen,
    ),
    "flow": (
        ("flow", SENTENCE, "--position", "4", "--threshold", "0.05", "--measure", "norm"),
        "flow",
        lambda model: mv.flow_graph(model, SENTENCE, 4, 0.05, measure="norm").edges.flow,
    ),
    "composition": (
        ("composition", "tiny-gpt2", "--kind", "V"),
        "zscore",
        lambda model: mv.composition(model, "V").table().zscore,
    ),
    "vocabulary": (
        ("vocabulary", "--layer", "1", "--head", "2", "--words", "cat dog"),
        "dog",
        lambda model: mv.token_matrices(model, 1, 2, ["cat", "dog"])["OV"]["dog"],
    ),
    "copying": (("copying",), "score", lambda model: mv.copying_scores(model).table().score),
    "path": (
        ("path", CLEAN, CORRUPT, "--sender", "0.1", "--receiver", "1.0.value", *TOKENS),
        "exact",
        lambda model: (
            mv.path_effect(model, CLEAN, CORRUPT, (0, 1), (1, 0, "value"), **TARGETS).table().exact
        ),
    ),
    "patch": (
        ("patch", CLEAN, CORRUPT, "--direction", "noise", *TOKENS),
        "effect",
        lambda model: mv.patching_map(
            model, CLEAN, CORRUPT, direction="noise", **TARGETS
        ).effect.ravel(),
    ),
    "template": (
        ("faithfulness", "--template", TEMPLATE, "--examples", "4", "--heads", "3.0"),
        "behaviour",
        lambda model: (
            mv.faithfulness(model, mv.make_task(model, TEMPLATE, 4), [(3, 0)]).table().behaviour
        ),
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_command_prints_what_the_library_finds(gpt, name: str) -> None:
    arguments, key, expected = COMMANDS[name]
    values = expected(gpt)
    values = values if isinstance(values, list) else values.tolist()
    assert column(shown(*arguments), key) == (values if name == "tokens" else near(values))


def test_map_lists_heads_and_points_and_draws_one(gpt, tmp_path) -> None:
    texts = ["The old cat sat.", "A dog ran home."]
    file = tmp_path / "texts.txt"
    file.write_text("\n".join(texts))
    heads = mv.query_key_map(gpt, texts)
    table, expected = shown("map", str(file)), heads.table()
    for name in ("layer", "head", "plane_correlation", "baseline", "scale"):
        assert column(table, name) == near(expected[name].tolist())
    chosen = ("map", str(file), "--layer", "1", "--head", "3")
    assert column(shown(*chosen), "x") == near(heads.points[1, 3, :, :, 0].flatten().tolist())
    for ending, start in (("png", b"\x89png"), ("html", b"<!doctype html>")):
        out = tmp_path / f"map.{ending}"
        call("circuits", *chosen, "--out", str(out))
        assert out.read_bytes()[:15].lower().startswith(start)


def test_faithfulness_tests_a_choice_and_saves_it(gpt, tmp_path) -> None:
    file = tmp_path / "circuit.json"
    arguments = ("agreement", "--heads", "3.0,0.0", "--examples", "5", "--save", str(file))
    table = shown("faithfulness", *arguments)
    tested = mv.faithfulness(gpt, mv.make_task(gpt, "agreement", 5), [(3, 0), (0, 0)])
    assert mv.Faithfulness.load(file) == tested
    assert column(table, "behaviour")[:4] == near(tested.held_out[:4])
    assert (table["held_out"], table["chosen_on"]) == (3, 2)


ROWS = """clean,corrupt,answer,wrong
"The boy, Tom, took","The girl, Tom, took",his,her
"The girl, Tom, took","The boy, Tom, took",her,his
The man saw that,The woman saw that,he,she
The woman saw that,The man saw that,she,he
The man,The woman who,he,she
"""


def test_pairs_of_a_file_are_tested_and_what_does_not_fit_is_named(gpt, tmp_path) -> None:
    file = tmp_path / "pairs.csv"
    file.write_text(ROWS)
    arguments = ("faithfulness", "--pairs", str(file), "--heads", "3.0,0.0", "--format", "json")
    done = call("circuits", *arguments)
    task = mv.make_task(gpt, ROWS)
    tested, accuracy = mv.faithfulness(gpt, task, [(3, 0), (0, 0)]), mv.task_accuracy(gpt, task)
    table = json.loads(done.stdout)
    assert column(table, "behaviour")[:4] == near(tested.held_out[:4])
    assert (table["stand_in"], table["prefers_right"]) == ("corrupt", accuracy.share)
    assert task.left_out[0] in done.stderr and accuracy.sentence in done.stderr


def test_title_of_scores_names_all_three_tokens(gpt) -> None:
    places = {"--query": 3, "--key": 2, "--versus": 1}
    given = [text for name, place in places.items() for text in (name, str(place))]
    title = call("circuits", "scores", TEXT, "-l", "2", "-H", "1", *given).stdout
    tokens = gpt.trace(TEXT).tokens
    assert all(f"{tokens[place].text} ({place})" in title for place in places.values())
