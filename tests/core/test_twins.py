"""Orders, clusters, maps, twins and covers of heads, against hand-made cases and brute force."""

import itertools

import numpy as np
import pytest
from scipy.cluster.hierarchy import leaves_list
from scipy.spatial.distance import cdist

from mha_viz.core.compare.twins import (
    classical_mds,
    covering_heads,
    head_order,
    nearest_others,
    nearest_twins,
)
from mha_viz.errors import ArgumentError

# Three groups on a line, given in a jumbled order: {0, 3, 5}, {1, 6}, {2, 4}.
PLACES = np.array([0.0, 10.0, 31.0, 1.0, 30.0, 2.5, 11.5])
LINE = np.abs(PLACES[:, None] - PLACES)


def random_distances(size: int, seed: int = 0) -> np.ndarray:
    points = np.random.default_rng(seed).normal(size=(size, 5))
    return cdist(points, points)


def without(distance: np.ndarray, *heads: int) -> np.ndarray:
    holed = distance.copy()
    for head in heads:
        holed[head] = holed[:, head] = np.nan
    return holed


def test_order_clusters_and_tree_of_a_hand_made_example() -> None:
    found = head_order(LINE)
    assert found.order in ((0, 3, 5, 1, 6, 4, 2), (2, 4, 6, 1, 5, 3, 0))
    assert found.order[0] < found.order[-1]  # not its mirror image
    assert found.undefined == () and found.heads == tuple(range(7))
    assert found.leaves() == leaves_list(found.linkage).tolist()
    assert found.labels(3).tolist() == [0, 1, 2, 0, 2, 0, 1]
    assert found.labels(2).tolist() == [0, 0, 1, 0, 1, 0, 0]
    assert found.labels(1).tolist() == [0] * 7
    assert sorted(found.labels(99).tolist()) == list(range(7))
    with pytest.raises(ArgumentError):
        found.labels(0)
    heights = found.linkage[:, 2]
    groups = LINE[np.ix_([0, 3, 5], [1, 6])].mean(), LINE[np.ix_([0, 3, 5, 1, 6], [2, 4])].mean()
    assert heights == pytest.approx([1, 1, 1.5, 2, *groups])


def test_heads_without_a_value_come_last() -> None:
    holed = without(LINE, 5, 0)
    found = head_order(holed)
    assert found.undefined == (0, 5) and found.order[-2:] == (0, 5)
    assert found.heads == (1, 2, 3, 4, 6)
    assert found.labels(3).tolist() == [-1, 1, 0, 2, 0, -1, 1]
    by_layer = head_order(holed, by="layer")
    assert by_layer.order == tuple(range(7)) and by_layer.undefined == (0, 5)
    assert (by_layer.labels(3) == found.labels(3)).all()


def test_a_lone_pair_without_a_distance_costs_one_head() -> None:
    holed = LINE.copy()
    holed[2, 4] = holed[4, 2] = np.nan
    assert head_order(holed).undefined == (2,)
    blank = LINE.copy()
    np.fill_diagonal(blank, np.nan)  # a diagonal that is only left blank says nothing of a head
    assert head_order(blank).order == head_order(LINE).order


def test_few_and_equal_heads() -> None:
    one = head_order(np.zeros((1, 1)))
    assert one.order == (0,) and one.labels(3).tolist() == [0] and one.leaves() == [0]
    none = head_order(np.full((1, 1), np.nan))
    assert none.undefined == (0,) and none.labels(1).tolist() == [-1] and none.leaves() == []
    two = head_order(np.full((2, 2), np.nan))
    assert two.undefined == (0, 1)
    equal = head_order(np.zeros((5, 5)))
    assert sorted(equal.order) == list(range(5)) and equal.labels(3).tolist() == [0] * 5


@pytest.mark.parametrize("size", [3, 32, 144])
@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e4])
def test_the_map_is_the_principal_plane_of_points(size: int, unit: float) -> None:
    """Torgerson: what classical scaling finds in distances, a singular decomposition finds in
    the centred points themselves."""
    points = unit * np.random.default_rng(size).normal(size=(size, 7))
    centred = points - points.mean(axis=0)
    left, singular, _ = np.linalg.svd(centred, full_matrices=False)
    found, explained = classical_mds(cdist(points, points))
    plane = left[:, :2] * singular[:2]
    assert cdist(found, found) == pytest.approx(cdist(plane, plane), abs=1e-8 * unit)
    assert explained == pytest.approx((singular[:2] ** 2).sum() / (singular**2).sum())


def test_the_map_does_not_flip() -> None:
    distance = random_distances(19)
    first, _ = classical_mds(distance)
    noise = 1e-3 * np.abs(np.random.default_rng(8).normal(size=distance.shape))
    again, _ = classical_mds(distance + (noise + noise.T) * (distance > 0))
    assert np.abs(first - again).max() < 0.1
    later = np.arange(19) - 9
    assert (later @ first > 0).all()


