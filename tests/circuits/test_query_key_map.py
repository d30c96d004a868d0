"""Maps of queries and keys, against numpy in float64, and heads whose maps are known by hand."""

import copy
import sys
from dataclasses import replace
from types import ModuleType
from typing import ClassVar

import numpy as np
import pytest
import torch

import mha_viz as mv
from mha_viz.circuits.attribution.query_key_map import query_key_map
from mha_viz.core.attention.scoring import Scoring
from mha_viz.core.compare import query_key_space as space
from mha_viz.core.compare.query_key_map import map_of_records
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.core.record.fields import Token
from mha_viz.core.record.patterns import ComputedPatterns
from mha_viz.errors import (
    ArgumentError,
    AttentionUnavailableError,
    MissingPackageError,
    NotKeptError,
    TextError,
)
from tests.making.comparing import close
from tests.making.every_family import build

TEXTS = ["The old cat saw a small dog.", "Once upon a time there was a dog.", "Lily ran home."]
KEEP = ("pattern", "query", "key")
HEAD = (2, 5)


@pytest.fixture(scope="module")
def found(gpt) -> mv.QueryKeyMap:
    return query_key_map(gpt, TEXTS)


def _own_vectors(gpt, layer: int, head: int):
    """Scaled queries and keys of each text, by a hook in the library's own eager network."""
    network = copy.deepcopy(gpt.network).double().eval()
    network.set_attn_implementation("eager")
    d_model, d_head = gpt.d_model, gpt.d_model // gpt.n_heads
    left: list[torch.Tensor] = []
    hook = network.transformer.h[layer].attn.c_attn
    hook.register_forward_hook(lambda module, inputs, output: left.append(output[0].detach()))
    for text in TEXTS:
        with torch.no_grad():
            network(**gpt.tokenizer(text, return_tensors="pt"))
    part = slice(head * d_head, (head + 1) * d_head)
    queries = [one[:, :d_model][:, part].numpy() / np.sqrt(d_head) for one in left]
    return queries, [one[:, d_model : 2 * d_model][:, part].numpy() for one in left]


def _by_hand(queries, keys, c: float):
    """Score less its query's mean, and minus the squared distance, of all causal pairs."""
    middle = np.concatenate(queries).mean(0) - np.concatenate(keys).mean(0)
    scores, near = [], []
    for query, key in zip(queries, keys, strict=True):
        for i in range(1, len(query)):  # the first sees one key
            row = query[i] @ key[: i + 1].T
            scores += list(row - row.mean())
            near += list(-((c * query[i] - (key[: i + 1] + middle) / c) ** 2).sum(1))
    return np.array(scores), np.array(near)


def test_scale_and_correlation_are_those_of_an_eager_network_in_float64(gpt, found):
    queries, keys = _own_vectors(gpt, *HEAD)
    c = float(found.scale[HEAD])
    assert found.correlation[HEAD].item() == pytest.approx(
        np.corrcoef(*_by_hand(queries, keys, c))[0, 1], abs=1e-5
    )
    around = [np.corrcoef(*_by_hand(queries, keys, c * f))[0, 1] for f in (0.5, 0.84, 1.19, 2)]
    assert max(around) < found.correlation[HEAD]


def test_the_plane_is_that_of_a_singular_value_decomposition(gpt, found):
    queries, keys = (np.concatenate(part) for part in _own_vectors(gpt, *HEAD))
    c = float(found.scale[HEAD])
    both = np.concatenate([c * queries, (keys - keys.mean(0) + queries.mean(0)) / c])
    both -= both.mean(0)
    _, sizes, axes = np.linalg.svd(both, full_matrices=False)
    assert found.explained[HEAD].item() == pytest.approx((sizes**2)[:2].sum() / (sizes**2).sum())
    drawn = found.points[HEAD].reshape(-1, 2).double().numpy()
    close(np.abs(drawn), np.abs(both @ axes[:2].T), atol=1e-4)
    assert np.allclose(drawn.mean(0), 0, atol=1e-4)


