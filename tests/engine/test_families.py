"""Every family against its own eager attention: tiny random models, single texts and batches."""

import copy
from collections.abc import Iterable
from typing import Any

import pytest
import torch
import transformers as tf

import mha_viz as mv
from mha_viz.engine.attention_function import IMPLEMENTATION, register
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import NotKeptError
from tests.families.trial import own_weights
from tests.making.checkpoints import tokenizer
from tests.making.comparing import ROUNDING, close

register()
WORDS = "the a cat dog sat ran on mat street tired because it was too not did cross".split()
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCABULARY = len(SPECIAL) + len(WORDS)
SHORT, LONG = "the cat sat", "the dog did not cross the street because it was too tired"
LAYERS, HEADS, D_HEAD = 3, 5, 14  # prime or odd, and all different; d_head even for rotary


def small_tokenizer(template: bool) -> tf.PreTrainedTokenizerFast:
    made = tokenizer(template, SPECIAL + WORDS)
    made.model_max_length = 61
    return made


BERT_LIKE = dict(
    vocab_size=VOCABULARY,
    hidden_size=HEADS * D_HEAD,
    num_hidden_layers=LAYERS,
    num_attention_heads=HEADS,
    intermediate_size=37,
    max_position_embeddings=67,
    pad_token_id=0,
)
ENDS = dict(bos_token_id=2, eos_token_id=3)
GPT_LIKE = dict(vocab_size=VOCABULARY, pad_token_id=0, **ENDS)
WITH_ENDS = BERT_LIKE | ENDS
LLAMA_LIKE = WITH_ENDS | dict(
    num_attention_heads=6, num_key_value_heads=3, hidden_size=6 * D_HEAD, head_dim=D_HEAD
)
# Sizes have the same names in all configs: transformers keeps each under the family's own.
SINGLE = {
    "bert": tf.BertConfig(**BERT_LIKE),
    "roberta": tf.RobertaConfig(**WITH_ENDS),
    "distilbert": tf.DistilBertConfig(**BERT_LIKE, hidden_dim=37),
    "albert": tf.AlbertConfig(**BERT_LIKE, embedding_size=11),
    "electra": tf.ElectraConfig(**BERT_LIKE, embedding_size=11),
    "mpnet": tf.MPNetConfig(**BERT_LIKE | dict(pad_token_id=1)),
    "deberta-v2": tf.DebertaV2Config(
        **BERT_LIKE, relative_attention=True, pos_att_type="p2c|c2p", max_relative_positions=17
    ),
    "modernbert": tf.ModernBertConfig(
        **WITH_ENDS, cls_token_id=2, sep_token_id=3, local_attention=6, global_attn_every_n_layers=2
    ),
    "gpt2": tf.GPT2Config(**WITH_ENDS),
    "gpt2-scaled": tf.GPT2Config(**WITH_ENDS, scale_attn_by_inverse_layer_idx=True),
    "gpt_neo": tf.GPTNeoConfig(
        **WITH_ENDS | dict(num_hidden_layers=4, intermediate_size=None),
        window_size=5,
        attention_types=[[["global", "local"], 2]],
    ),
    "opt": tf.OPTConfig(**WITH_ENDS, word_embed_proj_dim=HEADS * D_HEAD, ffn_dim=37),
    "gpt_neox": tf.GPTNeoXConfig(**WITH_ENDS, rotary_pct=1.0),
    "llama": tf.LlamaConfig(**LLAMA_LIKE),
    "mistral": tf.MistralConfig(**LLAMA_LIKE, sliding_window=5),
    "qwen3": tf.Qwen3Config(**LLAMA_LIKE),
    "gemma": tf.GemmaConfig(**LLAMA_LIKE),
    "gemma2": tf.Gemma2Config(**LLAMA_LIKE, sliding_window=5, query_pre_attn_scalar=19),
    "gpt_oss": tf.GptOssConfig(  # its experts' matrices need widths that are multiples of 4
        **LLAMA_LIKE | dict(intermediate_size=40),
        sliding_window=5,
        num_local_experts=2,
        num_experts_per_tok=1,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    ),
}
FALLBACK = {"mpnet", "deberta-v2", "gpt_neo"}
CAUSAL = {*SINGLE} - {"bert", "roberta", "distilbert", "albert", "electra", "mpnet"}
CAUSAL -= {"deberta-v2", "modernbert"}
PAIRED = {
    "t5": tf.T5Config(
        **BERT_LIKE | dict(hidden_size=23, max_position_embeddings=None),
        d_kv=D_HEAD,
        d_ff=37,
        num_decoder_layers=2,
        decoder_start_token_id=0,
    ),
    "bart": tf.BartConfig(
        **WITH_ENDS,
        encoder_layers=LAYERS,
        decoder_layers=2,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=37,
        decoder_ffn_dim=41,
        decoder_start_token_id=3,
    ),
}

# One of each kind: both ways, layers that share weights, windows, weights of its own, position
# embeddings, shared keys, a soft cap, sinks, two stacks.
KINDS = ("bert", "albert", "modernbert", "deberta-v2", "gpt2", "llama", "gemma2", "gpt_oss", "t5")


def families(names: Iterable[str]) -> list[Any]:
    """Return names as parameters of a test; `make test` takes one family of each kind."""
    extended = pytest.mark.extended
    return [name if name in KINDS else pytest.param(name, marks=extended) for name in names]


