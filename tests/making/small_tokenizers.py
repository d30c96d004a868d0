"""Small tokenizers of every kind, trained here on a few sentences, and the shipped ones."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import (
    AddedToken,
    Tokenizer,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import (
    AutoTokenizer,
    BertTokenizer,
    ByT5Tokenizer,
    CanineTokenizer,
    LlamaTokenizer,
    PreTrainedTokenizerFast,
    T5Tokenizer,
)

SHIPPED = Path(__file__).parents[2] / "models"
SENTENCES = [
    "the cat",
    "The cat sat on the mat. The dog did not see the cat!",
    "Don't walk on the mat, said the cat.",
    "one two three, and the walking dogs were sleeping",
] * 5
UNIGRAM = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0)]


def _special(left: str, right: str, ids: tuple[int, int]) -> Any:
    return processors.TemplateProcessing(
        single=f"{left} $A {right}",
        pair=f"{left} $A {right} $B:1 {right}:1",
        special_tokens=list(zip((left, right), ids, strict=True)),
    )


def wordpiece() -> Any:
    model = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    model.normalizer = normalizers.BertNormalizer(lowercase=True)
    model.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=1000, special_tokens=names, show_progress=False)
    model.train_from_iterator(SENTENCES, trainer)
    model.post_processor = _special("[CLS]", "[SEP]", (2, 3))
    keys = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    return PreTrainedTokenizerFast(tokenizer_object=model, **dict(zip(keys, names, strict=True)))


def _byte_level(names: list[Any]) -> Tokenizer:
    model = Tokenizer(models.BPE())
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=1000,
        special_tokens=names,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    model.train_from_iterator(SENTENCES, trainer)
    return model


def gpt2_like() -> Any:
    model = _byte_level(["<|endoftext|>"])
    model.post_processor = processors.ByteLevel(trim_offsets=False)
    name = "<|endoftext|>"
    return PreTrainedTokenizerFast(
        tokenizer_object=model, bos_token=name, eos_token=name, unk_token=name
    )


def roberta_like() -> Any:
    mask = AddedToken("<mask>", lstrip=True, special=True)
    model = _byte_level(["<s>", "</s>", "<unk>", "<pad>", mask])
    model.post_processor = processors.RobertaProcessing(
        ("</s>", 1), ("<s>", 0), trim_offsets=True, add_prefix_space=False
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=model,
        cls_token="<s>",
        sep_token="</s>",
        unk_token="<unk>",
        pad_token="<pad>",
        mask_token="<mask>",
    )


def llama_like() -> Any:
    model = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    model.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    names = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256))]
    trainer = trainers.BpeTrainer(
        vocab_size=1000, special_tokens=names, initial_alphabet=["▁"], show_progress=False
    )
    model.train_from_iterator(SENTENCES, trainer)
    model.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=model, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def t5_like() -> Any:
    letters = [(c, -5.0) for c in "abcdefghiklmnoprstuwyTD.,'!"]
    whole = [(w, -3.0) for w in ("▁the", "▁The", "▁cat", "at", "on", "▁s", "ing")]
    model = Tokenizer(models.Unigram([*UNIGRAM, *letters, *whole], unk_id=2))
    model.normalizer = normalizers.NFKC()
    model.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]
    )
    model.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=model, eos_token="</s>", unk_token="<unk>", pad_token="<pad>"
    )


def bert_class() -> Any:
    return BertTokenizer(vocab=make("wordpiece").get_vocab())


def llama_class() -> Any:
    model = json.loads(make("llama_like").backend_tokenizer.to_str())["model"]
    return LlamaTokenizer(vocab=model["vocab"], merges=[tuple(pair) for pair in model["merges"]])


def t5_class() -> Any:
    letters = [(c, -3.0) for c in "abcdefghiklmnoprstuwy.,'"]
    return T5Tokenizer(vocab=[*UNIGRAM, ("▁the", -2.0), *letters])


def tiny_bert() -> Any:
    return AutoTokenizer.from_pretrained(SHIPPED / "tiny-bert")


def tiny_gpt2() -> Any:
    return AutoTokenizer.from_pretrained(SHIPPED / "tiny-gpt2")


FAST: dict[str, Callable[[], Any]] = {
    build.__name__: build
    for build in (
        wordpiece,
        gpt2_like,
        roberta_like,
        llama_like,
        t5_like,
        bert_class,
        llama_class,
        t5_class,
        tiny_bert,
        tiny_gpt2,
    )
}
SLOW: dict[str, Callable[[], Any]] = {"byt5": ByT5Tokenizer, "canine": CanineTokenizer}
BUILD = FAST | SLOW
PAIRS = ["wordpiece", "roberta_like", "llama_like", "t5_like", "bert_class", "t5_class", "byt5"]


@cache
def make(name: str) -> Any:
    return BUILD[name]()
