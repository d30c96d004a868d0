"""Tasks of one's own: pairs and templates, what is left out, accuracy, mixed lengths."""

import copy
import statistics
from dataclasses import replace

import pandas as pd
import pytest
import torch
import transformers as tf

import mha_viz as mv
from mha_viz.circuits.effects.faithfulness import faithfulness, find_heads
from mha_viz.circuits.tasks.make_task import make_task
from mha_viz.circuits.tasks.pairs import read_pairs
from mha_viz.circuits.tasks.templates import VOCABULARIES
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError
from tests.circuits.plain_paths import PlainPaths
from tests.circuits.test_faithfulness import CHOICE, plain_values
from tests.circuits.test_path_effect import predicting
from tests.making.small_tokenizers import make

MARY = ("When Mary and John went to the store, John gave a drink to", "Mary", "John")
SWAPPED = MARY[0].replace("John gave", "Mary gave")
IOI = "When {A} and {B} went to the {place}, {%s} gave a {drink=tea/cake/ball} to"
TEMPLATE = f"{IOI % 'B'} | {IOI % 'A'} | {{A}} | {{B}}"


@pytest.fixture(params=["gpt", "masked"])
def shipped(request):
    return request.getfixturevalue(request.param)


def number(model, word: str) -> int:
    (found,) = model.tokenizer.encode(word, add_special_tokens=False)
    return found


# -- what pairs say --------------------------------------------------------------------------------


def test_the_mask_stands_where_the_answer_belongs(gpt, masked):
    pair = ("Tom saw (the red [MASK]) here.", "Tom saw (the big [MASK]) here.", "cat", "dog")
    (one,) = make_task(masked, [pair]).examples
    assert one.clean.input_ids == masked.tokenizer(pair[0])["input_ids"]
    assert one.clean.input_ids[one.position] == masked.tokenizer.mask_token_id
    (one,) = make_task(gpt, [pair]).examples  # a causal model reads as far as that
    assert one.clean.input_ids == gpt.tokenizer("Tom saw (the red")["input_ids"]
    assert one.position == len(one.clean.input_ids) - 1 and one.right == number(gpt, " cat")
    signs = ("Tom saw (the red cat", "Tom saw [the red cat", ")", "]")
    for model in (gpt, masked):
        for typed in (signs, [f"{text}[MASK]" for text in signs[:2]] + [*signs[2:]]):
            (one,) = make_task(model, [typed]).examples
            assert (one.right, one.wrong) == (number(model, ")"), number(model, "]"))


def test_a_mask_that_takes_the_space_before_it():
    tokenizer, sizes = make("roberta_like"), dict(hidden_size=10, num_attention_heads=2)
    config = tf.RobertaConfig(vocab_size=len(tokenizer), num_hidden_layers=1, **sizes)
    model = AttentionModel(tf.RobertaForMaskedLM(config).eval(), tokenizer, name="small")
    task = make_task(model, [("the cat [MASK] the", "the mat <mask> the", "sat", "on")])
    ((clean, corrupt, place, *answers),) = task.examples
    names = tokenizer.convert_ids_to_tokens(clean.input_ids)
    assert names == ["<s>", "the", "Ġcat", "<mask>", "Ġthe", "</s>"] and place == 3
    assert corrupt.input_ids[3] == clean.input_ids[3]
    assert tokenizer.convert_ids_to_tokens(answers) == ["Ġsat", "Ġon"]


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        (("The cat sat", "The dog sat on", "on", "in"), "have 3 and 4 tokens, not as many: The ·"),
        (("The cat sat", "The cat sat", "on", "in"), "are the same tokens"),
        (("The cat", "The dog", "kombuchas", "in"), "“kombuchas” is 4 tokens (k · omb"),
        (("The cat", "The dog", "on", "on"), "“on” is its answer and its wrong answer"),
        (("The cat", "The dog", "", "on"), "The answer is empty"),
        (("A [MASK] b [MASK]", "The dog", "in", "on"), "[MASK] twice"),
        (("The cat " * 600, "The dog " * 600, "in", "on"), "longer than the"),
        (("The cat", "The dog", "in"), "has 3 of 4 cells"),
        (("The cat \ud800", "The dog", "in", "on"), "half a character"),
    ],
)
def test_a_pair_that_does_not_fit_is_left_out_with_the_reason(gpt, pair, reason):
    good = ("The cat sat on", "The dog sat on", "his", "her")
    task = make_task(gpt, [pair, good])
    (sentence,) = task.left_out
    assert sentence.startswith("Pair 1 was left out. ") and reason in sentence
    assert len(task.examples) == 1
    with pytest.raises(ArgumentError, match="tiny-gpt2"):
        make_task(gpt, [pair])


