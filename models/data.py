"""From a folder of text to batches: held-out split, tokenizers, token cache, sequences."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import GPT2TokenizerFast, PreTrainedTokenizerFast

from mha_viz.core.output_file import write_file

VOCAB, CONTEXT = 4096, 128
WIKIPEDIA = "enwiki"  # a file name that begins so holds articles; every other file is prose
HELD_OUT_BOOKS = ("e-nesbit_the-railway-children", "h-g-wells_the-war-of-the-worlds")
HELD_OUT_EVERY = 100  # of the articles
LLAMA_TOKENIZER = Path(__file__).parent / "tiny-gpt2" / "tokenizer.json"  # token ids agree
SPECIAL = {
    "gpt2": ["<|endoftext|>"],
    "llama": ["<|endoftext|>"],
    "bert": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
}
SENTENCE_END = re.compile("[.!?][\"'\u201d\u2019)\\]]*\\s+(?=[\"'\u201c\u2018(]*[A-Z])")

Ints = NDArray[np.int64]
Tokens = NDArray[np.uint16]


@dataclass(frozen=True)
class Corpus:
    """Token ids of many documents in one row, and where their sentences begin."""

    tokens: Tokens
    starts: Ints  # of each sentence, and the end of the last
    document: NDArray[np.int32]  # of each sentence


# --- reading


def documents(folder: Path, source: str, held_out: bool) -> Iterator[str]:
    """Yield the documents of "prose" or "wikipedia", one paragraph a line."""
    for path in sorted(folder.glob("*.txt")):
        if path.name.startswith(WIKIPEDIA) != (source == "wikipedia"):
            continue
        text = path.read_text(encoding="utf-8")
        if source == "wikipedia":
            for number, article in enumerate(text.split("\n\n")):
                if (number % HELD_OUT_EVERY == 0) == held_out:
                    yield article
        elif any(book in path.name for book in HELD_OUT_BOOKS) == held_out:
            if path.name.startswith("gut_"):  # lines are wrapped, paragraphs end in a blank line
                text = "\n".join(" ".join(p.split()) for p in text.split("\n\n")[1:])
                yield text
            else:
                yield from text.split("\n\n")


def sentences(paragraph: str) -> list[str]:
    """Cut a paragraph after full stops; the space stays at the head of what follows it."""
    cuts = [m.end() - 1 for m in SENTENCE_END.finditer(paragraph)]
    return [paragraph[i:j] for i, j in zip([0, *cuts], [*cuts, len(paragraph)], strict=True)]


# --- tokenizers


def train_tokenizer(kind: str, texts: Iterator[str], vocab: int = VOCAB) -> Tokenizer:
    """Train byte-level BPE ("gpt2") or lower-cased WordPiece ("bert")."""
    if kind == "gpt2":
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer: trainers.Trainer = trainers.BpeTrainer(
            vocab_size=vocab,
            special_tokens=SPECIAL[kind],
            initial_alphabet=alphabet,
            show_progress=False,
        )
    else:
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.Sequence(
            [  # typographic marks are rare in the text to learn from, not in what people paste
                normalizers.Replace(Regex("[\u201c\u201d\u201e«»]"), '"'),
                normalizers.Replace(Regex("[\u2018\u2019]"), "'"),
                normalizers.Replace("…", "..."),
                normalizers.BertNormalizer(lowercase=True),
            ]
        )
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = decoders.WordPiece()
        trainer = trainers.WordPieceTrainer(
            vocab_size=vocab,
            special_tokens=SPECIAL[kind],
            limit_alphabet=120,
            show_progress=False,
        )
    tokenizer.train_from_iterator(texts, trainer)
    if kind == "bert":
        cls, sep = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS]:0 $A:0 [SEP]:0",
            pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
            special_tokens=[("[CLS]", cls), ("[SEP]", sep)],
        )
    return tokenizer


def as_transformers(
    kind: str, tokenizer: Tokenizer, context: int = CONTEXT
) -> PreTrainedTokenizerFast:
    """Wrap a trained tokenizer for `AutoTokenizer`."""
    if kind != "bert":
        return GPT2TokenizerFast(tokenizer_object=tokenizer, model_max_length=context)
    # BertTokenizerFast would build its own normalizer and lose ours
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=context,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        **{f"{s.strip('[]').lower()}_token": s for s in SPECIAL["bert"]},
    )


# --- the token cache


def encode(kind: str, tokenizer: Tokenizer, texts: Iterator[str]) -> Corpus:
    """Tokenise documents, sentence by sentence."""
    pieces: list[str] = []
    document: list[int] = []
    for number, text in enumerate(texts):
        before = len(pieces)
        for paragraph in filter(None, (line.strip() for line in text.split("\n"))):
            pieces += sentences(paragraph)
            if kind != "bert":
                pieces[-1] += "\n"
        if kind != "bert" and len(pieces) > before:
            pieces[-1] += SPECIAL[kind][0]
        document += [number] * (len(pieces) - before)
    tokens: list[Tokens] = []
    lengths: list[int] = []
    for i in range(0, len(pieces), 10_000):  # encodings are far larger than the ids in them
        encodings = tokenizer.encode_batch_fast(pieces[i : i + 10_000], add_special_tokens=False)
        ids = [e.ids for e in encodings]
        lengths += map(len, ids)
        tokens.append(np.fromiter((t for row in ids for t in row), dtype=np.uint16))
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Corpus(np.concatenate(tokens), starts, np.array(document, dtype=np.int32))


def prepare(kind: str, folder: Path, cache: Path) -> None:
    """Write the tokenizer and the tokens of every split, unless they are there."""
    cache.mkdir(parents=True, exist_ok=True)
    path = cache / f"{kind}-tokenizer.json"
    if kind == "llama":
        write_file(path, LLAMA_TOKENIZER.read_bytes())
    elif not path.exists():
        texts = (t for s in ("prose", "wikipedia") for t in documents(folder, s, held_out=False))
        write_file(path, train_tokenizer(kind, texts).to_str(pretty=True).encode())
    tokenizer = Tokenizer.from_file(str(path))
    for source in ("prose", "wikipedia"):
        for split in ("train", "held_out"):
            target = cache / f"{kind}-{source}-{split}.npz"
            if not target.exists():
                corpus = encode(kind, tokenizer, documents(folder, source, split == "held_out"))
                part = target.with_suffix(".part.npz")
                np.savez(part, **vars(corpus))
                part.replace(target)


def load(kind: str, cache: Path, split: str) -> list[Corpus]:
    """Read prose and Wikipedia of one split from the cache."""
    files = (np.load(cache / f"{kind}-{s}-{split}.npz") for s in ("prose", "wikipedia"))
    return [Corpus(f["tokens"], f["starts"], f["document"]) for f in files]


# --- sequences


def repeated_random(rng: Generator, length: int, vocab: int, first_id: int = 1) -> Ints:
    """Uniformly random tokens, 6 to length/2 long, repeated until the length is full."""
    period = int(rng.integers(6, length // 2 + 1))
    return np.resize(rng.integers(first_id, vocab, period), length)


def bare_ids(tokenizer: Tokenizer) -> Ints:
    """For each id, the id of the same piece without its leading space (itself if none)."""
    vocab = tokenizer.get_vocab()
    bare = np.arange(len(vocab))
    for piece, number in vocab.items():
        bare[number] = vocab.get(piece.removeprefix("Ġ"), number) if len(piece) > 1 else number
    return bare


def causal_batch(
    corpora: list[Corpus], rng: Generator, rows: int, length: int, bare: Ints, repeats: float = 0.15
) -> Ints:
    """Rows of text, half of them from a sentence's beginning, some of repeated random tokens."""
    batch = np.empty((rows, length), dtype=np.int64)
    for row in batch:
        corpus = corpora[rng.integers(len(corpora))]
        last = len(corpus.tokens) - length
        if rng.random() < repeats:
            row[:] = repeated_random(rng, length, len(bare))
        elif rng.random() < 0.5:
            start = min(int(corpus.starts[rng.integers(len(corpus.document))]), last)
            row[:] = corpus.tokens[start : start + length]
            row[0] = bare[row[0]]  # as it is when somebody types the sentence
        else:
            start = int(rng.integers(last))
            row[:] = corpus.tokens[start : start + length]
    return batch