def test_numbers_in_the_plane_are_those_of_its_points(gpt, found):
    queries, keys = _own_vectors(gpt, *HEAD)
    ends = np.cumsum([len(one) for one in queries])[:-1]
    flat = [np.split(one, ends) for one in found.points[HEAD].double().numpy()]
    scores, _ = _by_hand(queries, keys, 1.0)
    near = [
        -((query[i] - key[j]) ** 2).sum()
        for query, key in zip(*flat, strict=True)
        for i in range(1, len(query))
        for j in range(i + 1)
    ]
    want = np.corrcoef(scores, near)[0, 1]
    assert found.plane_correlation[HEAD].item() == pytest.approx(want, abs=1e-5)


@pytest.mark.parametrize("name", ["tiny-bert", "tiny-llama"])
def test_what_is_moved_and_scaled_gives_the_weights_of_the_run(name):
    record = mv.load(name).trace(TEXTS[1], keep=KEEP)
    for layer in range(record.n_layers):
        queries, keys = space.layer_vectors([record], layer, 999)
        pairs = space.sample_pairs([record], layer, (queries, keys), 999, torch.Generator())
        c = space.best_scale(queries, keys, pairs)[0][:, None, None]
        scores = (c * queries) @ (space.met(queries, keys) / c).mT
        if record.causal:
            scores.masked_fill_(torch.ones_like(scores).triu(1) > 0, -torch.inf)
        close(scores.softmax(-1), record.pattern[layer], atol=2e-5)


def _made(query: torch.Tensor, key: torch.Tensor) -> AttentionRecord:
    """A record of one layer and head with given queries and keys, where all see all."""
    patterns = ComputedPatterns((query[None],), (key[None],), (Scoring(1.0),))
    tokens = tuple(Token(f"t{i}", i) for i in range(len(query)))
    vectors = dict(query=query[None, None], key=key[None, None], scale=(1.0,))
    return AttentionRecord(patterns=patterns, tokens=tokens, text="made", **vectors)


def test_queries_and_keys_on_a_circle_lie_as_their_weights_say():
    angles = torch.arange(17) * 2 * torch.pi / 17
    circle = torch.stack([angles.cos(), angles.sin()], 1)
    far = 40 * torch.eye(2)[0]  # softmax does not see what all keys share
    found = map_of_records([_made(9 * circle, circle.roll(3, 0) + far)])
    for number in (found.correlation, found.plane_correlation):
        assert number.item() == pytest.approx(1, abs=1e-4)
    assert found.nearer_has_more.item() > 0.95  # but for two keys that are as near
    assert found.explained.item() == pytest.approx(1)
    assert abs(found.baseline.item()) < 0.2
    queries, keys = found.points[0, 0]
    assert torch.cdist(queries, keys).argmin(1).tolist() == [(i + 3) % 17 for i in range(17)]
    assert found.strongest[0, 0, :, 0].tolist() == [(i + 3) % 17 for i in range(17)]


def test_keys_that_are_all_the_same_have_no_correlation(gpt):
    found = map_of_records([_made(torch.randn(5, 3), torch.ones(5, 3))])
    assert found.correlation.isnan().all() and found.nearer_has_more.isnan().all()
    assert found.points.isfinite().all()
    found = query_key_map(gpt, "The")
    assert found.points.shape == (4, 8, 2, 1, 2) and found.correlation.isnan().all()


def test_the_strongest_keys_are_the_records(gpt, found):
    first = 0
    for text in TEXTS:
        record = gpt.trace(text)
        n = len(record.tokens)
        weights, keys = record.pattern.topk(4, -1)
        close(found.weights[:, :, first : first + n], weights)
        some = weights > 1e-4
        got = found.strongest[:, :, first : first + n]
        assert torch.equal(got[some].long(), (keys + first)[some])
        first += n
    assert first == len(found.tokens) == len(found.text)


def test_tables(found):
    heads = found.table()
    assert heads["plane_correlation"].is_monotonic_decreasing
    row = heads.iloc[0]
    assert found.plane_correlation[int(row["layer"]), int(row["head"])] == row["plane_correlation"]
    n = len(found.tokens)
    points = found.points_table(*HEAD)
    assert points["kind"].tolist() == ["query"] * n + ["key"] * n
    close(points[["x", "y"]].to_numpy(), found.points[HEAD].reshape(-1, 2))
    close(points["weight"][:n], found.weights[HEAD][:, 0])