def test_no_text_twice_and_no_more_than_there_is_room_for(gpt):
    good = ("The cat sat on", "The dog sat on", "his", "her")
    task = make_task(gpt, [good, good])
    assert task.left_out == ("Pair 2 was left out. Its clean text is that of a pair before it.",)
    names = VOCABULARIES["name"]
    rows = [(f"{a} saw {b} and", f"{b} saw {a} and", "he", "she") for a in names for b in names]
    task = make_task(gpt, rows)
    assert f"{len(rows) - 256} pairs behind the first 256 were left out." in task.left_out
    rows = [(f"{name} saw a cat and", f"{name} saw a dog and", "he", "she") for name in names[:7]]
    assert len(make_task(gpt, rows, n_examples=5).examples) == 5


ROWS = {"Line 1": ("a, b", 'c "d"', "e", "f"), "Line 2": ("g", "h", "i", "j")}


@pytest.mark.parametrize(
    "text",
    [
        '"a, b","c ""d""",e,f\ng,h,i,j\n',
        'a, b|c "d"|e|f\r\ng | h | i | j',
        'a, b\tc "d"\te\tf\ng\th\ti\tj\n\n',
    ],
)
def test_lines_are_read_by_their_separator(text, tmp_path):
    assert read_pairs(text) == (ROWS, [])
    (tmp_path / "pairs.csv").write_text("\ufeff" + text, "utf-8")
    assert read_pairs(tmp_path / "pairs.csv") == (ROWS, [])


def test_columns_are_known_by_their_names():
    table = pd.DataFrame([dict(wrong="d", note=1, answer="c", clean="a", corrupt="b")], index=["x"])
    assert read_pairs(table) == ({"Row 0": ("a", "b", "c", "d")}, [])
    twice = pd.concat([table, table.assign(clean="e")])  # both rows have one name
    assert [pair.clean for pair in read_pairs(twice)[0].values()] == ["a", "e"]
    lines = "Wrong,note,answer,clean,corrupt\nd,1,c,a,b\nd,1,c"
    pairs, (reason,) = read_pairs(lines)
    assert pairs == {"Line 2": ("a", "b", "c", "d")} and reason.startswith("Line 3 was left out.")
    with pytest.raises(ArgumentError, match="lacks the columns answer, wrong"):
        read_pairs(table.drop(columns=["answer", "wrong"]))
    for heading in ("clean,corrupted,answer,wrong", "Prompt\tCounterfactual\tCorrect\tIncorrect"):
        with pytest.raises(ArgumentError, match=r"first line .* lacks .*corrupt"):
            read_pairs(f"{heading}\n{lines[25:]}")
    assert len(read_pairs("Is it right? | Is that so? | right | wrong")[0]) == 1  # no heading


def test_what_cannot_be_read(gpt, tmp_path, masked):
    for raw in (b"\xff\xfe,", b"a" * 1_000_001):
        (tmp_path / "pairs.csv").write_bytes(raw)
        with pytest.raises(ArgumentError, match=r"not a text in UTF-8|larger than"):
            read_pairs(tmp_path / "pairs.csv")
    for path in (tmp_path, tmp_path / "none.csv"):
        with pytest.raises(ArgumentError, match="pairs"):
            read_pairs(path)
    with pytest.raises(ArgumentError, match="source"):
        make_task(gpt, [5])
    with pytest.raises(ArgumentError):
        make_task(gpt, "a," + "b" * 200_000)
    with pytest.raises(ArgumentError):
        make_task(gpt, [])
    pair = ("The [MASK] sat here", "The old [MASK] sat", "cat", "dog")
    with pytest.raises(ArgumentError, match=r"\[MASK\] stands at position 2 .* at 3 of the corr"):
        make_task(masked, [pair])
    task = make_task(gpt, [("The cat sat on", "The dog sat on", "his", "her")])
    for test in (find_heads, lambda *given: faithfulness(*given, [(0, 1)])):
        with pytest.raises(ArgumentError, match="4 pairs"):
            test(gpt, task)


# -- templates -------------------------------------------------------------------------------------


