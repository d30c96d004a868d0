"""Tokens of a typed text: cleaning, encoding, words, labels that read well.

What holds for every tokenizer:

- `Token.start` and `Token.end` cut exactly the labelled characters out of the cleaned text; a
  leading space is not part of them. A mark that a tokenizer puts before a word without any
  character of its own (T5's lone "▁") is empty: start == end.
- A label is the reader's own spelling, cut from the text, also where a model lower-cases. A
  sub-word shows its piece alone; `Token.word` shows that it continues a word.
- Words are found in the text, not by the tokenizer, so that all models agree on it: a run of
  letters, digits, marks and inner apostrophes; a single ideograph; a run of one repeated sign
  ("..."); an emoji sequence. Spaces belong to the word after them. A token belongs to the word that
  its first character lies in.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, chain, groupby, pairwise

from transformers import PreTrainedTokenizerBase

from mha_viz.core.record.attention_record import Token
from mha_viz.errors import ArgumentError, TextError, translating
from mha_viz.text.cleaning import MAX_LABEL, clean_text, visible, word_numbers

_WINDOW = (8, 1000)  # characters read at first: 8 for each position of the model, and 1000
_cached_label = lru_cache(1 << 14)(visible)  # the same short words come again and again
_MARGIN = 128  # tokens read beyond what is kept, so that the cut changes none that is kept


@contextmanager
def tokenizer_errors(name: str = "this text") -> Iterator[None]:
    """Translate a tokenizer's errors inside; also a decorator of a function that uses one.

    The tokenizers library raises bare Exceptions, and where a pattern of a checkpoint goes astray
    it panics, which is no Exception at all and would silently end a server's thread.
    """

    def unreadable(error: BaseException) -> TextError:
        reason = str(error).strip().partition("\n")[0][:200] or type(error).__name__
        return TextError(f"This model's tokenizer cannot read {name}: {reason}")

    with translating(unreadable):
        yield


@dataclass(frozen=True, slots=True)
class Encoded:
    """A text (or a pair) as a model wants it and as people read it."""

    input_ids: list[int]  # one number in the vocabulary per position
    # which segment each position belongs to; None where the tokenizer has none.
    token_type_ids: list[int] | None
    tokens: tuple[Token, ...]  # one label per position
    n_truncated: int = 0  # how many tokens did not fit; 0 where all did
    # the text was so long that the rest of it was not even tokenised, and `n_truncated` is drawn
    # from the length of the rest.
    truncated_is_estimate: bool = False
    # `text`, `text_pair`: the cleaned texts, whole; the tokens' offsets count in them
    text: str = ""
    text_pair: str | None = None
    n_unknown: int = 0  # how many tokens stand for what the vocabulary does not have


def encode(
    tokenizer: PreTrainedTokenizerBase,
    text: str,
    text_pair: str | None = None,
    *,
    max_length: int,
    add_special_tokens: bool = True,
) -> Encoded:
    """Tokenise a text, or a pair, to at most `max_length` labelled positions.

    What does not fit is cut from the end, of the longer text first; special tokens stay. Of a very
    long text only as much is tokenised as can be kept. The tokenizer is not changed: threads may
    share it. Slow tokenizers give tokens without offsets. Texts are cleaned here; `max_length` are
    positions that the model has (n_ctx); `add_special_tokens` adds [CLS], [SEP], <s> ... as the
    model was trained with. Raises TextError: text that cannot be used (`clean_text`), that leaves
    no token, or a pair for a tokenizer that puts nothing between two texts. ArgumentError:
    `max_length` leaves no room for the text.
    """
    texts = [clean_text(text)]
    if text_pair is not None:
        texts.append(clean_text(text_pair, "second text"))
        with tokenizer_errors("two texts"):
            added = [tokenizer.num_special_tokens_to_add(pair=pair) for pair in (False, True)]
        if added[0] >= added[1]:
            raise TextError(
                "This model takes one text: its tokenizer puts no special token between two."
            )
    tokens, types, totals, is_estimate = _read(tokenizer, texts, max_length, add_special_tokens)
    room = max_length - sum(token.is_special for token in tokens)
    if room < len(texts):
        raise ArgumentError(f"max_length={max_length} leaves no room for the text.")
    if 0 in totals:
        unread = visible(texts[totals.index(0)], 30)
        raise TextError(f"There is nothing that this model can read in “{unread}”.")
    shares = _shares(totals, room)
    fitting = _marked(tokenizer, _fitting(tokens, shares))
    word_numbers = dict.fromkeys(token.word for token in fitting.values() if token.word is not None)
    # Numbers have no gap where text was cut.
    words: dict[int | None, int] = {w: i for i, w in enumerate(word_numbers)}
    return Encoded(
        input_ids=[token.id for token in fitting.values()],
        token_type_ids=[types[i] for i in fitting] if types else None,
        tokens=tuple(_renumbered(token, words.get(token.word)) for token in fitting.values()),
        n_truncated=sum(totals) - sum(shares),
        truncated_is_estimate=is_estimate,
        text=texts[0],
        text_pair=texts[1] if len(texts) > 1 else None,
        n_unknown=_count_unknown(tokenizer, fitting.values(), texts),
    )


def special_ids(tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Return the ids that a tokenizer calls special, but for those that stand in for a word.

    [MASK] hides a word of the text, [UNK] is one that the vocabulary lacks, and "<0x0A>" a byte.
    """
    special = {*tokenizer.all_special_ids}
    special |= {
        number
        for number, added in tokenizer.added_tokens_decoder.items()
        if added.special and not re.fullmatch("<0x[0-9A-F]{2}>", added.content)
    }
    names = ("bos", "eos", "cls", "sep", "pad")
    marks = {getattr(tokenizer, f"{name}_token_id", None) for name in names}
    return frozenset(special - ({tokenizer.unk_token_id, tokenizer.mask_token_id} - marks))


