"""The pieces of the training recipe, on generated text."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from torch import nn

import mha_viz as mv
from models import data, probes, train
from models.optim import Muon
from tests.making.comparing import close, near

pytestmark = pytest.mark.slow

WORDS = ["the", "a", "cat", "dog", "bird", "sat", "ran", "on", "under", "mat", "tree", "old", "red"]


def story(rng: np.random.Generator, lines: int) -> str:
    """Nonsense, three sentences a line."""
    made = [" ".join(rng.choice(WORDS, 9)).capitalize() + "." for _ in range(3 * lines)]
    return "\n".join(" ".join(made[i : i + 3]) for i in range(0, len(made), 3))


def load_tokenizer(cache: Path, kind: str) -> Tokenizer:
    """The tokenizer in the cache."""
    return Tokenizer.from_file(str(cache / f"{kind}-tokenizer.json"))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text, tokenizers and tokens of a language of thirteen words."""
    folder = tmp_path_factory.mktemp("text")
    rng = np.random.default_rng(0)
    for number in range(3):
        (folder / f"book{number}.txt").write_text(story(rng, 60))
    (folder / f"se_{data.HELD_OUT_BOOKS[0]}.txt").write_text(story(rng, 60))
    articles = "\n\n".join(story(rng, 4) for _ in range(150))
    (folder / f"{data.WIKIPEDIA}.txt").write_text(articles)
    where = tmp_path_factory.mktemp("cache")
    for kind in train.RECIPES:
        data.prepare(kind, folder, where)
    return where


def small(kind: str, cache: Path, **changes: object) -> train.Recipe:
    """The recipe of a kind, cut down to one layer."""
    vocab = load_tokenizer(cache, kind).get_vocab_size()
    size = dict(n_layers=1, n_heads=2, d_model=16, vocab=vocab, tokens=2000)
    lengths = dict(lengths=(16, 32), until=(0.1, 1.0), batch_tokens=(128, 256))
    return replace(train.RECIPES[kind], **{**size, **lengths, **changes})


# --- optim


def test_muon_treats_fused_matrices_one_by_one() -> None:
    torch.manual_seed(0)
    grads = [torch.randn(8, 8) * scale for scale in (1.0, 10.0, 0.1)]
    fused = nn.Parameter(torch.zeros(8, 24))
    fused.grad = torch.cat(grads, dim=1)
    Muon([{"params": [fused], "parts": 3, "out_dim": 1}], weight_decay=0.0).step()
    for grad, part in zip(grads, fused.detach().chunk(3, dim=1), strict=True):
        alone = nn.Parameter(torch.zeros(8, 8))
        alone.grad = grad
        Muon([{"params": [alone], "out_dim": 1}], weight_decay=0.0).step()
        close(part, alone.detach())


# --- data


def test_held_out_text_is_not_trained_on(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "enwiki.txt").write_text("\n\n".join(f"Article {i}." for i in range(201)))
    (tmp_path / f"se_{data.HELD_OUT_BOOKS[1]}.txt").write_text("Kept away.")
    (tmp_path / "other.txt").write_text("Learned.")
    kept = list(data.documents(tmp_path, "wikipedia", held_out=True))
    assert kept == ["Article 0.", "Article 100.", "Article 200."]
    assert len(list(data.documents(tmp_path, "wikipedia", held_out=False))) == 198
    assert list(data.documents(tmp_path, "prose", held_out=True)) == ["Kept away."]
    assert list(data.documents(tmp_path, "prose", held_out=False)) == ["Learned."]


def test_masked_batch(cache: Path) -> None:
    corpora, rng = data.load("bert", cache, "train"), np.random.default_rng(0)
    batch = data.masked_batch(corpora, rng, 200, 32, 60)
    ids, labels, types = batch["input_ids"], batch["labels"], batch["token_type_ids"]
    assert ids.shape == labels.shape == types.shape == (200, 32)
    assert (ids[:, 0] == 2).all() and (labels[:, 0] == -100).all()
    ends = batch["attention_mask"].sum(1) - 1
    assert (ids[np.arange(200), ends] == 3).all()
    shown = (ids > 4) | (labels != -100)
    assert 0.12 < (labels != -100).sum() / shown.sum() < 0.18
    pairs = types.any(1)
    assert 0.15 < pairs.mean() < 0.4
    assert ((ids == 3).sum(1)[pairs] == 2).all()
    assert not (types & (1 - batch["attention_mask"])).any()


# --- train


@pytest.mark.parametrize("kind", train.RECIPES)
def test_resumed_run_equals_uninterrupted_run(kind: str, cache: Path, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    recipe = small(kind, cache)
    whole = train.Run(recipe, cache, tmp_path / "whole")
    whole.fit(measure_every=0, save_minutes=99, max_steps=3)
    train.Run(recipe, cache, tmp_path / "cut").fit(0, 99, max_steps=2)
    rest = train.Run(recipe, cache, tmp_path / "cut")
    assert rest.resume()
    assert rest.step == 2
    rest.fit(measure_every=0, save_minutes=99, max_steps=1)
    assert (rest.tokens, rest.phase) == (whole.tokens, whole.phase) == (512, 1)
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, rest.model.state_dict()[name]), name


# --- probes


class Fixed(nn.Module):
    """A model of one layer and one head that attends as it is told."""

    def __init__(self, weights: torch.Tensor, vocab: int = 50) -> None:
        super().__init__()
        self.weights, self.vocab = nn.Parameter(weights), vocab

    def forward(self, input_ids: torch.Tensor, output_attentions: bool = False) -> object:
        rows, n = input_ids.shape
        weights = self.weights[:n, :n].expand(rows, 1, n, n)
        logits = torch.zeros(rows, n, self.vocab)
        return type("Output", (), {"attentions": (weights,), "logits": logits})


def test_offset_scores_on_known_patterns() -> None:
    back = torch.zeros(8, 8)
    back[torch.arange(1, 8), torch.arange(7)] = 0.75
    scores = probes.offset_scores(Fixed(back), [range(8)], -1)
    assert scores.item() == pytest.approx(0.75)
    assert probes.offset_scores(Fixed(back), [range(8)], 1).item() == 0


def test_induction_on_known_patterns() -> None:
    period = 4
    weights = torch.zeros(8, 8)
    for query in range(period, 8):
        weights[query, query - period + 1] = 0.5
    found = probes.induction(Fixed(weights), 50, period=period, rows=2)
    assert found["heads"].item() == pytest.approx(0.5)
    assert found["first"] == found["second"] == near(np.log(50))


def test_checkpoints_are_models_and_change_nothing_of_the_run(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train, "KEPT_STEPS", (0, 2, 3))
    recipe = small("gpt2", cache)
    runs = [
        train.Run(recipe, cache, tmp_path / name, checkpoints)
        for name, checkpoints in (("with", tmp_path / "steps"), ("without", None))
    ]
    for run in runs:
        run.fit(0, 60.0, max_steps=3)
    weights = [run.model.state_dict() for run in runs]
    assert all(torch.equal(of, weights[1][name]) for name, of in weights[0].items())
    assert sorted(p.name for p in (tmp_path / "steps").iterdir()) == ["step-0", "step-2", "step-3"]
    first, _, last = (mv.load(str(place)) for place in sorted((tmp_path / "steps").iterdir()))
    begun = train.build(recipe).state_dict()
    for model, theirs in ((first, begun), (last, weights[0])):
        name = "transformer.h.0.attn.c_attn.weight"
        close(model.network.state_dict()[name], theirs[name], atol=1e-3)
