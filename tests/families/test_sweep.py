"""The sweep over families: right results, wrong weights, and families that do not come back."""

import copy
import json
import os
import subprocess
import sys
import threading

import pytest
import torch

from tests.families.__main__ import sweep
from tests.families.tiny import build, tiny_config
from tests.families.trial import Result, try_network


@pytest.mark.slow
def test_the_sweep_tells_a_family_that_works_from_one_without_attention(tmp_path) -> None:
    results = tmp_path / "families.json"
    families = ["bert", "mamba", "mobilebert"]
    command = [sys.executable, "-m", "tests.families", *families, "--results", str(results)]
    subprocess.run(command, check=True, capture_output=True)
    rows = json.loads(results.read_text("utf-8"))
    bert, mamba, mobilebert = (Result(**row) for row in rows)
    assert (bert.outcome, bert.backend) == ("works", "mha_viz") and bert.largest < 1e-5
    assert mamba.outcome == "refused" and "mamba" in mamba.reason
    assert mobilebert.outcome == "works with a note" and "float64" in mobilebert.reason


@pytest.mark.parametrize(
    ("family", "query"),  # float64 decides about MobileBERT
    [("gpt2", "h.3.attn.c_attn.weight"), ("mobilebert", "layer.3.attention.self.query.weight")],
)
def test_weights_that_are_not_the_familys_own_fail(family: str, query: str) -> None:
    network = build(tiny_config(family))
    other = copy.deepcopy(network)
    with torch.no_grad():
        (weight,) = (one for name, one in other.named_parameters() if name.endswith(query))
        weight[:, :96] *= 1.1
    result = try_network(family, network, other)
    assert result.outcome == "fails" and "differ" in result.reason


def _trial(name: str) -> Result:
    if name == "dies":
        os._exit(3)
    if name == "hangs":
        threading.Event().wait()
    return Result(name, "works")


def test_a_family_that_dies_or_hangs_ends_only_its_own_trial() -> None:
    names = ["dies", "hangs", "bert", "gpt2"]
    outcomes = {one.family: one.outcome for one in sweep(names, 2, 1.5, _trial)}
    assert outcomes == {"dies": "fails", "hangs": "fails", "bert": "works", "gpt2": "works"}
