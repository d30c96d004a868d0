"""The commands that patch paths and test choices: what they print is the library's own."""

import json

import pytest

import mha_viz as mv
from tests.cli.command import call
from tests.making.comparing import near

CLEAN, CORRUPT = "A bird saw a cat. A bird saw a", "A bird saw a dog. A bird saw a"
TOKENS = ("--target", "cat", "--against", "dog")


def test_path_prints_what_the_library_finds(gpt) -> None:
    ends = ("--sender", "0.1", "--receiver", "1.0.value")
    shown = json.loads(
        call("circuits", "path", CLEAN, CORRUPT, *ends, *TOKENS, "--format", "json").stdout
    )
    found = mv.path_effect(
        gpt, CLEAN, CORRUPT, (0, 1), (1, 0, "value"), target="cat", against="dog"
    )
    assert (shown["clean"], shown["target"], shown["against"]) == (found.clean, "cat", "dog")
    assert [row["exact"] for row in shown["rows"]] == near([found.direct, found.total])
    assert shown["rows"][0]["estimate"] == near(found.direct_estimate)
    table = call("circuits", "path", CLEAN, CORRUPT, "--sender", "2.3", "--metric", "kl")
    assert "tiny-gpt2: L2 H3 -> logits, change of kl" in table.stdout


def test_patch_prints_what_the_library_finds(gpt) -> None:
    asked = ("circuits", "patch", CLEAN, CORRUPT, *TOKENS)
    shown = json.loads(call(*asked, "--direction", "noise", "--format", "json").stdout)
    found = mv.patching_map(gpt, CLEAN, CORRUPT, direction="noise", target="cat", against="dog")
    assert [row["effect"] for row in shown["rows"]] == near(found.effect.ravel().tolist())
    assert [row["share"] for row in shown["rows"]] == near(found.share.ravel().tolist())
    assert (shown["clean"], shown["corrupt"]) == (near(found.clean), near(found.corrupt))
    table = call(*asked, "--part", "heads").stdout
    assert "tiny-gpt2: heads patched to denoise, change of logit_difference" in table
    same = call("circuits", "patch", CLEAN, CLEAN, *TOKENS)
    assert "would be noise" in same.stderr and "share" not in same.stdout


@pytest.mark.extended
def test_paths_are_all_of_them_the_strongest_first(gpt) -> None:
    asked = ("circuits", "paths", CLEAN, CORRUPT, *TOKENS)
    shown = json.loads(call(*asked, "--exact", "--format", "json").stdout)
    found = mv.path_effects(gpt, CLEAN, CORRUPT, target="cat", against="dog")
    found.measure()
    exact = [row["exact"] for row in shown["rows"]]
    assert len(exact) == 1152 and exact == sorted(exact, key=abs, reverse=True)
    assert shown["rank_correlation"] == near(found.agreement)
    assert shown["recall_20"] == found.recall() >= 0.9
    assert {row["known"] for row in shown["rows"]} == {"measured"}
    assert exact[0] == near(found.exact[0, 1, 1, 0, 2])
    asked_kl = ("circuits", "paths", CLEAN, CORRUPT, "--metric", "kl", "--exact")
    shown = json.loads(call(*asked_kl, "--format", "json").stdout, parse_constant=pytest.fail)
    assert shown["rows"][0].keys() >= {"exact", "input"} and "estimate" not in shown["rows"][0]
    table = call(*asked).stdout
    assert "tiny-gpt2: direct paths" in table and "20 measured, 1,132 estimated" in table
    assert "measured  " in table and len(table.splitlines()) < 30
    rows = json.loads(call(*asked, "--format", "json").stdout)["rows"]
    assert all((row["known"] == "measured") == (row["exact"] is not None) for row in rows)
    known = [row["exact"] or row["estimate"] for row in rows]
    assert [row["effect"] for row in rows] == known == sorted(known, key=abs, reverse=True)


def test_faithfulness_tests_a_choice_and_saves_it(gpt, tmp_path) -> None:
    file = tmp_path / "circuit.json"
    shown = json.loads(
        call(
            *("circuits", "faithfulness", "agreement", "--heads", "3.0,0.0", "--examples", "5"),
            *("--save", str(file), "--format", "json"),
        ).stdout
    )
    found = mv.faithfulness(gpt, mv.make_task(gpt, "agreement", 5), [(3, 0), (0, 0)])
    assert mv.Faithfulness.load(file) == found
    assert [row["behaviour"] for row in shown["rows"][:4]] == near(found.held_out[:4])
    assert (shown["held_out"], shown["chosen_on"]) == (3, 2)


def test_a_search_is_tested_on_other_texts(gpt) -> None:
    shown = call("circuits", "faithfulness", "closing", "--examples", "5", "--format", "json")
    rows = {row["heads"]: row for row in json.loads(shown.stdout)["rows"]}
    found = mv.find_heads(gpt, mv.make_task(gpt, "closing", 5))
    alone = rows["the choice alone"]
    assert alone["share_chosen_on"] == pytest.approx(found.share[len(found.heads)], abs=1e-4)
    assert alone["share"] == pytest.approx(found.held_out, abs=1e-4) != alone["share_chosen_on"]
    table = call("circuits", "faithfulness", "closing", "--examples", "5").stdout
    assert "closing: " + ", ".join(f"L{i} H{j}" for i, j in found.heads) in table
    assert "of 20 random sets of this size carry as much alone" in " ".join(table.split())


