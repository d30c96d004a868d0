"""Checkpoints from strangers: a model whose numbers are numbers, or one sentence of ours.

What single faults are answered with is tested in tests/checkpoints; here anything may be wrong.
"""

import json
import struct
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import mha_viz as mv
from mha_viz.errors import MhaVizError
from tests.making.checkpoints import bert, bounded, gpt2, save, spread
from tests.strangers.files.damage import as_json, changed, damaged, forged
from tests.strangers.fuzzing import LONG, fuzzed

pytestmark = pytest.mark.slow
TEXT = "the cat sat on a mat"
JSON_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json")


@pytest.fixture(scope="module", params=["bert", "gpt2"] if LONG else ["bert"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    network = {"bert": bert, "gpt2": gpt2}[request.param]()
    place = save(spread(network), tmp_path_factory.mktemp("whole") / request.param)
    mv.load(str(place)).trace(TEXT)  # what is loaded once is nobody's growth
    return place


def opened(folder: Path) -> str:
    """The sentence that refuses a checkpoint; "" of one that is run."""
    with bounded(seconds=1):
        try:
            model = mv.load(str(folder))
            record = model.trace(TEXT)
        except MhaVizError as error:
            said = str(error)
            assert 0 < len(said) < 2_000 and "\n" not in said and "Traceback" not in said, said
            return said
    assert record.pattern.isfinite().all()
    sums = record.pattern.sum(-1)
    assert torch.allclose(sums, torch.ones_like(sums), atol=1e-4)
    assert f"{record!r}{model!r}{record.labels}".encode()
    return ""


@given(data=st.data())
@fuzzed(daily=8, long=450)
def test_values_of_another_kind(folder: Path, tmp_path: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(JSON_FILES))
    value = data.draw(forged(json.loads((folder / name).read_text("utf-8"))))
    opened(changed(folder, tmp_path, name, as_json(value)))


@given(data=st.data())
@fuzzed(daily=6, long=450)
def test_damaged_bytes(folder: Path, tmp_path: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from((*JSON_FILES, "model.safetensors")))
    content = data.draw(damaged((folder / name).read_bytes()))
    opened(changed(folder, tmp_path, name, content))


@given(data=st.data())
@fuzzed(daily=6, long=450)
def test_weights_whose_header_lies(folder: Path, tmp_path: Path, data: st.DataObject) -> None:
    content = (folder / "model.safetensors").read_bytes()
    (size,) = struct.unpack_from("<Q", content)
    header = as_json(data.draw(forged(json.loads(content[8 : 8 + size]))))
    length = data.draw(st.sampled_from([len(header), len(header) + 8, 2**63, 0, 2**30]))
    forgery = struct.pack("<Q", length) + header + content[8 + size :]
    opened(changed(folder, tmp_path, "model.safetensors", forgery))
