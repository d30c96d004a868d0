"""A record of any tool's weights: the shapes that tools give them in, and what is refused."""

import numpy as np
import pytest
import torch
import transformers

import mha_viz as mv
from mha_viz.errors import RecordError
from tests.core.patterns import random_pattern

WORDS = ["the", "cat", "saw", "the", "dog", "run", "."]


@pytest.fixture(scope="module")
def bert() -> transformers.BertModel:
    sizes = transformers.BertConfig(
        hidden_size=24,
        num_hidden_layers=3,
        num_attention_heads=4,
        vocab_size=50,
        attn_implementation="eager",
    )
    return transformers.BertModel(sizes).eval()


def test_what_transformers_gives_is_a_record(bert):
    ids = torch.tensor([[2, 7, 8, 9, 7, 3]])
    attentions = bert(ids, output_attentions=True).attentions
    words = ["[CLS]", "a", "b", "c", "a", "[SEP]"]
    record = mv.record(attentions, words, special=["[CLS]", "[SEP]"], model="mine", text="a b c a")
    assert record.pattern.shape == (3, 4, 6, 6) and not record.pattern.requires_grad
    for layer in range(3):
        assert torch.equal(record.pattern[layer], attentions[layer][0])
    assert record.labels == tuple(words) and record.model == "mine"
    assert [token.is_special for token in record.tokens] == [True, False, False, False, False, True]
    assert record.without_special().labels == ("a", "b", "c", "a")
    report = mv.head_report(record)
    assert len(report) == 12 and {"duplicate_token", "special_token"} <= set(report)


@pytest.mark.parametrize(
    "given",
    [
        lambda p: tuple(layer[None] for layer in p),
        lambda p: [layer.numpy() for layer in p],
        lambda p: p.half().numpy(),
        lambda p: [layer[None].bfloat16() for layer in p],
        lambda p: p.double().requires_grad_(),
    ],
)
def test_every_form_of_the_same_weights(given):
    pattern = random_pattern()
    record = mv.record(given(pattern), WORDS)
    assert record.pattern.dtype == torch.float32
    torch.testing.assert_close(record.pattern, pattern, atol=4e-3, rtol=0)
    assert (record.part, record.causal, record.is_cross) == ("self", False, False)


def test_a_record_does_not_change_with_the_tensor_it_came_from():
    pattern = random_pattern()
    record = mv.record(pattern, WORDS)
    pattern.zero_()
    assert record.pattern.sum() > 0


def test_the_future_is_seen_to_be_hidden_and_two_texts_are_cross_attention():
    assert mv.record(random_pattern(causal=True), WORDS).causal
    assert not mv.record(random_pattern(causal=True), WORDS, causal=False).causal
    assert not mv.record(random_pattern(), WORDS).causal
    record = mv.record(random_pattern(3, 7), ["un", "chat", "."], WORDS)
    assert record.is_cross and record.key_labels == tuple(WORDS) and not record.causal
    assert "distance" not in mv.head_report(record)


def test_equal_strings_are_the_same_token_and_tokens_stay_as_they_are():
    tokens = mv.record(random_pattern(), WORDS).tokens
    assert tokens[0].id == tokens[3].id and len({token.id for token in tokens}) == 6
    own = tuple(mv.Token(word, 90 + i) for i, word in enumerate(WORDS))
    assert mv.record(random_pattern(), own).tokens == own


@pytest.mark.parametrize(
    ("attentions", "tokens", "message"),
    [
        (None, WORDS, "got NoneType"),
        ("weights", WORDS, "got str"),
        ((), WORDS, r'got none.*attn_implementation="eager".*mv\.wrap'),
        ((None, None), WORDS, 'attn_implementation="eager"'),
        (torch.ones(7, 7) / 7, WORDS, r"got shape \(7, 7\)"),
        ([np.ones((7, 7)) / 7], WORDS, r"got shape \(7, 7\)"),
        ([torch.ones(2, 3, 7, 7) / 7], WORDS, "a batch of 2"),
        ([torch.ones(3, 7, 7) / 7, torch.ones(2, 7, 7) / 7], WORDS,
         r"one shape.*\b3, 7, 7.*layer 1.*\b2, 7, 7"),
        (torch.ones(1, 1, 7, 7, dtype=torch.int64), WORDS, "floating point"),
        ([["a"]], WORDS, "attentions must be"),
        (random_pattern(), WORDS[:-1], "7 queries and 7 keys, but there are 6 tokens"),
        (random_pattern(), "the cat", "got one string"),
        (random_pattern(), range(7), "got int at place 0: give the tokenizer"),
        (random_pattern(), torch.zeros(2, 7, dtype=torch.long), r"got shape \(2, 7\)"),
        ([[torch.ones(1, 3, 2, 5) / 5]], WORDS[:2], "step 0 has 5 keys after 2 tokens"),
        (random_pattern(), [*WORDS[:-1], "\ud800"], "half a character at place 6"),
        (random_pattern() * 1.2, WORDS, "training mode, with dropout"),
    ],
)  # fmt: skip
def test_what_is_no_record_is_said_in_a_sentence(attentions, tokens, message, as_users_have_it):
    with pytest.raises(RecordError, match=message):
        mv.record(attentions, tokens)


@pytest.mark.parametrize(
    ("pattern", "tokens", "message"),
    [
        (random_pattern(), tuple(WORDS), r"got str at place 0: mha_viz\.record"),
        (random_pattern().numpy(), None, "got NoneType"),
        (random_pattern().numpy(), tuple(mv.Token(w, 0) for w in WORDS), "got ndarray"),
    ],
)
def test_a_record_itself_takes_tokens_only(pattern, tokens, message, as_users_have_it):
    with pytest.raises(RecordError, match=message):
        mv.AttentionRecord(pattern, tokens)


@pytest.mark.parametrize("name", ["tiny-bert", "tiny-gpt2"])
def test_pieces_and_ids_of_a_tokenizer_read_as_in_the_text_and_know_their_words(name: str) -> None:
    model = mv.load(name)
    theirs = model.trace("The uncharacteristically old cat sat.")
    ids = [token.id for token in theirs.tokens]
    pieces = model.tokenizer.convert_ids_to_tokens(ids)
    for given in (ids, pieces):
        record = mv.record(theirs.pattern, given, tokenizer=model.tokenizer, text=theirs.text)
        assert record.tokens == theirs.tokens and record.text == theirs.text
        assert record.merge_words().labels == theirs.merge_words().labels
        assert len(record.merge_words().labels) < len(ids)
    decoded = mv.record(theirs.pattern, ids, tokenizer=model.tokenizer)
    assert [token.id for token in decoded.tokens] == ids
    with pytest.raises(RecordError, match="are not what this tokenizer makes"):
        mv.record(theirs.pattern, ids, tokenizer=model.tokenizer, text="Another text.")


@pytest.mark.parametrize(
    "layers", [(3,), (0,), (0, 1, 2), (7, 3), (3, 3), (-1, 3), (0.5, 3), (False, True), 7]
)
def test_layer_numbers_that_do_not_fit_the_weights(layers, as_users_have_it):
    weights = torch.full((2, 1, 7, 7), 1 / 7)
    assert mv.record(weights, WORDS, layers=[3, 7]).layer_numbers == (3, 7)
    with pytest.raises(RecordError, match="2 increasing whole numbers from 0"):
        mv.record(weights, WORDS, layers=layers)
