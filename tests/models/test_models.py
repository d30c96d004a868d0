"""The shipped models: they load without a network and do what their cards say."""

import json
import re
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from transformers import AutoTokenizer

from models import data, evaluate
from models.recipe import RECIPES

FOLDERS = [evaluate.HERE / name for name in evaluate.NAMES]
GPT2, BERT, LLAMA = FOLDERS
MEGABYTE = 1_000_000
# What the cards say of the best head of each kind, with a margin.
LEAST = {
    "gpt2": {"previous token": 0.9, "induction, 32 tokens apart": 0.8},
    "bert": {"previous token": 0.8, "next token": 0.8},
    "llama": {
        "previous token": 0.95,
        "induction, 32 tokens apart": 0.85,
        "induction, 500 tokens apart": 0.65,
    },
}


@pytest.fixture(scope="module", params=FOLDERS, ids=evaluate.NAMES)
def folder(request: pytest.FixtureRequest) -> Path:
    """The folder of each shipped model in turn."""
    return request.param


@pytest.fixture(scope="module")
def loaded(folder: Path) -> tuple:
    """Kind, model and tokenizer."""
    torch.set_num_threads(1)
    return evaluate.load(folder)


def test_files_are_small_and_hold_no_pickle(folder: Path) -> None:
    files = {p.name for p in folder.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "README.md"} <= files
    assert not [name for name in files if name.endswith((".bin", ".pt", ".pth", ".pkl"))]
    most = 10 if folder == LLAMA else 12
    assert sum(p.stat().st_size for p in folder.iterdir()) <= most * MEGABYTE


def test_weights_are_float16_and_embeddings_are_stored_once(folder: Path) -> None:
    with safe_open(folder / "model.safetensors", "pt") as weights:
        tensors = {name: weights.get_tensor(name) for name in weights.keys()}
    assert {t.dtype for t in tensors.values()} == {torch.float16}
    assert all(t.isfinite().all() for t in tensors.values())
    assert sum(t.shape == (data.VOCAB, 256) for t in tensors.values()) == 1
    assert json.loads((folder / "config.json").read_text())["dtype"] == "float16"


def test_tokenizer(loaded: tuple) -> None:
    kind, _, tokenizer = loaded
    assert tokenizer.is_fast
    assert (len(tokenizer), tokenizer.model_max_length) == (data.VOCAB, RECIPES[kind].context)
    for number, piece in enumerate(data.SPECIAL[kind]):
        assert tokenizer.convert_tokens_to_ids(piece) == number
        assert piece in tokenizer.all_special_tokens


def test_llama_shares_keys_and_the_vocabulary_of_gpt2() -> None:
    _, model, tokenizer = evaluate.load(LLAMA)
    assert (model.config.num_key_value_heads, model.config.head_dim) == (2, 32)
    other = AutoTokenizer.from_pretrained(GPT2, local_files_only=True)
    assert tokenizer.get_vocab() == other.get_vocab()
    for text in evaluate.SENTENCES:
        assert tokenizer(text).input_ids == other(text).input_ids


def test_heads_are_there(loaded: tuple) -> None:
    kind, model, tokenizer = loaded
    scores = evaluate.head_scores(kind, model, tokenizer)
    assert scores.keys() == LEAST[kind].keys()
    for name, least in LEAST[kind].items():
        assert scores[name].max() >= least, name


@pytest.mark.extended
def test_card_has_the_heads_of_the_weights(folder: Path, loaded: tuple) -> None:
    table = evaluate.head_table(*loaded)
    card = (folder / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"\| (L\d H\d) \|", table)
    assert named and named == re.findall(r"\| (L\d H\d) \|", card)
