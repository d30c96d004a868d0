"""The probe of all heads: its optimum, planted heads, and a recount word by word."""

import numpy as np
import pytest
import torch

import mha_viz as mv
from mha_viz.corpus.run import head_probe
from mha_viz.corpus.treebank.alignment import align_words
from mha_viz.corpus.treebank.trees import PUNCTUATION, REPORT, ROOT, read_conllu, sample_lines
from mha_viz.errors import ArgumentError, SourceError


@pytest.fixture(scope="module")
def found() -> mv.HeadProbe:
    return mv.probe_heads(mv.load("tiny-bert"), "sample", best=3)


def test_the_weights_are_those_of_the_highest_likelihood() -> None:
    rng, sizes = np.random.default_rng(3), [5, 2, 7, 3, 4, 6, 2, 5, 3, 11, 4]
    starts = np.cumsum([0, *sizes[:-1]])
    right = starts + [int(rng.integers(size)) for size in sizes]
    weights = rng.random((sum(sizes), 6), dtype=np.float32)
    none = np.zeros(len(sizes), int)
    fitted = torch.tensor(
        head_probe._fit(head_probe._Half(weights, np.zeros(sum(sizes), int), starts, right, none)),
        requires_grad=True,
    )

    losses = [
        -torch.log_softmax(torch.tensor(weights[begin : begin + size]).double() @ fitted, 0)[
            at - begin
        ]
        for begin, size, at in zip(starts, sizes, right, strict=True)
    ]
    loss = torch.stack(losses).mean() + 1e-4 * (fitted**2).sum()
    (gradient,) = torch.autograd.grad(loss, fitted)
    assert fitted.abs().max() > 1 and gradient.abs().max() < 1e-3


def test_heads_that_know_half_of_the_words_each_know_all_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = mv.load("tiny-gpt2")

    def planted(_model, batch):
        """Head 3 knows the heads of words at even places; 17 those of the others, backwards."""
        for item in batch.items:
            n = len(item.sentence.words)
            words = torch.zeros(32, n, n)
            for at, word in enumerate(item.sentence.words):
                if word.head != ROOT:
                    place = (3, at, word.head) if at % 2 == 0 else (17, word.head, at)
                    words[place] = 0.5
            yield item, words, torch.ones(n, dtype=torch.bool)

    monkeypatch.setattr(head_probe, "_between_words", planted)
    monkeypatch.setattr(head_probe, "random_weights", lambda model: None)
    found = mv.probe_heads(model, "sample", best=2)
    scores = found.scores.set_index("method")
    assert list(scores.index) == ["probe", "ensemble", "best_head", "best_offset"]
    assert found.best in (
        ((0, 3, "to_head"), (2, 1, "from_head")),
        ((2, 1, "from_head"), (0, 3, "to_head")),
    )
    assert scores.loc[["probe", "ensemble"], "accuracy"].tolist() == [1, 1]
    assert 0.35 < scores.at["best_head", "accuracy"] < 0.65
    assert scores.at["best_head", "p"] < 1e-6
    weight = found.weights.set_index(["layer", "head"])
    assert weight.at[(0, 3), "to_head"] > 1 and weight.at[(2, 1), "from_head"] > 1
    others = weight.drop(index=[(0, 3), (2, 1)])
    assert np.abs(others.to_numpy()).max() < 1e-6


def test_each_share_is_that_of_a_recount(found: mv.HeadProbe) -> None:
    model = mv.load("tiny-bert")
    weight = found.weights[["to_head", "from_head"]].to_numpy().reshape(4, 8, 2)
    n, hits = 0, dict.fromkeys(("probe", "ensemble", "best_head"), 0)
    for one in read_conllu(sample_lines()):
        if one.sentence.half != REPORT:
            continue
        record = model.trace(one.text)
        words = align_words(record.tokens, one.sentence).between_words(record.pattern).numpy()
        both = {"to_head": words, "from_head": words.swapaxes(-1, -2)}
        best = [both[way][layer, head] for layer, head, way in found.best]
        scores = {
            "probe": sum(
                np.einsum("lhij,lh->ij", both[way], weight[..., at]) for at, way in enumerate(both)
            ),
            "ensemble": np.mean(best, 0),
            "best_head": best[0],
        }
        if len(one.sentence.words) < 3:
            continue
        for at, word in enumerate(one.sentence.words):
            if word.head == ROOT or word.deprel == PUNCTUATION:
                continue
            n += 1
            for name, of in scores.items():
                others = np.where(np.arange(len(of)) == at, -np.inf, of[at])
                alone = (others == others.max()).sum() == 1
                hits[name] += alone and others.argmax() == word.head
    scores = found.scores.set_index("method")
    assert (scores["n_words"] == n).all() and n > 500
    for name, right in hits.items():
        assert scores.at[name, "accuracy"] == pytest.approx(right / n, abs=2.5 / n), name


@pytest.mark.parametrize("best", [0, -1, 65])
def test_a_number_of_heads_that_there_is_not_is_refused(best: int) -> None:
    with pytest.raises(ArgumentError, match=f"best.* 1 .*64.* {best}"):
        mv.probe_heads(mv.load("tiny-bert"), "sample", best=best)


def test_texts_without_trees_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SourceError, match="treebank"):
        mv.probe_heads(mv.load("tiny-bert"), ["The old cat slept.", "It rained."])
    monkeypatch.setattr(head_probe, "_MAX_BYTES", 10**6)
    with pytest.raises(ArgumentError, match=r"sample=\d+"):
        mv.probe_heads(mv.load("tiny-bert"), "sample")
