"""Passes, studies and fetches on a graphics card, and the memory of a text too large for most."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.utils import logging

from benchmarks.long import EVERYTHING
from benchmarks.long import model as random_model
from benchmarks.measure import Result, at_least, at_most, interleaved, ratio, spread
from benchmarks.study import ALONE, passes, prose
from benchmarks.trace import network as bert
from benchmarks.trace import text, traced_model
from mha_viz.checkpoints.device import device_of
from mha_viz.core.amounts import of_bytes
from mha_viz.core.attention.scoring import Scoring, Sight, Tiles, attention_by_rows
from mha_viz.core.measure import measure as metrics_of
from mha_viz.core.measure import text_sums
from mha_viz.core.record.attention_record import Token
from mha_viz.corpus.measure.batches import batches, pass_tokens, prepared
from mha_viz.corpus.measure.shard import Settings, measure_batches
from mha_viz.corpus.sources.source import Item
from mha_viz.corpus.store.study_file import open_study
from mha_viz.engine.loaded_network import TILES
from mha_viz.engine.model import AttentionModel

TITLE = "On a graphics card"
ABOUT = """BERT-base size (random weights), float32, on one device, which is waited for before a
clock stops. The ratio of a study is of throughput, over the bare passes of the same batches; that
of a trace is over the bare pass of the text. "Tiles, metrics and one exact head" keeps no weights:
they are reduced where they are made. Memory is that of a Llama of the size of the 8B one. It is
counted where the table does not say that it was measured: weights by the config, what a pass keeps
by its shapes, and working memory as the most bytes that the tensors of one layer hold at once on
torch's device "meta", those of its tiles and metrics among them."""
LLAMA_8B = LlamaConfig(
    architectures=["LlamaForCausalLM"],
    vocab_size=128_256,
    hidden_size=4096,
    intermediate_size=14_336,
    num_hidden_layers=32,
    num_attention_heads=32,
    num_key_value_heads=8,
    max_position_embeddings=8192,
)
SHARD = 256  # texts, as many as a study puts into one
CARD = 80e9  # bytes of the card that is aimed at
BATCH = 32_768  # tokens, of which a large card takes four times as many as a study does by default
STUDIES = {
    "study, every metric, profiles, edges": (replace(ALONE, batch_tokens=BATCH), 0.5),
    "the same and four pair matrices": (Settings(batch_tokens=BATCH, baselines=False), 0.3),
    "the first in batches of 8,192 tokens": (ALONE, None),
}


