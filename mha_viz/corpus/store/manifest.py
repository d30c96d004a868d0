"""Contents of a study's manifest: its model's identity, its sizes and notes on its texts."""

from __future__ import annotations

import hashlib
import json
import sys
import tomllib
from collections.abc import Mapping
from importlib.metadata import version
from importlib.resources import files
from operator import index
from typing import Any, NamedTuple

import torch

from mha_viz.core.layer_numbers import is_counted
from mha_viz.core.metrics.units import MIN_UNITS
from mha_viz.core.reprs import count
from mha_viz.corpus.sources.documents import MAX_TEXT_TOKENS
from mha_viz.corpus.sources.source import SHARD_TEXTS, TEXT
from mha_viz.engine.model import AttentionModel

_NOTES = tomllib.loads((files(__package__) / "notes.toml").read_text("utf-8"))
_MAX_HEADS = 100_000
_ROWS_OF_A_HEAD = 10_000  # of tables that are read whole: ours have some hundred, as a rule
_MAX_ROWS = 10_000_000  # of such a table
_MEASURES = 10  # of pairs of heads
_SUMMED_UP = (
    "heads untrained_heads chance_layers labels profile parts_of_speech relations "
    "untrained_relations relation_offsets trees untrained_trees coreference untrained_coreference"
).split()
_OF_TOKENS = ("edge_rows", "names", "arcs", "words")


class Sizes(NamedTuple):
    """The sizes of a study, as it says of itself."""

    n_layers: int  # of its model
    n_heads: int
    n_ctx: int  # how many tokens the model takes
    n_texts: int  # of the source, as far as they could be read
    n_tokens: int

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> Sizes:
        """Read a manifest; KeyError, TypeError, ValueError or OverflowError if it was changed."""
        counts, model = manifest["counts"], manifest["model"]
        of_model, of_texts = ("n_layers", "n_heads", "n_ctx"), ("n_texts", "n_tokens")
        sizes = cls(*(int(model[n]) for n in of_model), *(int(counts[n]) for n in of_texts))
        if not (
            min(sizes) >= 1
            and sizes.n_layers * sizes.n_heads <= _MAX_HEADS
            and sizes.n_texts <= SHARD_TEXTS * counts["n_shards"]
            and sizes.n_tokens <= sizes.n_texts * sizes.n_ctx
        ):
            raise ValueError(f"no study has these sizes: {sizes}")
        for name in ("n_truncated", "n_left_out", "n_skipped"):
            int(counts[name])
        int(counts.get("n_duplicates", 0))  # earlier versions counted none
        own_numbers(manifest)
        model["name"].encode()
        study_notes(manifest)
        unit_note(manifest).encode()
        return sizes

    @property
    def of_summaries(self) -> dict[str, int]:
        """The most rows that the tables can have which are read whole, by name."""
        n_all = self.n_layers * self.n_heads
        # a treebank may name as many relations as it has words
        most = min((_ROWS_OF_A_HEAD + 8 * self.n_tokens) * (n_all + 10), _MAX_ROWS)
        return dict.fromkeys(_SUMMED_UP, most) | {"pairs": _MEASURES * n_all**2}

    @property
    def of_texts(self) -> dict[str, int]:
        """The most rows that the tables of single texts can have."""
        n_all = self.n_layers * self.n_heads
        most = dict.fromkeys(_OF_TOKENS, self.n_tokens * self.n_ctx * n_all)
        return most | {"sentences": self.n_texts, "texts": self.n_texts * n_all}


def own_numbers(manifest: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the model's own numbers of its layers, () for 0, 1, 2 ..., as a manifest has them.

    Raises ValueError or TypeError: it was changed.
    """
    model = manifest["model"]
    numbers = tuple(map(index, model.get("layer_numbers", ())))
    rises = sorted(set(numbers)) == list(numbers) and min(numbers, default=0) >= 0
    if numbers and not (rises and len(numbers) == model["n_layers"]):
        raise ValueError(f"no model numbers its layers so: {numbers}")
    return numbers


def study_notes(manifest: Mapping[str, Any]) -> list[str]:
    """Return what a reader of a study's numbers should know, in sentences.

    >>> counts = {"n_truncated": 0, "n_duplicates": 228}
    >>> study_notes({"counts": counts, "model": {}})
    ['228 duplicate texts were left out: a text that occurs again counts once.']
    """
    notes = []
    if n := manifest["counts"].get("n_duplicates", 0):
        were = "was" if n == 1 else "were"
        notes.append(_NOTES["duplicates"].format(texts=count(n, "duplicate text"), were=were))
    unit, n_units = manifest.get("unit"), manifest["counts"].get("n_units", MIN_UNITS)
    if n_units < MIN_UNITS:
        are = "is" if n_units == 1 else "are"
        notes.append(_NOTES["few_units"].format(unit=unit, are=are, n=n_units, most=MIN_UNITS))
    if manifest.get("quantiles") == "histogram":
        notes.append(_NOTES["histograms"])
    cut = truncation_note(manifest)
    return [*notes, cut] if cut else notes


def unit_note(manifest: Mapping[str, Any]) -> str:
    """Return what intervals and tests take as independent, as the end of a sentence."""
    counts, unit = manifest["counts"], manifest.get("unit") or TEXT
    units = "each text" if unit == TEXT else f"the texts of each {unit}"
    return f"{units} as one unit (n = {counts.get('n_units', counts['n_texts']):,})"


def truncation_note(manifest: Mapping[str, Any]) -> str:
    """Return how many texts and documents were cut, in sentences; "" where none was."""
    counts, model = manifest["counts"], manifest["model"]
    sentences = []
    if counts["n_truncated"]:
        sentences.append(_NOTES["cut"].format(**counts, name=model["name"], n_ctx=model["n_ctx"]))
    if counts.get("n_going_on"):
        most, lost = min(model["n_ctx"], MAX_TEXT_TOKENS), count(counts["n_lost"], "mention")
        sentences.append(_NOTES["going_on"].format(**counts, most=most, lost=lost))
    return " ".join(sentences)


_LIBRARIES = ("torch", "transformers", "tokenizers", "numpy", "pyarrow", "duckdb")


def model_identity(model: AttentionModel) -> dict[str, Any]:
    """Return a model's name, sizes, and a hash of its weights and of its tokens."""
    tokens = json.dumps(sorted(model.tokenizer.get_vocab().items()))
    fields = ("name", "family", "backend", "n_layers", "n_heads", "d_model", "d_head")
    numbers = model.layer_numbers
    hybrid = {} if is_counted(numbers) else {"layer_numbers": list(numbers)}
    return {name: getattr(model, name) for name in fields} | {
        **hybrid,
        "n_ctx": model.layer_reader.n_ctx,
        "dtype": str(model.dtype).removeprefix("torch."),
        "weights_sha256": weights_hash(model.network),
        "tokens_sha256": hashlib.sha256(tokens.encode()).hexdigest(),
    }


def weights_hash(network: torch.nn.Module) -> str:
    """Hash the name, kind, shape and bytes of every parameter and buffer, by name (SHA-256)."""
    digest = hashlib.sha256()
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy())
    return digest.hexdigest()


def versions() -> dict[str, str]:
    """Return the versions of this package and of the libraries that a study depends on."""
    ours = sys.modules["mha_viz"].__version__  # its modules import nothing of the package
    return {"mha_viz": ours, **{name: version(name) for name in _LIBRARIES}}