def _marked(tokenizer: PreTrainedTokenizerBase, tokens: dict[int, Token]) -> dict[int, Token]:
    """Mark special tokens that were typed, or that a chat template wrote, as special."""
    special = special_ids(tokenizer)
    return {
        i: replace(token, is_special=True, word=None) if token.id in special else token
        for i, token in tokens.items()
    }


def _count_unknown(
    tokenizer: PreTrainedTokenizerBase, tokens: Iterable[Token], texts: list[str]
) -> int:
    """Count the tokens that the vocabulary lacks; a typed "[UNK]" is what it says."""
    number, name = tokenizer.unk_token_id, tokenizer.unk_token  # read once: each access is slow
    unknown = [token for token in tokens if token.id == number and not token.is_special]
    return sum(texts[token.segment][token.start : token.end] != name for token in unknown)


def _renumbered(token: Token, word: int | None) -> Token:
    return token if token.word == word else replace(token, word=word)


def _fitting(tokens: list[Token], shares: list[int]) -> dict[int, Token]:
    """Return the tokens to keep, by their place: the first of each text, and special ones."""
    n_left = list(shares)
    fitting: dict[int, Token] = {}
    for i, token in enumerate(tokens):
        if not token.is_special:
            n_left[token.segment] -= 1
        if token.is_special or n_left[token.segment] >= 0:
            fitting[i] = token
    return fitting


