"""A study of sentences with trees whose words are markup, by a small random network."""

import random
from pathlib import Path
from typing import Any

import transformers as tf
from tokenizers import pre_tokenizers

import mha_viz as mv
from tests.making.checkpoints import WORDS, spread, tokenizer
from tests.making.trees import conllu

N_LAYERS, N_HEADS, N_TEXTS = 2, 3, 31
HOSTILE = ("<img/src=x/onerror=boo>", "</script><b>", "{{7*7}}")
_TREES = (
    "{}/DET/2/det {}/NOUN/3/nsubj {}/VERB/0/root",
    "{}/VERB/0/root {}/DET/3/det {}/NOUN/1/obj {}/ADV/1/advmod",
)


def hostile_model() -> Any:
    """A network whose vocabulary has words that are markup."""
    words = [*WORDS, *HOSTILE]
    reader = tokenizer(True, words)
    reader.backend_tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    config = tf.BertConfig(
        vocab_size=len(words), hidden_size=N_HEADS * 7, num_hidden_layers=N_LAYERS,
        num_attention_heads=N_HEADS, intermediate_size=37, max_position_embeddings=31,
    )  # fmt: skip
    return mv.wrap(spread(tf.BertForMaskedLM(config)), reader)


def hostile_study(model: Any, folder: Path) -> mv.Study:
    """A study of such sentences in a folder."""
    drawn = random.Random(5)
    blocks: dict[str, None] = {}
    while len(blocks) < N_TEXTS:
        tree = _TREES[len(blocks) % 2]
        names = [f"word{i}" for i in range(tree.count("{}"))]
        block = conllu(tree.format(*names), "newdoc")
        for name in names:
            block = block.replace(name, drawn.choice([*WORDS[5:], *HOSTILE]))
        blocks[block] = None
    (folder / "trees.conllu").write_text("".join(blocks))
    return mv.study(model, folder / "trees.conllu", folder / "study")
