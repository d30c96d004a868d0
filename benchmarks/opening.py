"""The time in which a folder is opened, beside what transformers takes to load it."""

from __future__ import annotations

import copy
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import transformers as tf

import mha_viz as mv
from benchmarks.measure import Result, at_most, interleaved, ratio, spread
from mha_viz.checkpoints.catalog import find_model

AIM = 1.5
SIZES = {"vocab_size": 1500, "num_hidden_layers": 12, "num_attention_heads": 12}
WIDTH = {"hidden_size": 96, "intermediate_size": 384, "max_position_embeddings": 128}
NETWORKS = {
    "BERT": ("tiny-bert", tf.AutoModelForMaskedLM, tf.BertConfig(**SIZES, **WIDTH)),
    "GPT-2": (
        "tiny-gpt2",
        tf.AutoModelForCausalLM,
        tf.GPT2Config(
            vocab_size=1500,
            n_layer=12,
            n_head=12,
            n_embd=96,
            n_positions=128,
            bos_token_id=0,
            eos_token_id=0,
        ),
    ),
    "Llama": (
        "tiny-llama",
        tf.AutoModelForCausalLM,
        tf.LlamaConfig(**SIZES, **WIDTH, num_key_value_heads=4),
    ),
}
TITLE = "Opening a folder"
ABOUT = """`mv.load` of a folder of 6 MB, 12 layers of 12 heads (random weights), beside
`AutoModelFor... .from_pretrained` and `AutoTokenizer.from_pretrained` of the same folder, in turns
in one process that has loaded it before. `mv.load` does both, checks the files and the tokenizer,
looks for NaN, runs a short text with its own attention and with the family's, and again in a padded
batch."""


def measure(repeats: int = 20) -> list[Result]:
    tf.logging.set_verbosity_error()
    tf.utils.logging.disable_progress_bar()
    with TemporaryDirectory() as folder:
        return [_measured(name, Path(folder) / name, repeats) for name in NETWORKS]


def _measured(name: str, folder: Path, repeats: int) -> Result:
    shipped, loader, config = NETWORKS[name]
    loader.from_config(copy.deepcopy(config)).save_pretrained(folder)
    tf.AutoTokenizer.from_pretrained(find_model(shipped).path).save_pretrained(folder)
    ways = {
        "ours": partial(mv.load, str(folder), device="cpu"),
        "theirs": partial(_from_pretrained, loader, folder),
    }
    seconds = interleaved(ways, repeats, warm_up=2)
    times = ratio(seconds["ours"], seconds["theirs"])
    return Result(
        f"{name}, {sum(file.stat().st_size for file in folder.iterdir()) / 1e6:.1f} MB",
        spread(seconds["ours"], 1e3, " ms"),
        f"from_pretrained {spread(seconds['theirs'], 1e3, ' ms')}",
        f"{times:.2f} (fastest of each: {min(seconds['ours']) / min(seconds['theirs']):.2f})",
        f"at most {AIM}",
        at_most(times, AIM),
    )


def _from_pretrained(loader: Any, folder: Path) -> tuple[Any, Any]:
    return loader.from_pretrained(folder), tf.AutoTokenizer.from_pretrained(folder)
