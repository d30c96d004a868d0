"""Batches of texts, with little padding, and the way of their numbers back from the device."""

from bisect import bisect_right
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from mha_viz.core.cancellation import check_cancelled
from mha_viz.corpus.sources.source import Item
from mha_viz.corpus.treebank.alignment import align_words
from mha_viz.corpus.treebank.trees import Sentence
from mha_viz.errors import ArgumentError, TextError
from mha_viz.text.encoding import Reader, encode_texts
from mha_viz.text.tokens import Encoded

# What one more pass through a model costs, in tokens of padding. On a CPU's core 16 for tiny-bert
# before anything is measured, and more then; on an H100 it takes 40 ms to start the kernels of a
# pass of BERT-base's size that is measured, and 15 us to run them for one more token.
PASS_TOKENS, CARD_PASS_TOKENS = 32, 2048


def pass_tokens(device: torch.device) -> int:
    """Return what one more pass costs on a device, in tokens of padding."""
    return PASS_TOKENS if device.type == "cpu" else CARD_PASS_TOKENS


@dataclass(frozen=True)
class Batch:
    """Texts that go through the model together, from the shortest to the longest."""

    items: tuple[Item, ...]  # the texts
    encoded: tuple[Encoded, ...]  # each as the model wants it

    @property
    def n_real(self) -> int:
        """The number of tokens that the texts have."""
        return sum(len(encoded.input_ids) for encoded in self.encoded)

    @property
    def n_padded(self) -> int:
        """The number of tokens when all texts are padded to the longest."""
        return len(self.encoded) * max(len(encoded.input_ids) for encoded in self.encoded)


class Prepared(NamedTuple):
    """A shard that is ready to be measured."""

    number: int  # of the shard
    batches: list[Batch]  # of its texts
    # place and reason of each text that the model's tokenizer could not read.
    skipped: list[tuple[str, str]]