def test_texts_are_drawn_by_their_seed_where_there_are_too_many(gpt):
    texts = [f"Text number {i} of many." for i in range(29)]
    found = query_key_map(gpt, texts, max_points=113, seed=3)
    assert 0 < len(found.tokens) <= 56 and len(found.texts) < 29
    assert found.texts == tuple(text for text in texts if text in found.texts)
    again, other = (query_key_map(gpt, texts, max_points=113, seed=i) for i in (3, 4))
    assert again.texts == found.texts != other.texts
    assert torch.equal(again.points, found.points)
    one = query_key_map(gpt, TEXTS[0], max_points=7)
    assert len(one.tokens) == 3 and int(one.strongest.max()) < 3


@pytest.mark.parametrize(("name", "more"), [("t5", True), ("gpt_oss", True), ("bert", False)])
def test_it_says_where_weights_do_not_follow_from_products_alone(name, more):
    found = query_key_map(build(name), TEXTS[0])
    assert any("products of queries and keys alone" in note for note in found.notes) == more


class _Layout:
    """A stand-in for t-SNE and UMAP: the first two dimensions, so that they are known."""

    given: ClassVar[list[int]] = []

    def __init__(self, **settings: object) -> None:
        assert settings["random_state"] == 5

    def fit_transform(self, vectors: np.ndarray) -> np.ndarray:
        self.given.append(len(vectors))
        return vectors[:, :2]


@pytest.mark.parametrize("method", ["tsne", "umap"])
def test_a_library_lays_out_the_heads_that_are_asked_for(method, gpt, found, monkeypatch):
    for name, attribute in (("sklearn", ""), ("sklearn.manifold", "TSNE"), ("umap", "UMAP")):
        module = ModuleType(name)
        setattr(module, attribute or "name", _Layout)
        monkeypatch.setitem(sys.modules, name, module)
    made = query_key_map(gpt, TEXTS, method=method, heads=[(1, 3)], seed=5)
    assert _Layout.given.pop() == 2 * len(made.tokens) and not _Layout.given
    assert made.points[1, 3].isfinite().all()
    others = torch.ones(4, 8, dtype=torch.bool)
    others[1, 3] = False
    for numbers in (made.plane_correlation, made.nearer_has_more, made.explained):
        assert numbers[others].isnan().all()
    close(made.scale, found.scale)  # and what is known before the plane
    close(made.correlation, found.correlation)


def test_refusals(gpt, monkeypatch):
    record = gpt.trace(TEXTS[0], keep=KEEP)
    for name in ("sklearn", "sklearn.manifold", "umap"):
        monkeypatch.setitem(sys.modules, name, None)
    for method in ("tsne", "umap"):
        with pytest.raises(MissingPackageError, match=r"mha-viz\[maps\]"):
            query_key_map(gpt, TEXTS, method=method)
    with pytest.raises(ArgumentError, match="'mds'"):
        query_key_map(gpt, TEXTS, method="mds")
    with pytest.raises(ArgumentError, match=r"layer must lie in 0\.\.3, got 4"):
        query_key_map(gpt, TEXTS, method="tsne", heads=[(4, 0)])
    with pytest.raises(ArgumentError, match="16 points"):
        query_key_map(gpt, "The old cat", method="umap")
    with pytest.raises(ArgumentError, match="text"):
        query_key_map(gpt, [])
    with pytest.raises(TextError):
        query_key_map(gpt, ["The cat", " "])
    for wrong in (1, True, 2.5):
        with pytest.raises(ArgumentError, match="max_points"):
            query_key_map(gpt, TEXTS, max_points=wrong)
    with pytest.raises(ArgumentError, match=r"head must lie in 0\.\.7"):
        query_key_map(gpt, TEXTS).figure(0, 8)
    with pytest.raises(NotKeptError):
        map_of_records([gpt.trace(TEXTS[0])])
    with pytest.raises(AttentionUnavailableError):
        map_of_records([replace(record, part="cross")])