def segments(corpus: Corpus, rng: Generator, length: int) -> tuple[Tokens, Tokens]:
    """Text for one masked sequence: 30 % pairs A, B; 20 % one sentence; else a full stretch."""
    number = int(rng.integers(len(corpus.document)))
    starts, tokens, draw = corpus.starts, corpus.tokens, rng.random()
    start, nothing = int(starts[number]), tokens[:0]
    if draw < 0.3:
        room = length - 3
        aim = start + int(room * rng.uniform(0.2, 0.75))
        cut = max(number + 1, int(np.searchsorted(starts, aim, "right")) - 1)
        if cut < len(corpus.document) and corpus.document[cut] == corpus.document[number]:
            first = tokens[start : starts[cut]][: int(room * 0.75)]
            stop = starts[cut + 1] if rng.random() < 0.5 else None  # one sentence, or as it comes
            return first, tokens[starts[cut] : stop][: room - len(first)]
    if draw < 0.5:
        return tokens[start : starts[number + 1]][: length - 2], nothing
    if draw > 0.9:
        start = int(rng.integers(len(tokens) - length))
    return tokens[start : start + length - 2], nothing


def hide(
    ids: Ints, rng: Generator, vocab: int, share: float = 0.15, plain: bool = False
) -> dict[str, Ints]:
    """Choose a share of the tokens, and hide them from a model that is to predict them.

    Of these 80 % become [MASK], 10 % a random token, 10 % stay (Devlin et al. 2019); with
    `plain` all become [MASK].
    """
    pad, mask = 0, 4
    chosen = (ids > mask) & (rng.random(ids.shape) < share)
    draw = np.zeros(ids.shape) if plain else rng.random(ids.shape)
    inputs = np.where(chosen & (draw < 0.8), mask, ids)
    noise = rng.integers(mask + 1, vocab, ids.shape)
    return {
        "input_ids": np.where(chosen & (draw >= 0.8) & (draw < 0.9), noise, inputs),
        "attention_mask": (ids != pad).astype(np.int64),
        "labels": np.where(chosen, ids, -100),
    }


