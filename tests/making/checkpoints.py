"""Tiny random checkpoints on disk, and a watch on what loading them may cost."""

import contextlib
import json
import resource
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import transformers as tf
from tokenizers import Tokenizer, models, pre_tokenizers, processors

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"the cat sat on a mat and ran".split()]
LAYERS, HEADS, D_HEAD, N_CTX = 3, 5, 7, 31
TEXT, OTHER = "the cat sat on a mat", "a mat sat on the cat and ran"


def tokenizer(pairs: bool, words: list[str] = WORDS) -> tf.PreTrainedTokenizerFast:
    fast = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    fast.pre_tokenizer = pre_tokenizers.Whitespace()
    if pairs:
        fast.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
        )
    return tf.PreTrainedTokenizerFast(
        tokenizer_object=fast,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )


def bert() -> tf.PreTrainedModel:
    config = tf.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=HEADS * D_HEAD,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=37,
        max_position_embeddings=N_CTX,
    )
    return spread(tf.BertForMaskedLM(config))


def gpt2() -> tf.PreTrainedModel:
    config = tf.GPT2Config(
        vocab_size=len(WORDS),
        n_embd=HEADS * D_HEAD,
        n_layer=LAYERS,
        n_head=HEADS,
        n_positions=N_CTX,
        bos_token_id=2,
        eos_token_id=3,
    )
    return spread(tf.GPT2LMHeadModel(config))


def spread(network: tf.PreTrainedModel) -> tf.PreTrainedModel:
    """Weights far from zero, biases too, so that patterns are far from uniform."""
    generator = torch.Generator().manual_seed(0)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.2, generator=generator)
    return network.eval()


def save(network: tf.PreTrainedModel, folder: Path, pairs: bool = True, **options: Any) -> Path:
    network.save_pretrained(folder, **options)
    tokenizer(pairs).save_pretrained(folder)
    return folder


def copy(folder: Path, to: Path, drop: str = "", **config: Any) -> Path:
    """The checkpoint again, less the files that match `drop`, with other values in its config."""
    shutil.copytree(folder, to)
    for file in to.glob(drop) if drop else ():
        file.unlink()
    path = to / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | config))
    return to


SLOWEST = 20


@contextlib.contextmanager
def bounded(
    seconds: float, megabytes: int = 300, clock: Callable[[], float] = time.process_time
) -> Iterator[None]:
    """Fails where the block takes far more work, or lifts the process's peak memory by more.

    Args:
        seconds: what the block must keep to on a machine of our days. A busy machine, or one of
            another kind, may take SLOWEST times as long; what is not bounded takes longer still.
        clock: the processor's time, or where waiting is what is bounded time.perf_counter.
    """
    peak, start = _peak(), clock()
    yield
    took, grew = clock() - start, _peak() - peak
    assert took < SLOWEST * seconds, f"took {took:.1f} s"
    assert grew < megabytes, f"took {grew:.0f} MB more"


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
