"""The commands that change heads: what they print is the library's own, and errors are one line."""

import io
import json

import pandas as pd
import pytest
import transformers as tf

import mha_viz as mv
from mha_viz.interventions.pruning import pruning_curve
from tests.cli.command import call
from tests.making.checkpoints import OTHER, bert, save, spread
from tests.making.checkpoints import TEXT as CAT
from tests.making.comparing import near

TEXT = "When Mary and John went to the store, John gave a drink to"
TEXTS = ["The cat sat on the mat.", "A small dog ran after the ball in the park."]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n\n".join(TEXTS) + "\n", "utf-8")
    return path


def test_ablate_prints_what_the_library_finds(gpt) -> None:
    tokens = ("--target", "Mary", "--against", "John")
    shown = json.loads(call("ablate", TEXT, "--heads", "3.7,2.1", *tokens, "-f", "json").stdout)
    found = mv.ablate(gpt, TEXT, [(3, 7), (2, 1)], target="Mary", against="John")
    assert shown["kl_nats"] == near(found.kl)
    assert shown["target"] == "Mary"
    assert shown["logit_difference_after"] == near(found.logit_difference_after)
    assert [row["id"] for row in shown["rows"]] == list(found.ids)
    assert shown["rows"][0]["after"] == pytest.approx(found.table()["after"][0], abs=1e-9)


def test_a_masked_model_needs_a_gap() -> None:
    text = "The cat [MASK] on the mat."
    done = call("ablate", text, "--heads", "0.3", "--model", "tiny-bert", "--format", "csv")
    table = pd.read_csv(io.StringIO(done.stdout), keep_default_na=False)
    want = mv.ablate(mv.load("tiny-bert"), text, [(0, 3)]).table()
    assert table["before"].to_numpy() == near(want["before"].to_numpy())
    done = call("ablate", "no gap here", "--heads", "0.3", "--model", "tiny-bert", code=2)
    assert "[MASK]" in done.stderr


def test_importance_of_texts_in_a_file(gpt, file) -> None:
    done = call("importance", str(file), "--method", "gradient", "--format", "csv")
    table = pd.read_csv(io.StringIO(done.stdout)).sort_values(["layer", "head"])
    want = mv.head_importance(gpt, TEXTS, "gradient")
    assert table.importance.to_numpy() == near(want.mean.flatten().numpy())
    piped = call("importance", "-", "--method", "gradient", "-f", "csv", input="\n".join(TEXTS))
    assert piped.stdout == done.stdout


def test_a_class_or_the_end_of_an_answer_is_the_label(tmp_path) -> None:
    networks = {
        "tags": tf.BertForTokenClassification(bert().config),
        "answers": tf.BertForQuestionAnswering(bert().config),
        "number": tf.BertForSequenceClassification(bert().config),
    }
    networks["number"].config.num_labels = 1
    networks["number"] = tf.BertForSequenceClassification(networks["number"].config)
    for name, network in networks.items():
        save(spread(network), tmp_path / name)
    for name, label, pair in (("tags", "3:LABEL_1", ()), ("answers", "end:9", ("--pair", OTHER))):
        model = str(tmp_path / name)
        options = ("--model", model, "--format", "json", *pair)
        shown = json.loads(call("importance", CAT, "--label", label, *options).stdout)
        want = mv.head_importance(
            mv.load(model), CAT, labels=label, text_pair=OTHER if pair else None
        )
        rows = sorted(shown["rows"], key=lambda row: (row["layer"], row["head"]))
        assert [row["importance"] for row in rows] == near(want.mean.flatten().tolist())
    options = ("--model", str(tmp_path / "number"), "--heads", "1.2", "--format", "json")
    shown = json.loads(call("ablate", CAT, *options).stdout)
    found = mv.ablate(mv.load(str(tmp_path / "number")), CAT, [(1, 2)])
    assert shown["value_after"] - shown["value_before"] == near(found.value_change)
    assert "kl_nats" not in shown


def test_prune_follows_the_loss(gpt, file, tmp_path) -> None:
    out = tmp_path / "curve.csv"
    options = ("--order", "random", "--order", "ablation", "--steps", "2", "--seeds", "2")
    assert "wrote" in call("prune", str(file), *options, "--out", str(out)).stderr
    table = pd.read_csv(out)
    want = pruning_curve(gpt, TEXTS, "ablation", steps=2).loss.tolist()
    got = table[table.order == "ablation"].sort_values("heads_off").loss.tolist()
    assert got == near(want) and len(table) == 6