def masked_batch(
    corpora: list[Corpus],
    rng: Generator,
    rows: int,
    length: int,
    vocab: int,
    share: float = 0.15,
    plain: bool = False,
) -> dict[str, Ints]:
    """Rows of [CLS] A [SEP] or [CLS] A [SEP] B [SEP], a share of their tokens to be predicted."""
    cls, sep = 2, 3
    ids = np.zeros((rows, length), dtype=np.int64)
    types = np.zeros_like(ids)
    for row, kind in zip(ids, types, strict=True):
        a, b = segments(corpora[rng.integers(len(corpora))], rng, length)
        text = np.concatenate([[cls], a, [sep], b, [sep] if len(b) else []])
        row[: len(text)] = text
        kind[len(a) + 2 : len(text)] = 1
    return {"token_type_ids": types, **hide(ids, rng, vocab, share, plain)}


def masked_texts(texts: list[Tokens], vocab: int, rows: int = 32) -> Iterator[dict[str, Ints]]:
    """Batches of given texts, each as [CLS] text [SEP], 15 % of the tokens become [MASK]."""
    rng = np.random.default_rng(0)
    for i in range(0, len(texts), rows):
        some = texts[i : i + rows]
        ids = np.zeros((len(some), max(map(len, some)) + 2), dtype=np.int64)
        for row, text in zip(ids, some, strict=True):
            row[: len(text) + 2] = [2, *text, 3]
        yield hide(ids, rng, vocab, plain=True)
