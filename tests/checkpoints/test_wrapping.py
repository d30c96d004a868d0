"""A network in memory, ready to be looked at; what is no network or no tokenizer is said."""

import copy

import pytest
import torch
import transformers as tf

import mha_viz as mv
from mha_viz.errors import ArgumentError, NotKeptError
from tests.making.checkpoints import TEXT, bert, tokenizer
from tests.making.comparing import close


def test_the_name_says_where_it_is_from():
    network = bert()
    network.config.name_or_path = ""
    assert mv.wrap(network, tokenizer(pairs=True)).name == type(network).__name__
    network.config.name_or_path = "somebody/bert"
    assert mv.wrap(network, tokenizer(pairs=True)).name == "somebody/bert"
    assert mv.wrap(network, tokenizer(pairs=True), name="epoch 3").trace(TEXT).model == "epoch 3"


def test_training_goes_on_with_gradients():
    network = bert()
    mv.wrap(network, tokenizer(pairs=True)).trace(TEXT)
    network.train()
    network(torch.tensor([[2, 5, 6, 3]])).logits.sum().backward()
    assert any(parameter.grad is not None for parameter in network.parameters())


class SentenceTransformer(torch.nn.Sequential):
    """A network in the wrapper of sentence-transformers."""

    def __init__(self, network: tf.PreTrainedModel, words: tf.PreTrainedTokenizerBase) -> None:
        first = torch.nn.Module()
        first.auto_model = network
        super().__init__(first, torch.nn.Identity())
        self.tokenizer = words


def test_what_other_libraries_put_around_a_network_is_taken_off():
    words = tokenizer(pairs=True)
    network = tf.BertForMaskedLM._from_config(bert().config).eval()
    expected = mv.wrap(network, words).trace(TEXT).pattern
    around = (
        SentenceTransformer(network, words),
        tf.pipeline("fill-mask", model=network, tokenizer=words, device="cpu"),
    )
    for given in around:
        model = mv.wrap(given)
        assert model.network is network and model.tokenizer is words
        close(model.trace(TEXT).pattern, expected)
    assert mv.wrap(torch.compile(network), words).network is network
    with pytest.raises(ArgumentError, match="tokenizer must be"):
        mv.wrap(network)


def test_a_network_in_whole_numbers_is_traced_as_it_computes():
    network = bert()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(3)
    small = torch.ao.quantization.quantize_dynamic(network.eval(), {torch.nn.Linear})
    own = copy.deepcopy(small)
    own.set_attn_implementation("eager")
    model = mv.wrap(small, tokenizer(pairs=True))
    ids = torch.tensor([model.tokenizer(TEXT)["input_ids"]])
    expected = torch.stack(own(ids, output_attentions=True).attentions)[:, 0]
    close(model.trace(TEXT).pattern, expected)
    with pytest.raises(NotKeptError, match="projections"):
        mv.parameter_similarity(model, "W_QK")


class Codes(torch.nn.Linear):
    """A layer whose weights are codes for numbers, as bitsandbytes keeps them."""

    def __init__(self, plain: torch.nn.Linear) -> None:
        super().__init__(plain.in_features, plain.out_features)
        self.step = plain.weight.detach().abs().max() / 127
        codes = (plain.weight.detach() / self.step).round().to(torch.int8)
        self.weight = torch.nn.Parameter(codes, requires_grad=False)
        self.bias = plain.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x, self.weight * self.step, self.bias)


def test_weights_that_are_codes_are_traced_and_not_taken_apart():
    network, rounded = bert(), bert()
    for name, plain in [*network.named_modules()]:
        if isinstance(plain, torch.nn.Linear) and ".attention." in name:
            codes = Codes(plain)
            network.set_submodule(name, codes)
            rounded.get_submodule(name).weight.data = codes.weight * codes.step
    words = tokenizer(pairs=True)
    model, expected = mv.wrap(network, words), mv.wrap(rounded, words)
    record = model.trace(TEXT)
    close(record.pattern, expected.trace(TEXT).pattern)
    with pytest.raises(NotKeptError, match="keeps its projections quantised"):
        mv.parameter_similarity(model, "W_QK")
    with pytest.raises(NotKeptError, match="output weights W_O"):
        record.head_output  # noqa: B018


class Adapted(torch.nn.Module):
    """A network in the wrapper of peft."""

    peft_config = {}  # noqa: RUF012


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ("tiny-bert", "must be a transformers model .* got the text 'tiny-bert'"),
        (torch.nn.Linear(2, 2), r"got Linear\. .* `with mv\.capture\(network\)"),
        (None, "got NoneType"),
        (Adapted(), r"got Adapted\. Call its merge_and_unload\(\) first"),
    ],
)
def test_what_is_no_network(network, message):
    with pytest.raises(ArgumentError, match=message):
        mv.wrap(network, tokenizer(pairs=True))
