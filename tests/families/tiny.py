"""Tiny random networks of every text family that transformers knows, found by its mappings."""

import re
from dataclasses import fields, is_dataclass
from typing import Any

import torch
import transformers as tf
from transformers.models.auto import modeling_auto as auto

from tests.making.checkpoints import tokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [a + b for a in "bdfklmnprst" for b in ("a", "e", "i", "o", "u", "an")]
# Some families read whatever tokenizer.json there is by bytes: those find a word's letters.
VOCABULARY = SPECIAL + WORDS + list("abdefiklmnoprstuĠ")
D_VOCAB = len(VOCABULARY) + 14  # no text has one of the last, which may stand for pictures
N_CTX = 128
MAX_PARAMETERS = 20_000_000

# The first loader whose mapping has the family; checkpoints are stored with their heads.
LOADERS = (
    (tf.AutoModelForMaskedLM, auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES),
    (tf.AutoModelForSeq2SeqLM, auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES),
    (tf.AutoModelForCausalLM, auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES),
    (tf.AutoModel, auto.MODEL_MAPPING_NAMES),
)
_TEXT = (
    auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    auto.MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES,
    auto.MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES,
)
# A parameter's name -> its value; the first pattern that fits the whole name counts.
_SIZES = tuple(
    (re.compile(pattern), value)
    for pattern, value in (
        (r"(.*_)?type_vocab_size", None),
        (
            r"vocab(ulary)?_size|vocab_size_per_layer_input|(src|tgt|text|entity)_vocab_size|.*_vocab",
            D_VOCAB,
        ),
        (r"pad_token_id|pad_index", 0),
        (r"bos_token_id|cls_token_id|decoder_start_token_id|bos_index", 2),
        (r"eos_token_id|sep_token_id|eos_index", 3),
        (r".*_token_(id|index)", D_VOCAB - 1),
        (r"(.*_)?(num_)?(key_value|kv)_heads|n_head_kv|multi_query_group_num", 2),
        (r"(.*_)?(attention|attn|query|num|n|encoder|decoder|index|mamba)_heads?|n_head", 4),
        (r"(qk_rope|qk_nope|.*_rope|rope|rotary|partial_rotary)_(head_)?dim", 8),
        (r"(.*_)?head_dim|d_kv|d_head|.*_head_size|head_size|kv_channels", 24),
        (r"(.*_)?lora_rank|coordinate_size|shape_size", 16),
        (r"attn_layer_period|full_attention_interval", 2),
        (r"attn_layer_offset", 1),
        (r"(num_|n_)?(hidden_|encoder_|decoder_|text_)?layers?|n_layer|encoder_layers|depth", 4),
        (r"first_k_dense_replace|num_dense_layers|n_group|topk_group|n_shared_experts", 1),
        (r"(n_routed|num_local|num|n|moe_num)_experts", 4),
        (r"(num_experts_per_tok|moe_k|num_selected_experts|moe_topk|top_k_experts)", 2),
        (r"(d_model|n_embd|dim|emb_dim|embedding_size|word_embed_proj_dim|d_embed)", 96),
        (r"(.*_)?(hidden|embedding|embed|out)_(size|dim)", 96),
        (r"(.*_)?(intermediate_size|ffn_dim|d_ff|ffn_hidden_size|dff)|n_inner|d_inner", 64),
        (r"(.*_)?(max_position_embeddings|n_positions|n_ctx|max_(seq|sequence)_len(gth)?)", N_CTX),
        (r"max_(source|target)_positions|seq_length|seq_len", N_CTX),
        (r"(sliding_|attention_|local_attention_)?window(_size)?|local_attention", 8),
    )
)
# Also where a config's default is None.
_NEEDED = re.compile("_token_id$|vocab|expert|head_dim$|key_value_heads$")

_KINDS = ["full_attention", "sliding_attention"] * 2
_ROPE = {"rope_type": "default", "rope_theta": 10000.0}
_MORE: dict[str, dict[str, Any]] = {  # what is no size: the kinds of four layers
    "bamba": {"attn_layer_indices": [1, 3]},
    "cohere_compass_text": {
        "layer_types": _KINDS,
        "rope_parameters": {"full_attention": _ROPE, "sliding_attention": _ROPE},
    },
    "gpt_neo": {"attention_types": [[["global", "local"], 2]]},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"] * 2},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 2},
    "xmod": {"default_language": "en_XX"},
    "reformer": {"axial_pos_embds": False, "attn_layers": ["local", "lsh"] * 2},
}


def text_families() -> list[str]:
    """Return the names of the families that transformers maps to a class for texts."""
    return sorted(set().union(*_TEXT) & set(tf.CONFIG_MAPPING.keys()))


def tiny_tokenizer() -> tf.PreTrainedTokenizerFast:
    """Return a tokenizer of one token a word that adds none of its own."""
    made = tokenizer(pairs=False, words=VOCABULARY)
    made.model_max_length = N_CTX
    return made


def sizes(config: type[tf.PreTrainedConfig]) -> dict[str, Any]:
    """Return small values for the parameters of a config class, and of the configs in it."""
    values: dict[str, Any] = {}
    for name, default in _defaults(config).items():
        if isinstance(default, bool) or not isinstance(default, int | None):
            continue
        value = next((size for pattern, size in _SIZES if pattern.fullmatch(name)), None)
        if value is not None and (default is not None or _NEEDED.search(name)):
            values[name] = value
    if "kv_lora_rank" in values and "num_key_value_heads" in values:
        values["num_key_value_heads"] = values["num_attention_heads"]  # latents are of all heads
    parts = getattr(config, "sub_configs_defaults", {}) | config.sub_configs
    for name, part in parts.items():
        if part is tf.AutoConfig:  # of any family: the one that it has if not told
            part = type(getattr(config(), name, None))
        if isinstance(part, type) and issubclass(part, tf.PreTrainedConfig):
            values[name] = part(**sizes(part))
    return values


def _defaults(config: type[tf.PreTrainedConfig]) -> dict[str, Any]:
    if is_dataclass(config):
        return {field.name: field.default for field in fields(config)}
    return dict(config().to_dict())


def tiny_config(family: str) -> tf.PreTrainedConfig:
    """Return the config of a small network of a family."""
    config = tf.CONFIG_MAPPING[family]
    small = sizes(config) | _MORE.get(family, {})
    try:
        made = config(**small)
    except Exception:  # it names a kind for each of the layers that it has if not told
        made = config(**{key: size for key, size in small.items() if "layers" not in key})
    for part in (made, made.get_text_config()):
        part.use_cache = False
    return made


def build(config: tf.PreTrainedConfig) -> tf.PreTrainedModel:
    """Build a network with its head and attention of its own, its weights far from zero."""
    loader = next(auto for auto, names in LOADERS if config.model_type in names)
    with torch.device("meta"):
        n = sum(weight.numel() for weight in _from_config(loader, config).parameters())
    if n > MAX_PARAMETERS:
        raise ValueError(f"its config still has {n:,} parameters with small sizes")
    torch.manual_seed(0)
    network = _from_config(loader, config)
    for parameter in network.parameters():  # so that patterns are far from uniform; no sinusoids
        if parameter.ndim > 1 and parameter.requires_grad:
            torch.nn.init.normal_(parameter, std=0.12)
    return network.float().eval()


def _from_config(loader: Any, config: tf.PreTrainedConfig) -> tf.PreTrainedModel:
    try:
        return loader.from_config(config, attn_implementation="eager")
    except ValueError as error:
        if "attn_implementation" not in str(error) and "eager" not in str(error):
            raise
        return loader.from_config(config)