def test_a_template_is_filled_with_words_that_are_one_token(shipped):
    task = make_task(shipped, TEMPLATE, 7)
    assert task.name == "template" and len(task.examples) == len(task.further_texts) == 7
    assert task.stand_in == "mean"
    texts = {one.clean.text for one in task.examples} | {text.text for text in task.further_texts}
    assert len(texts) == 14
    for clean, corrupt, _, right, wrong in task.examples:
        words = clean.text.replace(",", "").split()
        a, b, place, second, drink = (words[i] for i in (1, 3, 7, 8, 11))
        assert second == b != a and drink in ("tea", "cake", "ball")
        assert {a, b} < set(VOCABULARIES["name"]) and place in VOCABULARIES["place"]
        assert corrupt.text == clean.text.replace(f"{b} gave", f"{a} gave")
        assert (right, wrong) == (number(shipped, f" {a}"), number(shipped, f" {b}"))
        for word in (a, b, place, drink):
            number(shipped, f" {word}")


def test_ioi_asks_for_the_other_name_in_both_orders(shipped):
    firsts = []
    for clean, corrupt, _, right, wrong in make_task(shipped, "ioi", 9).examples:
        first, other, subject = (clean.text.replace(",", "").split()[i] for i in (1, 3, 8))
        answer = other if subject == first else first
        assert subject in (first, other) and first != other
        assert (right, wrong) == (number(shipped, f" {answer}"), number(shipped, f" {subject}"))
        assert corrupt.text.replace(",", "").split()[8] == answer
        firsts.append(answer == first)
    for half in (firsts[:4], firsts[4:]):  # neither half asks for one order alone
        assert abs(2 * sum(half) - len(half)) <= 1


def test_words_and_templates_that_do_not_fit_are_named(gpt):
    lines = f"{TEMPLATE.replace('tea', 'kombucha')}\nThe cat|The dog|is|was\nA {{foo}}|b|c|d"
    task = make_task(gpt, lines, 6)
    *words, line_2, line_3 = task.left_out
    assert "“kombucha” of {drink} was left out: tiny-gpt2 splits it." in words
    assert line_2.startswith("Line 2 was left out. It has no {slots}")
    assert line_3.startswith("Line 3 was left out. The slot {foo} has no words. Write {f")
    assert len(task.examples) == 6
    own = make_task(gpt, "A {foo} saw|The {foo} saw|him|her", 4, words={"foo": ["cat", "dog"]})
    assert {one.clean.text for one in (*own.examples,)} < {"A cat saw", "A dog saw"}
    with pytest.raises(
        ArgumentError, match=r"too few of the words of \{place\} as single tokens: "
    ):
        make_task(gpt, "{place1} {place2}|{place2} {place1}|a|b", words={"place": ["store"]})
    with pytest.raises(ArgumentError, match="one text"):
        make_task(gpt, "A {x=cat}|The {x}|a|b")
    with pytest.raises(ArgumentError, match=r"at most 100 slots .* got 101"):
        make_task(gpt, f"{'{A}' * 50}|{'{A}' * 49}|{{A}}|{{A}}")


# -- accuracy --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["closing", "pairs"])
def test_accuracy_is_that_of_a_plain_forward_pass(shipped, name):
    rows = [(MARY[0], SWAPPED, *MARY[1:]), ("The cat sat on", "The dog sat on", "his", "her")]
    task = make_task(shipped, rows) if name == "pairs" else make_task(shipped, name, 5)
    found = mv.task_accuracy(shipped, task)
    network = copy.deepcopy(shipped.network)
    network.set_attn_implementation("eager")
    for i, (clean, _, place, right, wrong) in enumerate(task.examples):
        inputs = {"input_ids": torch.tensor([clean.input_ids])}
        with torch.no_grad():
            logits = network(**inputs).logits[0, place]
        assert float(found.difference[i]) == pytest.approx(
            float(logits[right] - logits[wrong]), abs=1e-3
        )
        assert bool(found.first[i]) == (int(logits.argmax()) == right)
    assert found.n_preferred == sum(found.difference > 0)
    assert found.share == found.n_preferred / len(task.examples)
    with pytest.raises(ArgumentError, match="other"):
        mv.task_accuracy(shipped, replace(task, model="other"))


# -- circuits on texts of mixed lengths -----------------------------------------------------------


def test_mixed_lengths_of_a_template_have_means_of_their_own_length():
    model = predicting("gpt2", double=True)
    words = {"x": ["cat", "dog", "mat"], "y": ["sat", "ran", "on"]}
    lines = "the {x1} {y1}|the {y1} {y1}|a|mat\na {x1} {y1} on|a {y1} {y1} on|the|mat"
    task = make_task(model, lines, 6, words=words)
    found = faithfulness(model, task, CHOICE, n_random=2)
    values = plain_values(PlainPaths(model.network), task, task.held_out, set())
    assert found.held_out.nothing == pytest.approx(statistics.fmean(values), abs=1e-9)
    assert found.stand_in == "mean"
