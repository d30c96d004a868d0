"""A graph of one prediction as a JSON file, which is checked when it is opened."""

from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pandas as pd

from mha_viz.core.json_file import JsonKind, is_finite, is_text, is_whole
from mha_viz.core.record.fields import Token
from mha_viz.errors import ArgumentError

MAX_BYTES = 64_000_000
MAX_TEXT = 1_000_000
MAX_SIZE = 30_000  # of layers, heads and tokens: the browser takes levels in 16 bits
FILE = JsonKind(
    "mha_viz prediction graph", 1, MAX_BYTES, "a graph", "PredictionGraph.save or the page Circuits"
)
_TEXTS = ("token", "model", "text")
_NUMBERS = ("value", "rest", "share")
_LISTS = ("pins", "notes", "tokens", "names", "edges")
_KINDS = ("residual", "source", "MLP", "bias")
_ENDS = ("level", "kind", "layer", "head", "query", "key", "weight", "contribution", "flow")
_NAMES = {
    *(*_TEXTS, *_NUMBERS, "versus", "position", "pins", "tokens", "n_layers", "n_heads", "step"),
    *("notes", "names", "nodes", "edges"),
}


def to_bytes(graph: dict[str, Any]) -> bytes:
    """Encode the fields of a graph, its nodes and its edges, a row each."""
    fields = {name: graph[name] for name in _NAMES}
    fields["names"] = [[*head, name] for head, name in graph["names"].items()]
    fields["tokens"] = [asdict(token) for token in graph["tokens"]]
    order = [*sorted(_NAMES - {"nodes", "edges"}), "nodes", "edges"]
    made = {name: fields[name] for name in order}
    made |= {name: _rows(fields[name]) for name in ("nodes", "edges")}
    raw = FILE.to_bytes(made)
    if len(raw) > MAX_BYTES:
        raise ArgumentError(
            f"The graph has {len(graph['edges']):,} edges, too many for a file: choose a smaller "
            "share, or fold it."
        )
    return raw


def from_bytes(raw: bytes, file: str | Path) -> dict[str, Any]:
    """Decode the fields of a graph, and check each; else raise RecordError. Nodes are left out."""
    found = FILE.from_bytes(_NAMES, raw, file)
    del found["nodes"]  # they follow from the edges
    if fault := _fault(found):
        raise FILE.wrong(file, fault)
    found["tokens"] = tuple(Token(**token) for token in found["tokens"])
    found |= {name: tuple(found[name]) for name in ("pins", "notes")}
    found |= {name: float(found[name]) for name in _NUMBERS}
    found["names"] = {(layer, head): name for layer, head, name in found["names"]}
    edges = pd.DataFrame(found["edges"], columns=list(_ENDS))
    for name in ("head", "key"):
        edges[name] = edges[name].fillna(-1).astype(int)
    edges["weight"] = edges.weight.astype(float)
    found["edges"] = edges.astype({"contribution": float, "flow": float})
    return found


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """List the rows, with null for what does not apply to them."""
    whole = table.astype(object).where(table.notna(), None)
    return [{str(name): value for name, value in row.items()} for row in whole.to_dict("records")]


def _fault(given: dict[str, Any]) -> str:
    """Say what is wrong with the fields; "" where nothing is."""
    lists = all(isinstance(given[name], list) for name in _LISTS)
    n_tokens = len(given["tokens"]) if lists else 0
    right = {
        "texts are not texts": all(is_text(given[name], MAX_TEXT) for name in _TEXTS)
        and (given["versus"] is None or is_text(given["versus"], MAX_TEXT)),
        "numbers are not finite": all(is_finite(given[name]) for name in _NUMBERS),
        "sizes are not whole numbers": is_whole(given["step"], 1, 2)
        and all(is_whole(given[name], 1, MAX_SIZE) for name in ("n_layers", "n_heads")),
        f"{', '.join(_LISTS)} are not lists": lists,
        "position is not that of a token": is_whole(given["position"], 0, n_tokens - 1),
    }
    if not all(right.values()):
        return next(fault for fault, ok in right.items() if not ok)
    if not all(is_text(one, MAX_TEXT) for one in (*given["pins"], *given["notes"])):
        return "pins and notes are not texts"
    if n_tokens > MAX_SIZE or not all(map(_is_token, given["tokens"])):
        return "tokens are not those of a text"
    if not all(_is_name(one, given) for one in given["names"]):
        return "names are not (layer, head, name)"
    wrong = next((i for i, edge in enumerate(given["edges"]) if not _is_edge(edge, given)), None)
    return "" if wrong is None else f"edge {wrong} is not one of this graph"


def _is_name(value: Any, given: dict[str, Any]) -> bool:
    if not isinstance(value, list) or len(value) != 3:
        return False
    layer, head, name = value
    known = is_whole(layer, 0, given["n_layers"] - 1) and is_whole(head, 0, given["n_heads"] - 1)
    return known and is_text(name, 300)


def _is_token(value: Any) -> bool:
    if not isinstance(value, dict) or set(value) != {one.name for one in fields(Token)}:
        return False
    numbers = (value["start"], value["end"], value["word"])
    return (
        is_text(value["text"], MAX_TEXT)
        and isinstance(value["is_special"], bool)
        and all(one is None or is_whole(one) for one in numbers)
        and is_whole(value["id"], -1)
        and is_whole(value["segment"])
        and is_whole(value["parts"])
    )


def _is_edge(value: Any, given: dict[str, Any]) -> bool:
    if not isinstance(value, dict) or not set(_ENDS) <= set(value):
        return False
    kind, n = value["kind"], len(given["tokens"])
    through = kind == "source"
    return (
        kind in _KINDS
        and is_whole(value["layer"], 0, given["n_layers"] - 1)
        and is_whole(value["level"], 2 * value["layer"] + 1, 2 * value["layer"] + 2)
        and value["level"] % given["step"] == 0
        and is_whole(value["query"], 0, n - 1)
        and (is_whole(value["key"], 0, n - 1) if through else value["key"] is None)
        and (is_whole(value["head"], 0, given["n_heads"] - 1) if through else value["head"] is None)
        and (value["weight"] is None or is_finite(value["weight"]))
        and is_finite(value["contribution"])
        and is_finite(value["flow"])
    )