def _shares(lengths: list[int], room: int) -> list[int]:
    """Return how much of each text stays: the shorter whole if it fits in half of the room."""
    if sum(lengths) <= room:
        return lengths
    if len(lengths) == 1:
        return [room]
    short = min(*lengths, room // 2)
    return [short, room - short] if lengths[0] <= lengths[1] else [room - short, short]


def _read(
    tokenizer: PreTrainedTokenizerBase, texts: list[str], max_length: int, special: bool
) -> tuple[list[Token], list[int] | None, list[int], bool]:
    """Return tokens (at least as many as can be kept), their types, and each text's token count.

    Last comes whether those counts are estimates.
    """
    window = _WINDOW[0] * max(max_length, 0) + _WINDOW[1]
    read = _read_fast if tokenizer.is_fast else _read_slow
    while True:
        heads = [text[:window] for text in texts]
        with tokenizer_errors():
            tokens, types = read(tokenizer, heads, special)
        segments = [token.segment for token in tokens if not token.is_special]
        counts = [segments.count(0), segments.count(1)]
        cut = [len(text) > window for text in texts]
        if all(n >= max_length + _MARGIN or not c for n, c in zip(counts, cut, strict=False)):
            break
        window *= 8
    lengths = zip(counts, texts, heads, strict=False)
    totals = [round(n * len(text) / len(head)) for n, text, head in lengths]
    return tokens, types, totals, any(cut)


def _read_fast(
    tokenizer: PreTrainedTokenizerBase, texts: list[str], special: bool
) -> tuple[list[Token], list[int] | None]:
    # Without truncation and padding the call leaves the shared Rust tokenizer as it is.
    batch = tokenizer(
        *texts, add_special_tokens=special, return_offsets_mapping=True, verbose=False
    )
    ids: list[int] = batch["input_ids"]
    names = tokenizer.convert_ids_to_tokens(ids)
    tokens: list[Token] = []
    segment, word, local_word, end_before, numbers = -1, -1, -1, 0, [0]
    unknown = tokenizer.unk_token_id
    rows = zip(ids, names, batch.sequence_ids(), batch["offset_mapping"], strict=True)
    for number, name, sequence, (start, end) in rows:
        if sequence is None:
            tokens.append(Token(visible(name), number, is_special=True, segment=max(segment, 0)))
            continue
        if sequence != segment:
            segment, local_word, end_before = sequence, -1, 0
            numbers = word_numbers(texts[segment])
        start, end = _span(texts[segment], name, start, end, end_before)
        word_number = numbers[min(start, len(numbers) - 1)]
        word += word_number > local_word
        local_word, end_before = max(local_word, word_number), end
        cut = texts[segment][start:end] or re.sub("[▁Ġ]", " ", name)
        label = _cached_label(cut) if len(cut) <= MAX_LABEL else visible(cut)
        if number == unknown and cut != name:
            label += f" {name}"
        tokens.append(Token(label, number, start, end, word, segment=segment))
    return _number_parts(tokens), batch.get("token_type_ids")


def _read_slow(
    tokenizer: PreTrainedTokenizerBase, texts: list[str], special: bool
) -> tuple[list[Token], list[int] | None]:
    contents: list[list[int]] = [
        tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"] for text in texts
    ]
    # The template is laid around the content's tokens numbered -1, -2 ...: what is not negative
    # was added, and a typed special token was not (ByT5 alone takes a typed </s> for its own).
    flat: list[Token] = []
    halves: list[list[int]] = []
    for segment, ids in enumerate(contents):
        halves.append([-1 - len(flat) - i for i in range(len(ids))])
        names = tokenizer.convert_ids_to_tokens(ids)
        words = accumulate(
            _begins_by_marks(names, texts[segment]), initial=flat[-1].word if flat else -1
        )
        next(words)
        for number, name, word in zip(ids, names, words, strict=True):
            label = visible(spelled(tokenizer, name))
            flat.append(Token(label, number, word=word, segment=segment))
    row = tokenizer.build_inputs_with_special_tokens(*halves) if special else list(chain(*halves))
    tokens: list[Token] = []
    for number in row:
        segment = tokens[-1].segment if tokens else 0
        name = "" if number < 0 else tokenizer.convert_ids_to_tokens(number)
        added = Token(visible(name), number, is_special=True, segment=segment)
        tokens.append(flat[-1 - number] if number < 0 else added)
    types = None
    if special and "token_type_ids" in tokenizer.model_input_names:
        types = tokenizer.create_token_type_ids_from_sequences(*halves)
    return tokens, types


def _span(text: str, name: str, start: int, end: int, end_before: int) -> tuple[int, int]:
    """Return the characters that a token stands for, without a leading or trailing space."""
    cut = text[start:end]
    if name and not name.strip("▁") and start >= end_before and not re.search(r"[\s▁]", cut):
        return start, start  # the mark before a word, which shares the word's first character
    if not cut and text[end_before:end].isspace():
        return end_before, end  # a space that RoBERTa trimmed away
    if inner := cut.strip(" "):
        start += len(cut) - len(cut.lstrip(" "))
        end = start + len(inner)
    return start, end


def _number_parts(tokens: list[Token]) -> list[Token]:
    """Count the tokens that share one slice of the text: bytes of an emoji, "…" read as "..."."""
    numbered: list[Token] = []
    if all(token.end != after.end or token.start == token.end for token, after in pairwise(tokens)):
        return tokens
    for (_, start, end), run in groupby(tokens, key=lambda t: (t.segment, t.start, t.end)):
        same = list(run)
        if start != end and len(same) > 1:
            same = [replace(t, text=f"{t.text} {i}/{len(same)}") for i, t in enumerate(same, 1)]
        numbered += same
    return numbered


def spelled(tokenizer: PreTrainedTokenizerBase, name: str) -> str:
    """Return the text of a token of a tokenizer without offsets, without its marks."""
    text = str(tokenizer.convert_tokens_to_string([name])).strip(" ")
    if not text and re.fullmatch("[\x80-\xff]", name):
        return f"⟨{ord(name):02X}⟩"  # a byte of ByT5
    if not text or "\ufffd" in text:
        text = re.sub("[▁Ġ]", " ", name)
    return re.sub("^##(?=.)|(?<=.)(</w>|@@)$", "", text)


def _begins_by_marks(names: list[str], text: str) -> list[bool]:
    """Return where words begin, by the tokenizer's marks, for those without offsets."""
    after = ["", *names[:-1]]
    for mark in "▁Ġ":
        if any(mark in name for name in names):
            return [i == 0 or name.startswith(mark) for i, name in enumerate(names)]
    if any(name.endswith("</w>") for name in names):
        return [not name or name.endswith("</w>") for name in after]
    if any(name.endswith("@@") for name in names):
        return [not name.endswith("@@") for name in after]
    if any(name.isspace() for name in names) or len(names) >= len(text):
        # A character or a byte each: a byte beyond ASCII counts as a letter, "</s>" as a sign.
        signs = ["\ufffc" if len(name) > 1 else re.sub("[\x80-\xff]", "a", name) for name in names]
        numbers = word_numbers("".join(signs))
        return [i == 0 or numbers[i] > numbers[i - 1] for i in range(len(names))]
    return [i == 0 or not name.startswith("##") for i, name in enumerate(names)]