def batches(
    reader: Reader, items: Iterable[Item], batch_tokens: int, of_pass: int = PASS_TOKENS
) -> tuple[list[Batch], list[tuple[str, str]]]:
    """Encode and pack the texts of a shard; batches depend on texts, budget and `of_pass` alone.

    A batch has at most `batch_tokens` tokens, padding included; a longer text goes alone, and so do
    those that have other weights in a padded batch than alone. Another pass costs as much as
    `of_pass` tokens of padding; see `pass_tokens`. The second value has the place and reason of
    each text that cannot be encoded, or has a tree without a word that is read.
    """
    if batch_tokens < 1:
        raise ArgumentError(f"batch_tokens={batch_tokens}: expected 1 or more.")
    pairs: list[tuple[Item, Encoded]] = []
    skipped: list[tuple[str, str]] = []
    for item in items:
        check_cancelled()
        try:
            encoded = encode_texts(reader, item.text)[0]
            if item.sentence is not None:
                _check_words(encoded, item.sentence)
            pairs.append((item, encoded))
        except TextError as error:
            skipped.append((item.location, str(error)))
    pairs.sort(key=lambda pair: (_length(*pair), pair[0].number))
    lengths = [_length(*pair) for pair in pairs]
    n_together = bisect_right(lengths, reader.pad_limit)
    ends = _cuts(lengths[:n_together], batch_tokens, of_pass)
    ends += range(n_together + 1, len(pairs) + 1)
    packed = [pairs[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
    return [Batch(*map(tuple, zip(*pairs, strict=True))) for pairs in packed], skipped


def _check_words(encoded: Encoded, sentence: Sentence) -> None:
    """Raise TextError unless the model reads a word of a text that has a tree."""
    if not bool(align_words(encoded.tokens, sentence).covered.any()):
        raise TextError(
            f"None of its {len(sentence.words)} words is among the {len(encoded.input_ids)} tokens "
            "that the model reads of it."
        )


def prepared(
    shards: Iterable[tuple[int, Sequence[Item]]],
    reader: Reader,
    batch_tokens: int,
    is_done: Callable[[int], bool] = lambda number: False,
    of_pass: int = PASS_TOKENS,
) -> Generator[Prepared, None, None]:
    """Yield shards in their order; while one is measured, a thread reads and encodes the next.

    What goes wrong in the thread is raised here. A consumer that stops closes the iterator, which
    waits for the one shard that is being read. Shards that are done come without batches.
    """
    upcoming = iter(shards)

    def prepare() -> Prepared | None:
        for number, items in upcoming:
            packed = ([], []) if is_done(number) else batches(reader, items, batch_tokens, of_pass)
            return Prepared(number, *packed)
        return None

    with ThreadPoolExecutor(1, thread_name_prefix="texts") as thread:
        ahead = thread.submit(prepare)
        while (shard := ahead.result()) is not None:
            ahead = thread.submit(prepare)
            yield shard


def _length(item: Item, encoded: Encoded) -> int:
    """Count the tokens of a text; or its words, where a text that was cut has more of them."""
    n_words = 0 if item.sentence is None else len(item.sentence.words)
    return max(len(encoded.input_ids), n_words)


def _cuts(lengths: list[int], batch_tokens: int, of_pass: int = PASS_TOKENS) -> list[int]:
    """Find the ends of batches of texts sorted by length that cost least in padding and passes.

    The cheapest cut of the first n texts is the cheapest cut of fewer and one batch more.
    """
    cost = np.zeros(len(lengths) + 1, dtype=np.int64)
    begins = np.zeros(len(lengths) + 1, dtype=np.int64)
    for end, longest in enumerate(lengths, 1):
        most = max(1, batch_tokens // longest)
        begin = np.arange(max(0, end - most), end)
        costs = cost[begin] + (end - begin) * longest + of_pass
        begins[end], cost[end] = begin[costs.argmin()], costs.min()
    ends: list[int] = []
    end = len(lengths)
    while end:
        ends.append(end)
        end = int(begins[end])
    return ends[::-1]


NamedTensors = dict[Hashable, Tensor]  # tensors by name
StartCopy = Callable[[Sequence[Tensor]], Callable[[], Sequence[Tensor]]]


def start_copy(packed: Sequence[Tensor]) -> Callable[[], Sequence[Tensor]]:
    """Start to copy tensors of one device to the processor; return what waits for the copies.

    On CUDA they go into pinned memory on a stream of their own, behind what runs already.
    """
    device = packed[0].device
    if device.type != "cuda":
        return lambda: [tensor.cpu() for tensor in packed]
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        pinned = [torch.empty(flat.shape, dtype=flat.dtype, pin_memory=True) for flat in packed]
        for copy, tensor in zip(pinned, packed, strict=True):
            copy.copy_(tensor, non_blocking=True)
            tensor.record_stream(stream)  # its memory is not used again before it is copied
        done = stream.record_event()

    def wait() -> Sequence[Tensor]:
        done.synchronize()
        return pinned

    return wait


class DeviceTransfer:
    """A way from a device to the processor that one batch at a time is on.

    What is sent from a processor is received at once, as it is. From another device tensors of a
    dtype are packed into one and copied together. They are received when the next batch is sent, or
    at `finish`: until then the device runs on, and Python starts the next batch. `start` starts a
    copy, as `start_copy` does.
    """

    def __init__(self, start: StartCopy = start_copy) -> None:
        self._start = start
        self._on_the_way: Callable[[], None] | None = None

    def send(self, tensors: NamedTensors, receive: Callable[[NamedTensors], None]) -> None:
        """Send the numbers of a batch; `receive` is called with them under the same names."""
        if all(tensor.device.type == "cpu" for tensor in tensors.values()):
            receive(dict(tensors))
            return
        by_dtype: dict[torch.dtype, list[Hashable]] = {}
        for name, tensor in tensors.items():
            by_dtype.setdefault(tensor.dtype, []).append(name)
        packed = [torch.cat([tensors[n].flatten() for n in names]) for names in by_dtype.values()]
        shapes = {name: tensor.shape for name, tensor in tensors.items()}
        wait = self._start(packed)

        def arrive() -> None:
            received: NamedTensors = {}
            for names, flat in zip(by_dtype.values(), wait(), strict=True):
                parts = flat.split([shapes[name].numel() for name in names])
                received |= {n: part.view(shapes[n]) for n, part in zip(names, parts, strict=True)}
            receive(received)

        self.finish()
        self._on_the_way = arrive

    def finish(self) -> None:
        """Wait for the batch that is on its way, if there is one."""
        arrive, self._on_the_way = self._on_the_way, None
        if arrive is not None:
            arrive()
