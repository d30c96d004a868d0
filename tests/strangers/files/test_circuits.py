"""Circuit files from strangers: each can be shown, or is refused by a sentence."""

import json
import os
from dataclasses import asdict
from math import isfinite
from pathlib import Path

import pytest
from hypothesis import given

from mha_viz.circuits.attribution.signed_graph import PredictionGraph
from mha_viz.circuits.effects import tested_heads
from mha_viz.circuits.effects.tested_heads import Faithfulness, Outcome
from mha_viz.errors import RecordError
from mha_viz.ui.widgets.components.flow_graph import prediction_payload
from tests.making.flow_graphs import made_up_prediction
from tests.strangers.files.damage import as_json, damaged, forged
from tests.strangers.fuzzing import fuzzed

TRUE = Faithfulness(
    *("m", "induction", 0, 4, "mean", 2, 4, ((0, 1), (1, 3))),
    *(Outcome(3.5, 0.5, 2.0, 1.0, 0.25), Outcome(3.0, 0.25, 2.5, 1.5, 0.75)),
    *((1.0, 2.0), (2.0, 1.0)),
)
FIELDS = json.loads(
    json.dumps(asdict(TRUE) | {"kind": tested_heads.KIND, "version": tested_heads.VERSION})
)


def opened(content: bytes, path: Path) -> str:
    """The sentence that refuses a file; "" of one that opens, and can be shown and sent."""
    path.write_bytes(content)
    try:
        found = Faithfulness.load(path)
    except RecordError as error:
        return str(error)
    assert f"{found!r}{found.model}".encode()
    assert len(found.table()) == 6 and isfinite(found.held_out.all_heads - found.held_out.nothing)
    assert found.beside_random and isinstance(found.held_out, Outcome)
    return ""


@given(content=damaged(as_json(FIELDS)))
@fuzzed(daily=60, long=2_000)
def test_damaged_circuits(content: bytes, tmp_path: Path) -> None:
    assert len(opened(content, tmp_path / "c.json")) < 500


@given(fields=forged(FIELDS))
@fuzzed(daily=150, long=3_000)
def test_forged_circuits(fields: dict, tmp_path: Path) -> None:
    assert len(opened(as_json(fields), tmp_path / "c.json")) < 500


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names are POSIX's")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "c")
    with pytest.raises(RecordError, match="no regular file"):
        Faithfulness.load(tmp_path / "c")


GRAPH = made_up_prediction()
GRAPH_FIELDS = json.loads(GRAPH.to_bytes())
del GRAPH_FIELDS["sha256"]  # anybody can leave it out


def opened_graph(content: bytes) -> str:
    """The sentence that refuses a graph; "" of one that opens, and can be drawn and saved."""
    try:
        found = PredictionGraph.from_bytes(content)
    except RecordError as error:
        return str(error)
    assert f"{found!r}{found.model}".encode() and len(found.nodes)
    assert PredictionGraph.from_bytes(found.to_bytes()).to_bytes() == found.to_bytes()
    assert isfinite(found.grouped("text").path_sum) and prediction_payload(found)
    return ""


@given(content=damaged(as_json(GRAPH_FIELDS)))
@fuzzed(daily=60, long=2_000)
def test_damaged_graphs(content: bytes) -> None:
    assert len(opened_graph(content)) < 500


@given(fields=forged(GRAPH_FIELDS))
@fuzzed(daily=150, long=3_000)
def test_forged_graphs(fields: dict) -> None:
    assert len(opened_graph(as_json(fields))) < 500
