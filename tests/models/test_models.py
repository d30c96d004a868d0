"""The shipped models: they load without a network and do what their cards say."""

import csv
import json
import re
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from transformers import AutoModel, AutoTokenizer

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


def test_shape(loaded: tuple) -> None:
    kind, model, _ = loaded
    config = model.config
    assert (config.num_hidden_layers, config.num_attention_heads) == (4, 8)
    assert (config.hidden_size, config.vocab_size) == (256, data.VOCAB)
    assert config.max_position_embeddings == RECIPES[kind].context
    assert model.dtype == torch.float32
    tied = model.get_input_embeddings().weight is model.get_output_embeddings().weight
    assert tied, kind


def test_headless_model_loads(folder: Path) -> None:
    model = AutoModel.from_pretrained(folder, local_files_only=True)
    assert model.config.hidden_size == 256


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


@pytest.mark.parametrize("folder", [GPT2, LLAMA], ids=["tiny-gpt2", "tiny-llama"])
def test_byte_level_tokenizers_round_trip(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    for text in (*evaluate.SENTENCES, "Café “naïve” 日本 🙂\n\tx  y", " leading"):
        assert tokenizer.decode(tokenizer(text).input_ids) == text
    assert tokenizer.bos_token == tokenizer.eos_token == "<|endoftext|>"
    assert tokenizer.tokenize("The cat")[:1] == ["The"]


@pytest.mark.parametrize("folder", [GPT2, LLAMA], ids=["tiny-gpt2", "tiny-llama"])
def test_causal_models_foresee_plain_signs_better_than_printed_ones(folder: Path) -> None:
    """What their cards warn of: they were trained, and scored, on text made plain."""
    _, model, tokenizer = evaluate.load(folder)
    plain = '"I don\'t know," said the boy. "It\'s the old man\'s hat, and he... he lost it."'
    printed = "“I don’t know,” said the boy. “It’s the old man’s hat, and he… he lost it.”"
    rows = [torch.tensor([tokenizer(text).input_ids]) for text in (plain, printed)]
    with torch.inference_mode():
        losses = [float(model(input_ids=row, labels=row).loss) * row.shape[1] for row in rows]
    assert losses[1] > 1.2 * losses[0]
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "The text was made plain before it was measured" in card


def test_bert_tokenizer_template_and_round_trip() -> None:
    tokenizer = AutoTokenizer.from_pretrained(BERT, local_files_only=True)
    pair = tokenizer("The cat sat.", "It “ate”.")
    tokens = tokenizer.convert_ids_to_tokens(pair.input_ids)
    assert tokens[0] == "[CLS]" and tokens[-1] == "[SEP]" and tokens.count("[SEP]") == 2
    cut = tokens.index("[SEP]") + 1
    assert pair.token_type_ids == [0] * cut + [1] * (len(tokens) - cut)
    assert "[UNK]" not in tokens
    padded = tokenizer(["a", "a b c"], padding=True)
    assert padded.input_ids[0][-1] == tokenizer.pad_token_id == 0
    for sentence in evaluate.SENTENCES:
        ids = tokenizer(sentence).input_ids
        assert tokenizer.unk_token_id not in ids
        again = re.sub(r"\s", "", tokenizer.decode(ids, skip_special_tokens=True))
        assert again == re.sub(r"\s", "", sentence.lower())
    names = (tokenizer.cls_token, tokenizer.sep_token, tokenizer.mask_token, tokenizer.unk_token)
    assert names == ("[CLS]", "[SEP]", "[MASK]", "[UNK]")


def test_heads_are_there(loaded: tuple) -> None:
    kind, model, tokenizer = loaded
    scores = evaluate.head_scores(kind, model, tokenizer)
    assert scores.keys() == LEAST[kind].keys()
    for name, least in LEAST[kind].items():
        assert scores[name].max() >= least, name


@pytest.mark.parametrize("folder", [GPT2, LLAMA], ids=["tiny-gpt2", "tiny-llama"])
def test_second_copy_of_random_tokens_is_foreseen(folder: Path) -> None:
    _, model, _ = evaluate.load(folder)
    for distance, found in evaluate.induction(model).items():
        assert found["first"] > 7.5, distance
        assert found["second"] < 1.0, distance


def test_every_position_and_segment_was_trained() -> None:
    """An embedding that never got a gradient still has the length it was drawn with."""
    for path, names in (
        (GPT2, ["transformer.wpe.weight"]),
        (
            BERT,
            [
                "bert.embeddings.position_embeddings.weight",
                "bert.embeddings.token_type_embeddings.weight",
            ],
        ),
    ):
        with safe_open(path / "model.safetensors", "pt") as weights:
            for name in names:
                lengths = weights.get_tensor(name).float().norm(dim=1)
                drawn = 0.02 * 256**0.5
                assert ((lengths - drawn).abs() > 0.1 * drawn).all(), name


def test_cards_state_what_was_measured(folder: Path) -> None:
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\nlicense: apache-2.0\n")
    for block in ("heads", "held-out", "curve"):
        inside = card.split(f"<!-- {block} -->")[1].split(f"<!-- /{block} -->")[0]
        assert "|---" in inside, block
    assert evaluate.curve_table(folder) in card
    with open(folder / "training_curve.csv", newline="") as file:
        tokens = [int(row["tokens"]) for row in csv.DictReader(file)]
    assert tokens == sorted(tokens)


@pytest.mark.extended
def test_card_has_the_heads_of_the_weights(folder: Path, loaded: tuple) -> None:
    table = evaluate.head_table(*loaded)
    card = (folder / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"\| (L\d H\d) \|", table)
    assert named and named == re.findall(r"\| (L\d H\d) \|", card)
