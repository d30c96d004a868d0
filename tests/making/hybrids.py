"""Tiny random networks that have layers without attention."""

import transformers as tf

import mha_viz as mv
from tests.families.tiny import build, sizes, tiny_tokenizer


def jamba(name: str = "jamba") -> mv.AttentionModel:
    """Return a Jamba of eight layers, of which 3 and 7 have attention, with four heads each."""
    places = {"num_hidden_layers": 8, "attn_layer_period": 4, "attn_layer_offset": 3}
    config = tf.JambaConfig(**sizes(tf.JambaConfig) | places)
    kinds = config.layers_block_type  # the config's own account of them
    assert [i for i, kind in enumerate(kinds) if "mamba" not in kind] == [3, 7]
    return mv.wrap(build(config), tiny_tokenizer(), name)