def test_the_explained_share_counts_positive_eigenvalues_only() -> None:
    distance = random_distances(11) ** 1.5  # no longer Euclidean
    square = distance**2
    centre = np.eye(11) - 1 / 11
    values = np.sort(np.linalg.eigvalsh(-0.5 * centre @ square @ centre))[::-1]
    assert values[-1] < 0
    _, explained = classical_mds(distance)
    assert explained == pytest.approx(values[:2].sum() / values[values > 0].sum())


def test_maps_of_few_equal_and_undefined_heads() -> None:
    points, explained = classical_mds(np.zeros((1, 1)))
    assert points.tolist() == [[0, 0]] and np.isnan(explained)
    points, explained = classical_mds(np.zeros((3, 3)))
    assert (points == 0).all() and np.isnan(explained)
    points, explained = classical_mds(np.array([[0.0, 3.0], [3.0, 0.0]]))
    assert points == pytest.approx(np.array([[-1.5, 0], [1.5, 0]])) and explained == 1.0
    points, explained = classical_mds(np.full((2, 2), np.nan))
    assert np.isnan(points).all() and np.isnan(explained)
    points, _ = classical_mds(without(LINE, 2, 5))
    assert np.isnan(points).all(axis=1).tolist() == [i in (2, 5) for i in range(7)]
    known = points[[0, 1, 3, 4, 6]]
    assert cdist(known, known) == pytest.approx(LINE[np.ix_([0, 1, 3, 4, 6], [0, 1, 3, 4, 6])])
    points, explained = classical_mds(1.0 - np.eye(7))  # all equally far: a simplex
    assert explained == pytest.approx(2 / 6)


def test_nearest_twins() -> None:
    distance = without(LINE[:6, :6], 2)
    table = nearest_twins(distance, 3)
    assert table.columns.tolist() == ["layer", "head", "twin_layer", "twin_head", "distance"]
    assert list(zip(table["layer"], table["head"], strict=True)) == [
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 0),
        (1, 1),
        (1, 2),
    ]
    assert table["twin_layer"].isna().tolist() == [False, False, True, False, False, False]
    assert table["distance"].tolist() == pytest.approx([1, 7.5, np.nan, 1, 20, 1.5], nan_ok=True)
    twins = (3 * table["twin_layer"] + table["twin_head"]).dropna().tolist()
    assert twins == [3, 5, 0, 1, 3]
    ties = nearest_twins(1.0 - np.eye(5), 5)
    assert ties["twin_head"].tolist() == [1, 0, 0, 0, 0]
    assert nearest_twins(np.zeros((1, 1)), 1)["distance"].isna().all()
    with pytest.raises(ArgumentError):
        nearest_twins(LINE, 3)


def test_nearest_others_are_those_of_a_loop() -> None:
    distance = without(random_distances(11), 3)
    twins, apart = nearest_others(distance)
    for head, row in enumerate(distance):
        others = [j for j in range(11) if j not in (3, head)] if head != 3 else []
        assert twins[head] == min(others, key=row.__getitem__, default=-1)
        assert apart[head] == row[twins[head]] if others else np.isnan(apart[head])


def coverage(similarity: np.ndarray, chosen: tuple[int, ...]) -> float:
    return float(similarity[:, chosen].max(axis=1).sum())


@pytest.mark.parametrize("seed", range(5))
def test_covering_heads_against_brute_force(seed: int) -> None:
    similarity = np.exp(-random_distances(11, seed))
    found = covering_heads(similarity, 11)
    assert sorted(found.heads) == list(range(11)) and found.covered[-1] == pytest.approx(1)
    assert (np.diff(found.covered) >= 0).all()
    for k in (1, 2, 3):
        best = max(coverage(similarity, c) for c in itertools.combinations(range(11), k))
        here = coverage(similarity, tuple(found.heads[:k]))
        assert found.covered[k - 1] == pytest.approx(here / similarity.max(axis=1).sum())
        assert best * (1 - 1 / np.e) <= here <= best + 1e-12
        assert k > 1 or here == pytest.approx(best)
        # every step is the best single addition
        before = tuple(found.heads[: k - 1])
        assert here == pytest.approx(max(coverage(similarity, (*before, j)) for j in range(11)))


def test_covering_heads_of_odd_matrices() -> None:
    assert covering_heads(np.ones((3, 3)), 5).heads == [0, 1, 2]
    assert covering_heads(-np.ones((3, 3)), 1).heads == [0]
    assert np.isnan(covering_heads(-np.ones((3, 3)), 1).covered).all()
    holed = without(np.exp(-LINE), 3)
    found = covering_heads(holed, 7)
    assert 3 not in found.heads and len(found.heads) == 6
    assert found.covered[-1] == pytest.approx(1)
    assert covering_heads(np.full((2, 2), np.nan), 1) == ([], [])
    with pytest.raises(ArgumentError):
        covering_heads(np.ones((3, 3)), 0)
