"""Checkpoints from strangers: a model whose numbers are numbers, or one sentence of ours.

What single faults are answered with is tested in tests/checkpoints; here anything may be wrong.
"""

import json
import os
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
from tests.strangers.files.exploding import EITHER, REFUSED, RUN, SETTINGS
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


CASES = {
    "weights that are a program (pickle)": (
        "model.safetensors",
        b"cos\nsystem\n(S'touch gone'\ntR.",
    ),
    "weights that are an archive": ("model.safetensors", b"PK\x03\x04" + bytes(64)),
    "a header of lists in lists": (
        "model.safetensors",
        struct.pack("<Q", 4_000_000) + b"[" * 4_000_000,
    ),
    "a config of lists in lists": ("config.json", b"[" * 100_000),
    "a config in UTF-16": ("config.json", '{"model_type": "bert"}'.encode("utf-16")),
    "a config that is a list": ("config.json", b"[]"),
    "no config": ("config.json", b""),
    "a tokenizer of nulls": ("tokenizer.json", bytes(1_000)),
    "a pattern that goes astray": (
        "tokenizer.json",
        json.dumps(
            {
                "version": "1.0",
                "pre_tokenizer": {
                    "type": "Split",
                    "pattern": {"Regex": "(a+)+$"},
                    "behavior": "Isolated",
                    "invert": False,
                },
                "model": {"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"},
            }
        ).encode(),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_no_checkpoint_is_refused_and_nothing_runs(
    folder: Path, tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name, content = CASES[case]
    said = opened(changed(folder, tmp_path, name, content))
    assert said or case == "a pattern that goes astray"  # on this text it does not
    assert not (tmp_path / "gone").exists()


@pytest.mark.parametrize("case", [*REFUSED, *RUN, *EITHER])
def test_tokenizers_that_explode(folder: Path, tmp_path: Path, case: str) -> None:
    whole = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    odd = whole | (REFUSED | RUN | EITHER)[case]
    said = opened(changed(folder, tmp_path, "tokenizer.json", as_json(odd)))
    assert bool(said) == (case in REFUSED) or case in EITHER, said


@pytest.mark.parametrize("case", SETTINGS)
def test_settings_of_a_tokenizer_that_no_file_has(
    folder: Path, tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    whole = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
    place = changed(folder, tmp_path, "tokenizer_config.json", as_json(whole | SETTINGS[case]))
    (place / "evil.py").write_text("open('gone', 'w')\nclass Tokenizer: ...")
    opened(place)
    assert not (tmp_path / "gone").exists()


def test_links_lead_to_nothing_of_the_machine(folder: Path, tmp_path: Path) -> None:
    place = changed(folder, tmp_path, "config.json", (folder / "config.json").read_bytes())
    (place / "model.safetensors").unlink()
    secret = tmp_path / "secret"
    secret.write_text("a word that nobody is to read")
    os.symlink(secret, place / "model.safetensors")
    assert "word" not in opened(place) != ""
    (place / "model.safetensors").unlink()
    index = {"metadata": {}, "weight_map": {"embeddings.weight": "../secret"}}
    (place / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "word" not in opened(place) != ""
