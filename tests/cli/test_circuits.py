"""The commands that take one text apart print what the library finds; errors are one line."""

import json

import pytest
from typer.testing import CliRunner

import mha_viz as mv
from mha_viz.cli.main import app
from tests.making.comparing import near

TEXT = "Once upon a"


def run(*arguments: str):
    return CliRunner().invoke(app, ["circuits", *arguments])


@pytest.fixture(scope="module")
def model() -> mv.AttentionModel:
    return mv.load("tiny-gpt2")


def test_logits_prints_every_share_as_json(model):
    done = run("logits", TEXT, "--token", "time", "--versus", "man", "--format", "json")
    assert done.exit_code == 0, done.output
    shown = json.loads(done.stdout)
    found = mv.logit_attribution(model, TEXT, "time", "man")
    assert [row["share"] for row in shown["rows"]] == near(found.shares.tolist())
    assert shown["value"] == near(found.value)
    assert shown["sum"] + shown["remainder"] == near(shown["value"])
    assert "time less that of man" in shown["title"]


def test_logits_by_source(model):
    done = run("logits", TEXT, "--sources", "3.2", "--format", "json")
    found = mv.logit_attribution(model, TEXT).sources_table(3, 2)
    rows = json.loads(done.stdout)["rows"]
    assert [row["token"] for row in rows] == found["token"].tolist()
    assert [row["share"] for row in rows] == near(found["share"].tolist())


def test_the_largest_shares_stand_first_in_a_table_to_read(model):
    done = run("logits", TEXT)
    found = mv.logit_attribution(model, TEXT).table()
    largest = found["component"][found["share"].abs().idxmax()]
    first = done.stdout.split("\n\n")[1].splitlines()[2]
    assert first.strip().startswith(largest)


def test_scores(model):
    place = ["--layer", "1", "--head", "2", "--query", "4", "--key", "1", "--versus", "2"]
    done = run("scores", "The cat saw the cat", *place, "--format", "json")
    assert done.exit_code == 0, done.output
    shown = json.loads(done.stdout)
    found = mv.score_attribution(model, "The cat saw the cat", 1, 2, 4, 1, 2)
    assert shown["value"] == near(found.value)
    assert len(shown["rows"]) == found.shares.numel()


def test_tokens_and_lens(model):
    done = run("tokens", TEXT, "--layer", "3", "--head", "0", "--top", "3", "--format", "json")
    promoted = [row["promoted"] for row in json.loads(done.stdout)["rows"]]
    assert promoted == list(mv.head_tokens(model, TEXT, 3, 0, top_k=3).promoted)
    done = run("lens", TEXT, "--token", "time", "--format", "json")
    rows = json.loads(done.stdout)["rows"]
    assert [row["time"] for row in rows] == near(mv.logit_lens(model, TEXT, "time").chosen.tolist())
    assert "not trained" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["logits", TEXT, "--sources", "1.2,3.4"], "--sources takes one head"),
        (["logits", TEXT, "--token", "antidisestablishment"], "tokens for this model"),
        (["scores", TEXT, "-l", "0", "-H", "0", "--query", "0", "--key", "1"], "does not see"),
    ],
)
def test_errors_are_one_line(arguments, message):
    done = run(*arguments)
    assert done.exit_code == 2
    assert message in done.stderr and done.stderr.count("\n") == 1


def test_map_lists_heads_and_points_and_draws_one(model, tmp_path):
    texts = ["The old cat sat.", "A dog ran home."]
    file = tmp_path / "texts.txt"
    file.write_text("\n".join(texts))
    found = mv.query_key_map(model, texts)
    done = run("map", str(file), "--format", "json")
    assert done.exit_code == 0, done.output
    shown = json.loads(done.stdout)
    assert "queries and keys, 2 texts, by pca" in shown["title"]
    wanted = found.table()
    for name in ("layer", "head", "plane_correlation", "baseline", "scale"):
        assert [row[name] for row in shown["rows"]] == near(wanted[name].tolist())
    chosen = ("--layer", "1", "--head", "3")
    done = run("map", str(file), *chosen, "--format", "json")
    rows = json.loads(done.stdout)["rows"]
    assert [row["x"] for row in rows] == near(found.points[1, 3, :, :, 0].flatten().tolist())
    for ending, start in (("png", b"\x89PNG"), ("html", b"<!doctype html>")):
        out = tmp_path / f"map.{ending}"
        done = run("map", str(file), *chosen, "--out", str(out))
        assert done.exit_code == 0, done.output
        assert out.read_bytes()[:15].lower().startswith(start.lower())


@pytest.mark.parametrize(
    "wrong", [("--layer", "1"), ("--format", "svg"), ("--method", "tsne"), ("--head", "0")]
)
def test_map_needs_a_head_for_a_picture_or_a_layout(wrong):
    done = run("map", TEXT, *wrong)
    assert done.exit_code == 2
    assert "Choose a head with --layer and --head" in done.output