@pytest.mark.extended
def test_a_share_of_nearly_nothing_is_refused() -> None:
    asked = ("circuits", "faithfulness", "agreement", "--model", "tiny-bert")
    done = call(*asked, "--heads", "0.1,2.3", "--format", "json")
    rows = json.loads(done.stdout, parse_constant=pytest.fail)["rows"]
    assert {row["share"] for row in rows} == {None} and "would be noise" in done.stderr
    assert "There is no circuit of tiny-bert to find" in call(*asked, code=2).stderr


def test_edges_lists_the_strongest_or_their_curve(gpt) -> None:
    asked = ("circuits", "edges", "closing", "--examples", "4", "--method", "eap", "--measure", "2")
    found = mv.edge_effects(gpt, mv.make_task(gpt, "closing", 4), "eap")
    found.measure(2)
    rows = json.loads(call(*asked, "--format", "json").stdout)["rows"]
    assert [row["score"] for row in rows[:9]] == near(found.table().score[:9])
    assert sum(row["known"] == "measured" for row in rows) == 2 and len(rows) == 1519
    shown = call(*asked).stdout
    assert "1,519 edges by eap, 2 exact" in " ".join(shown.split())
    assert len(shown.splitlines()) < 30


@pytest.mark.extended
def test_edges_measures_the_curve(gpt) -> None:
    asked = ("circuits", "edges", "closing", "--examples", "8", "--curve", "--format", "json")
    shown = json.loads(call(*asked).stdout)
    assert shown["rows"][-1]["edges"] == 1519 and 0 < shown["area"] < 2
    assert shown["rows"][-1]["faithfulness"] == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("edges", "closing", "--method", "acdc"), "not one of 'exact', 'eap', 'eap-ig'"),
        (("path", CLEAN, "A cat", "--sender", "0.1"), "texts of as many tokens"),
        (("path", CLEAN, CORRUPT, "--sender", "0.1,0.2"), "one head at each end"),
        (("path", CLEAN, CORRUPT, "--sender", "first"), "layer.head"),
        (("path", CLEAN, CORRUPT, "--sender", "0.1", "--receiver", "1.0"), "--receiver is"),
        (("path", CLEAN, CORRUPT, "--sender", "1.1", "--receiver", "1.0.key"), "later layer"),
        (("paths", CLEAN, CORRUPT, "--way", "around"), "not one of 'direct', 'total'"),
        (("paths", CLEAN, CORRUPT, "--metric", "kl"), "add --exact"),
        (("faithfulness", "magic"), "task must be one of"),
        (("faithfulness", "closing", "--heads", "9.9"), "has no L9 H9"),
        (("report", "--out", "none"), "Give one task"),
        (("report", "closing", "--enough", "2", "--out", "none"), "enough must lie in"),
    ],
)
def test_errors_are_one_line(arguments, message) -> None:
    done = call("circuits", *arguments, code=2)
    assert message in done.stderr and done.stderr.count("\n") == 1


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
    asked = ("circuits", "faithfulness", "--pairs", str(file), "--heads", "3.0,0.0")
    done = call(*asked, "--format", "json")
    task = mv.make_task(gpt, ROWS)
    found, accuracy = mv.faithfulness(gpt, task, [(3, 0), (0, 0)]), mv.task_accuracy(gpt, task)
    shown = json.loads(done.stdout)
    assert [row["behaviour"] for row in shown["rows"][:4]] == near(found.held_out[:4])
    assert (shown["stand_in"], shown["prefers_right"]) == ("corrupt", accuracy.share)
    assert task.left_out[0] in done.stderr and accuracy.sentence in done.stderr


def test_a_template_is_drawn(gpt) -> None:
    row = "The {noun1} saw the {noun2} and the {noun1} saw the | The {noun1} saw the {verb} and the"
    row += " {noun1} saw the | {noun2} | {verb}"
    asked = ("circuits", "faithfulness", "--template", row, "--examples", "4", "--heads", "3.0")
    shown = json.loads(call(*asked, "--format", "json").stdout)
    found = mv.faithfulness(gpt, mv.make_task(gpt, row, 4), [(3, 0)])
    assert [row["behaviour"] for row in shown["rows"][:4]] == near(found.held_out[:4])
    assert shown["stand_in"] == "mean"


def test_one_task_is_given(tmp_path) -> None:
    none = str(tmp_path / "none.csv")
    for given in ((), ("closing", "--template", "a|b|c|d"), ("closing", "--pairs", none)):
        assert "Give one task: its name" in call("circuits", "faithfulness", *given, code=2).stderr
    assert "There is no file" in call("circuits", "faithfulness", "--pairs", none, code=2).stderr
