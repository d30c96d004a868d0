"""A network in memory, built with any attention: ours goes in where its family allows."""

import copy
import math

import pytest
import torch
import transformers as tf

import mha_viz as mv
from mha_viz.engine.attention_function import IMPLEMENTATION
from mha_viz.engine.backend import _agree
from mha_viz.engine.run import Run, check_own_weights
from mha_viz.errors import AttentionUnavailableError, OutOfMemoryError
from mha_viz.text.tokens import encode
from tests.families.trial import own_weights
from tests.making import checkpoints
from tests.making.checkpoints import D_HEAD, HEADS, N_CTX, OTHER, TEXT, WORDS, spread, tokenizer
from tests.making.comparing import ROUNDING, close
from tests.making.families import FAMILIES, HEADED

CONFIGS = {
    "bert": checkpoints.bert().config,
    "gpt2": checkpoints.gpt2().config,
    "t5": FAMILIES["t5"][0],
}
WITH_HEADS = {
    "bert": tf.BertForMaskedLM,
    "gpt2": tf.GPT2LMHeadModel,
    "t5": tf.T5ForConditionalGeneration,
}


def network_in_memory(name: str, built: str | None, headed: bool = False) -> tf.PreTrainedModel:
    options = {} if built is None else {"attn_implementation": built}
    config = copy.deepcopy(CONFIGS[name])
    loader = WITH_HEADS[name]._from_config if headed else tf.AutoModel.from_config
    network = spread(loader(config, **options))
    for parameter in network.parameters():
        parameter.data *= 2  # farther from uniform attention, which would agree with anything
    return network.train()  # as from_config leaves it


@pytest.mark.parametrize("headed", [False, True])
@pytest.mark.parametrize("built", ["sdpa", "eager"])
@pytest.mark.parametrize("name", CONFIGS)
def test_a_network_in_memory_shows_its_eager_weights(name, built, headed):
    network = network_in_memory(name, built, headed)
    untouched = copy.deepcopy(network)
    model = mv.AttentionModel(network, tokenizer(pairs=name == "bert"), name="mine")
    assert model.backend == "mha_viz" and model.notes == () and not network.training
    records = model.trace_parts(TEXT, OTHER if name == "t5" else None)
    own = copy.deepcopy(untouched).eval()
    own.set_attn_implementation("eager")
    for part, weights in own_weights(own, records).items():
        close(records[part].pattern, weights)
        assert records[part].z is not None and weights.std() > 0.01
    with torch.no_grad():
        ids = torch.tensor([model.tokenizer(TEXT)["input_ids"]])
        more = {"decoder_input_ids": ids} if name == "t5" else {}
        mine, own = network(input_ids=ids, **more)[0], untouched.eval()(input_ids=ids, **more)[0]
    close(mine, own, atol=ROUNDING * max(1.0, float(own.abs().max())))


def test_a_class_that_cannot_be_switched_says_how_to_build_it(monkeypatch):
    """A network of a class that was typed into a notebook is such a one."""
    monkeypatch.setattr(tf.BertModel, "_can_set_attn_implementation", classmethod(lambda _: False))
    for built, backend in (("eager", "eager"), (IMPLEMENTATION, "mha_viz")):
        network = network_in_memory("bert", built)
        model = mv.AttentionModel(network, tokenizer(pairs=True), name="mine")
        assert model.backend == backend
    with pytest.raises(AttentionUnavailableError, match='attn_implementation="eager"') as caught:
        mv.AttentionModel(network_in_memory("bert", "sdpa"), tokenizer(pairs=True), name="mine")
    assert "family gives no" not in str(caught.value)


@pytest.mark.parametrize("way", [IMPLEMENTATION, "eager"])
def test_a_lack_of_memory_says_nothing_of_the_family(monkeypatch, way):
    network = network_in_memory("bert", "sdpa")
    forward = network.forward

    def lacks_memory(*args, **kwargs):
        if network.config._attn_implementation == way:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate")
        return forward(*args, **kwargs)

    monkeypatch.setattr(network, "forward", lacks_memory)
    with pytest.raises(OutOfMemoryError, match="ran out of memory on cpu"):
        mv.AttentionModel(network, tokenizer(pairs=True), name="mine")
    assert network.config._attn_implementation == "sdpa"


def one_run(layers: list[float], hidden: float, single: float = 0.0) -> dict[str, Run]:
    """Make what a run leaves behind, with numbers off by so much: in each layer, in all, in one."""
    weights = torch.full((1, 3, 7, 7), 1 / 7)
    last = torch.linspace(-5, 5, 7 * 11).view(1, 7, 11) * (1 + hidden)
    last[0, 0, 0] += single
    return {"self": Run({"pattern": [weights + off for off in layers]}, last)}