def build(config: tf.PreTrainedConfig, name: str) -> AttentionModel:
    torch.manual_seed(0)
    try:
        network = tf.AutoModel.from_config(config, attn_implementation=IMPLEMENTATION)
    except (ValueError, KeyError):
        network = tf.AutoModel.from_config(config, attn_implementation="eager")
    for parameter in network.parameters():  # far from zero, so that patterns are far from uniform
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.12)
    tokenizer = small_tokenizer(template=name not in CAUSAL and name not in PAIRED)
    return AttentionModel(network.eval(), tokenizer, name=name)


def eager(model: AttentionModel) -> tf.PreTrainedModel:
    """A second copy of the model's network, with eager attention of its own."""
    network = type(model.network)(copy.deepcopy(model.network.config))
    network.set_attn_implementation("eager")
    network.load_state_dict(model.network.state_dict())
    return network.eval()


@pytest.fixture(scope="module", params=families(SINGLE))
def single(request) -> AttentionModel:
    return build(SINGLE[request.param], request.param)


def test_the_backend_is_ours_wherever_the_family_has_an_interface(single):
    assert single.backend == ("eager" if single.name in FALLBACK else "mha_viz"), single.notes
    assert bool(single.notes) == (single.name in FALLBACK)
    assert single.causal == (single.name in CAUSAL)


def test_pattern_is_the_familys_own_on_a_single_text(single):
    record = single.trace(LONG, keep=("pattern",))
    ids = torch.tensor([single.tokenizer(LONG)["input_ids"]])
    with torch.no_grad():
        run = eager(single)(input_ids=ids, output_attentions=True)
    own = torch.stack(run.attentions)[:, 0]
    close(record.pattern, own)
    with torch.no_grad():
        hidden = single.network(input_ids=ids).last_hidden_state
    largest = max(1.0, float(run.last_hidden_state.abs().max()))
    close(hidden, run.last_hidden_state, atol=ROUNDING * largest)
    assert own.std() > 0.01  # uniform attention would agree with anything


def test_a_text_in_a_batch_gives_what_it_gives_alone(single):
    assert single.pad_limit == float("inf")  # a batch that is padded, and not each text by itself
    alone = single.trace(SHORT, keep=("pattern",))
    together = single.trace_batch([LONG, SHORT], keep=("pattern",))[1]
    assert alone.labels == together.labels
    close(alone.pattern, together.pattern)


def test_what_is_kept_fits_the_pattern(single):
    record = single.trace(LONG, keep=("pattern", "z", "query", "key"))
    if single.name in FALLBACK:  # its own attention hands out the pattern and nothing else
        for name in ("z", "query", "key"):
            with pytest.raises(NotKeptError, match=name):
                record.require(name)
        return
    n = len(record.tokens)
    heads, width = record.n_heads, single.d_head
    assert record.z.shape[:3] == (single.n_layers, heads, n)
    assert record.query.shape == (single.n_layers, heads, n, width)
    assert record.key.shape == (single.n_layers, single.n_kv_heads, n, width)
    if single.name in ("gemma2", "gpt_oss"):
        return  # a softcap or a sink, which the products alone do not show
    scale = torch.tensor(record.scale)[:, None, None, None]
    layers = range(single.n_layers)
    key = torch.stack([record.for_query_heads("key", layer) for layer in layers])
    scores = scale * record.query @ key.transpose(-1, -2)
    scores = scores.masked_fill(record.pattern == 0, -torch.inf)
    close(scores.softmax(-1), record.pattern)


@pytest.fixture(scope="module", params=families(PAIRED))
def paired(request) -> AttentionModel:
    return build(PAIRED[request.param], request.param)


def test_encoder_decoder_gives_three_records(paired):
    assert paired.backend == "mha_viz", paired.notes
    records = paired.trace_parts(LONG, SHORT)
    assert list(records) == ["encoder", "decoder", "cross"]
    for part, theirs in own_weights(eager(paired), records).items():
        close(records[part].pattern, theirs)
        assert records[part].part == part
    cross, start = records["cross"], paired.network.config.decoder_start_token_id
    target = paired.tokenizer(SHORT, add_special_tokens=False)["input_ids"]
    assert [token.id for token in cross.tokens] == [start, *target]
    assert [token.id for token in cross.key_tokens] == paired.tokenizer(LONG)["input_ids"]
    assert records["decoder"].causal and not records["encoder"].causal
    assert paired.trace(LONG, SHORT, part="cross") == cross


def test_encoder_decoder_without_a_target_shows_its_start_token(paired):
    record = paired.trace(LONG, part="cross")
    assert len(record.tokens) == 1 and record.tokens[0].is_special


HEADED = {
    "albert": tf.AlbertForMaskedLM,
    "gpt_neo": tf.GPTNeoForCausalLM,
    "llama": tf.LlamaForCausalLM,
    "t5": tf.T5ForConditionalGeneration,
}


@pytest.mark.parametrize("name", HEADED)
def test_a_checkpoint_with_its_language_model_head_loads(name, tmp_path):
    config = copy.deepcopy((SINGLE | PAIRED)[name])
    HEADED[name](config).save_pretrained(tmp_path)
    small_tokenizer(template=name not in CAUSAL and name not in PAIRED).save_pretrained(tmp_path)
    model = mv.load(str(tmp_path))
    assert model.family == config.model_type
    assert model.backend == ("eager" if name in FALLBACK else "mha_viz")
    records = model.trace_parts(SHORT, LONG if name in PAIRED else None, keep=("pattern",))
    for record in records.values():
        close(record.pattern.sum(-1), 1.0)