def measure(
    device: str = "cuda",
    n_texts: int = 1024,
    n_tokens: int = 512,
    repeats: int = 7,
    llama: LlamaConfig = LLAMA_8B,
    **sizes: int,
) -> list[Result]:
    """Return the lines of the table; `sizes` go into BertConfig."""
    logging.set_verbosity_error()
    place = device_of(device)
    return [
        *_study(place, n_texts, max(1, repeats // 3), sizes),
        *_trace(place, n_tokens, repeats, sizes),
        *_memory(place, llama),
    ]


def name_of(device: str) -> str:
    """The device in words, for the line below a table."""
    if device_of(device).type == "cuda":
        return torch.cuda.get_device_name(device_of(device))
    return {"mps": "Apple's graphics card", "cpu": "the processor"}[device_of(device).type]


def waited(device: torch.device, way: Callable[[], Any]) -> Callable[[], Any]:
    """Return a way that gives its result once the device is done with it."""

    def run() -> Any:
        found = way()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        elif device.type == "mps":
            torch.mps.synchronize()
        return found

    return run


def _on(device: torch.device, sizes: Mapping[str, int]) -> tuple[AttentionModel, Any]:
    """The network as an AttentionModel, and bare, on a device."""
    ours, bare = traced_model(**sizes), bert("sdpa", **sizes)
    return AttentionModel(ours.network.to(device), ours.tokenizer, name=ours.name), bare.to(device)


def _study(
    device: torch.device, n_texts: int, repeats: int, sizes: Mapping[str, int]
) -> list[Result]:
    model, bare = _on(device, sizes)
    items = prose(n_texts)
    shards = [items[begin : begin + SHARD] for begin in range(0, n_texts, SHARD)]
    of_pass = pass_tokens(device)
    found = [batch for shard in shards for batch in batches(model.reader, shard, BATCH, of_pass)[0]]
    ways = {"bare": waited(device, lambda: passes(bare, model, found))}
    for name, (settings, _) in STUDIES.items():
        ways[name] = waited(device, lambda own=settings: studied(model, shards, own))
    seconds = interleaved(ways, repeats)
    rates = {name: [n_texts / one for one in times] for name, times in seconds.items()}
    results = []
    for name, (_, aim) in STUDIES.items():
        share = ratio(seconds["bare"], seconds[name])
        results.append(
            Result(
                f"{name}, {n_texts} texts of about 128 tokens",
                spread(rates[name], unit=" texts/s", digits=1),
                f"{spread(rates['bare'], unit=' texts/s')} bare",
                f"{share:.2f}",
                "" if aim is None else f"at least {aim}",
                None if aim is None else at_least(share, aim),
            )
        )
    return results


def studied(model: AttentionModel, shards: Sequence[Sequence[Item]], settings: Settings) -> None:
    """Measure shards as a study does: others are read and written meanwhile, in threads."""
    of_pass = pass_tokens(model.device)
    upcoming = prepared(enumerate(shards), model.reader, settings.batch_tokens, of_pass=of_pass)
    about = {"model": {}, "source": {}, "settings": asdict(settings)}
    with (
        TemporaryDirectory() as folder,
        open_study(Path(folder), about) as file,
        ThreadPoolExecutor(1) as writing,
    ):
        for _, *ready in upcoming:
            shard = measure_batches(model, *ready, settings)
            last = writing.submit(file.add, shard.tables, shard.counts, shard.skipped)
        last.result()
        assert file.counts["n_texts"] == sum(map(len, shards))


def _trace(device: torch.device, n: int, repeats: int, sizes: Mapping[str, int]) -> list[Result]:
    model, network = _on(device, sizes)
    ids = torch.tensor([model.tokenizer.convert_tokens_to_ids(text(n).split())], device=device)
    held = {"pattern": torch.empty(0)}

    @torch.inference_mode()
    def bare() -> Any:
        return network(input_ids=ids)

    def traced() -> Any:
        record = model.trace(text(n), keep=EVERYTHING)
        assert metrics_of(record) and record.tiles().shape[:2] == record.shape[:2]
        return record[model.n_layers - 1, 1]

    def fetched() -> Any:
        held["pattern"] = model.trace(text(n), keep=("pattern",)).pattern
        return held["pattern"]

    ways = {"bare": bare, "reduced": traced, "fetched": fetched}
    seconds = interleaved({k: waited(device, way) for k, way in ways.items()}, repeats, warm_up=2)
    over = ratio(seconds["reduced"], seconds["bare"])
    more = [a - b for a, b in zip(seconds["fetched"], seconds["bare"], strict=True)]
    beside = f"bare {spread(seconds['bare'], 1e3, ' ms', 1)}"
    return [
        Result(
            f"`model.trace` with tiles, metrics and one exact head, {n} tokens",
            spread(seconds["reduced"], 1e3, " ms", 1),
            beside,
            f"{over:.2f}",
            "at most 3",
            at_most(over, 3),
        ),
        Result(
            f"`record.pattern` of {n} tokens: `model.trace` less a bare pass",
            spread(more, 1e3, " ms", 1),
            f"{of_bytes(4 * held['pattern'].numel())} fetched",
            aim="at most 15 ms",
            met=at_most(sorted(more)[len(more) // 2], 0.015),
        ),
    ]


def _memory(device: torch.device, llama: LlamaConfig) -> list[Result]:
    n = llama.max_position_embeddings
    parts = memory(llama, n)
    total = sum(parts.values())
    inside = ", ".join(f"{name} {of_bytes(size)}" for name, size in parts.items())
    results = [
        Result(
            f"counted: {llama.num_hidden_layers} layers in bfloat16, {n:,} tokens, tiles, metrics",
            of_bytes(total),
            inside,
            aim=f"at most {of_bytes(int(CARD))}",
            met=total <= CARD,
        )
    ]
    if device.type == "cuda" and torch.cuda.mem_get_info(device)[0] > 1.05 * total:
        model = random_model(llama, device, torch.bfloat16)
        torch.cuda.reset_peak_memory_stats(device)
        record = model.trace(text(n), keep=EVERYTHING)
        peak = torch.cuda.max_memory_allocated(device)
        assert metrics_of(record) and record.shape[2] == n
        name = f"measured: the same on {torch.cuda.get_device_name(device)}"
        results.append(
            Result(name, of_bytes(peak), aim=f"at most {of_bytes(int(CARD))}", met=peak <= CARD)
        )
    return results


def memory(config: LlamaConfig, n: int, dtype: torch.dtype = torch.bfloat16) -> dict[str, int]:
    """The bytes that a device holds at most while a text of n tokens is traced with everything."""
    with torch.device("meta"):
        n_parameters = LlamaForCausalLM(config).num_parameters()
    heads = config.num_hidden_layers * config.num_attention_heads
    width = config.head_dim
    query = heads * n * width * dtype.itemsize
    key = query * config.num_key_value_heads // config.num_attention_heads
    return {
        "weights": n_parameters * dtype.itemsize,
        "queries, keys and z until the end": 2 * query + key,
        "tiles": 4 * heads * TILES**2,
        "mask": n * n * dtype.itemsize,
        "working memory": max(
            working_memory(config, n, dtype), 3 * n * config.intermediate_size * dtype.itemsize
        ),
    }


def working_memory(config: LlamaConfig, n: int, dtype: torch.dtype) -> int:
    """The most bytes that one layer's attention, tiles and metrics hold at once, on "meta"."""
    n_heads, n_kv_heads = config.num_attention_heads, config.num_key_value_heads
    width, meta = config.head_dim, torch.device("meta")
    query, key, value = (
        torch.empty(heads, n, width, dtype=dtype, device=meta)
        for heads in (n_heads, n_kv_heads, n_kv_heads)
    )
    tokens = [Token(str(i), i, i, i, i) for i in range(n)]
    scoring = Scoring(width**-0.5, sight=Sight(after=0))

    def visible_keys(rows: slice) -> Tensor:
        return scoring.sight.visible_keys(rows, n, n, device=meta)

    tiles = Tiles((n_heads, n, n), TILES, device=meta)
    sums = text_sums(tokens, n, causal=True).layer(visible_keys, device=meta)
    with _Held() as held:
        attention_by_rows(query, key, value, scoring, [tiles, sums])
    return held.most


class _Held(TorchDispatchMode):
    """A count of the bytes that tensors made within it hold, now and at most."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self._known: set[int] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = {
            one.untyped_storage()._cdata
            for one in tree_flatten((args, kwargs))[0]
            if isinstance(one, Tensor)
        }
        found = func(*args, **(kwargs or {}))
        for one in tree_flatten(found)[0]:
            if isinstance(one, Tensor) and one.device.type == "meta":
                self._count(one.untyped_storage(), given)
        return found

    def _count(self, storage: Any, given: set[int]) -> None:
        place = storage._cdata
        if place in given or place in self._known:
            return
        self._known.add(place)
        self.now += storage.nbytes()
        self.most = max(self.most, self.now)
        weakref.finalize(storage, self._forget, place, storage.nbytes())

    def _forget(self, place: int, size: int) -> None:
        self._known.discard(place)
        self.now -= size