@pytest.mark.parametrize(
    ("off", "agree"),
    [
        (([0.02, 0.04, 0.05], 0.01, 0.2), True),  # rounding adds up; single numbers are off by more
        (([0.05, 0.0, 0.0], 0.0), False),
        (([0.0, 0.0, 0.06], 0.0), False),
        (([0.0, 0.0, 0.0], 0.04), False),
        (([0.0, 0.0, math.nan], 0.0), False),
        (([0.0, 0.0, 0.0], math.nan), False),
    ],
)
def test_in_half_precision_the_rounding_of_layers_may_add_up(off: tuple, agree: bool) -> None:
    exact = one_run([0.0] * 3, 0.0)
    assert _agree(one_run(*off), exact, torch.bfloat16) is agree
    assert not _agree(one_run(*off), exact, torch.float32)


WIDTH = HEADS * D_HEAD + HEADS  # even, as LED's decoder wants it
BERT_LIKE = HEADED | dict(hidden_size=WIDTH, max_position_embeddings=2 * N_CTX)
SAMPLE_TOKENS = 13  # of the text that a backend is chosen by, in this vocabulary


def longformer(window: int) -> tf.PreTrainedModel:
    return tf.LongformerModel(tf.LongformerConfig(**BERT_LIKE, attention_window=window))


def pegasus_x() -> tf.PreTrainedModel:
    layers = dict(encoder_layers=1, decoder_layers=1, encoder_ffn_dim=9, decoder_ffn_dim=9)
    heads = dict(encoder_attention_heads=HEADS, decoder_attention_heads=HEADS, d_model=WIDTH)
    return tf.PegasusXModel(tf.PegasusXConfig(vocab_size=len(WORDS), **layers, **heads))


FOREIGN = {
    "pegasus_x": pegasus_x,  # a dict of two pieces for a layer
    "longformer": lambda: longformer(4),
    # as many offsets as the text has tokens by which a backend is chosen
    "longformer of that width": lambda: longformer(SAMPLE_TOKENS - 1),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_weights_that_are_not_by_query_and_key_are_refused(name):
    with pytest.raises(AttentionUnavailableError, match=r"every query.*Choose a BERT") as caught:
        mv.AttentionModel(spread(FOREIGN[name]()), tokenizer(pairs=True), name=name)
    assert len(str(caught.value)) < 400 and "\n" not in str(caught.value)


def test_the_text_that_settles_a_model_is_as_long_as_the_window_above():
    from mha_viz.engine.loaded_network import _SAMPLE

    assert len(encode(tokenizer(pairs=True), _SAMPLE, max_length=16).input_ids) == SAMPLE_TOKENS


def test_weights_are_looked_at_on_every_run(monkeypatch):
    """A family may give others for another text, as those with blocks do for a long one."""
    network = spread(tf.DebertaV2Model(tf.DebertaV2Config(**BERT_LIKE)))
    model = mv.AttentionModel(network, tokenizer(pairs=True), name="deberta")
    assert model.backend == "eager" and model.trace("the cat sat").n_heads == HEADS
    forward = network.forward

    def by_offset(*args, **kwargs):
        output = forward(*args, **kwargs)
        output.attentions = tuple(weights[..., :-1] for weights in output.attentions)
        return output

    monkeypatch.setattr(network, "forward", by_offset)
    for trace in (model.trace, lambda text: model.trace_batch([text, "the cat sat on a mat"])):
        with pytest.raises(AttentionUnavailableError, match="for every query and key"):
            trace("the cat sat")


def texts(*lengths: int):
    return [encode(tokenizer(pairs=False), " ".join(["cat"] * n), max_length=999) for n in lengths]


def test_what_lies_behind_a_shorter_text_is_not_looked_at():
    weights = torch.full((2, HEADS, 4, 4), 0.25)
    weights[1, :, :2, :2], weights[1, :, :2, 2:] = 0.5, 0.0
    weights[1, :, 2:] = torch.nan
    check_own_weights([weights, weights], texts(4, 2), texts(4, 2), "some")
    cross = torch.full((1, HEADS, 2, 5), 0.2)
    check_own_weights([cross], texts(2), texts(5), "some")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_rounding_is_no_fault_in_any_precision(dtype):
    weights = torch.randn(1, HEADS, 300, 300).mul(3).softmax(-1).to(dtype)
    check_own_weights([weights], texts(300), texts(300), "some")


@pytest.mark.parametrize("wrong", [0.0, 0.9, 1.2, float("nan")])
def test_a_row_that_does_not_sum_to_one_is_refused(wrong):
    weights = torch.full((1, HEADS, 3, 3), 1 / 3)
    weights[0, 1, 2] = wrong / 3
    with pytest.raises(AttentionUnavailableError, match="sum to"):
        check_own_weights([weights], texts(3), texts(3), "some")
    weights = torch.tensor([[-1.0, 1.0, 1.0]]).expand(1, HEADS, 3, 3)
    with pytest.raises(AttentionUnavailableError, match="hold -1"):
        check_own_weights([weights], texts(3), texts(3), "some")
