"""A convolution and heads that could be one: their training on few and on many strokes."""

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

import pandas as pd
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from mha_viz.core.attention.dot_product import softmax
from mha_viz.errors import ArgumentError
from mha_viz.learn.training import accuracy, train, weights_of

SIDE = 8  # pixels
CLASSES = ("lying", "standing", "falling", "rising")  # which way a stroke runs
COUNTS = (8, 32, 128, 512)  # pictures to learn from
N_UNSEEN = 500
CHANCE = 1 / len(CLASSES)
STEPS, BATCH = 400, 32
N_HEADS, CHANNELS = 9, 8
_STROKES = ((0, 1), (1, 0), (1, 1), (-1, 1))  # rows down, columns right, for each class
_NOISE = 0.25
RATE = 0.01  # of Adam


def draw(
    count: int, seed: int
) -> tuple[Float[Tensor, "picture row column"], Int[Tensor, " picture"]]:
    """Draw pictures of one stroke three pixels long, anywhere, on noise; and its direction.

    >>> pictures, classes = draw(5, seed=0)
    >>> pictures.shape, classes.tolist()
    (torch.Size([5, 8, 8]), [0, 1, 2, 3, 0])
    """
    random = torch.Generator().manual_seed(seed)
    classes = torch.arange(count) % len(CLASSES)
    pictures = _NOISE * torch.randn(count, SIDE, SIDE, generator=random)
    middles = torch.randint(1, SIDE - 1, (count, 2), generator=random)
    steps = torch.tensor(_STROKES)[classes]
    for along in (-1, 0, 1):
        row, column = (middles + along * steps).unbind(-1)
        pictures[torch.arange(count), row, column] += 1
    return pictures, classes


class Convolution(nn.Module):
    """Conv2d with 3 x 3 places, ReLU, the largest of each channel, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.read = nn.Conv2d(1, CHANNELS, 3, padding=1), nn.Linear(CHANNELS, 4)

    def forward(self, pictures: Tensor) -> Tensor:
        """Return scores of the classes, (picture, class)."""
        scores: Tensor = self.read(self.layer(pictures[:, None]).relu().amax((2, 3)))
        return scores


class Heads(nn.Module):
    """The same with nine heads in the place of the kernel: where each looks has to be learned.

    A head's score depends on how far a pixel is from its own, and is free for every distance: one
    head could look at one neighbour only, and nine of them be the convolution above.
    """

    def __init__(self) -> None:
        super().__init__()
        reach = 2 * SIDE - 1
        self.by_distance = nn.Parameter(torch.zeros(N_HEADS, reach, reach))
        self.mix, self.read = nn.Linear(N_HEADS, CHANNELS), nn.Linear(CHANNELS, 4)

    def pattern(self) -> Float[Tensor, "head query key"]:
        """Return the weights of each head from each pixel."""
        position = torch.cartesian_prod(torch.arange(SIDE), torch.arange(SIDE))
        distance = position - position[:, None] + SIDE - 1
        return softmax(self.by_distance[:, distance[..., 0], distance[..., 1]])

    def forward(self, pictures: Tensor) -> Tensor:
        """Return scores of the classes, (picture, class)."""
        gathered = torch.einsum("hqk,pk->pqh", self.pattern(), pictures.flatten(1))
        scores: Tensor = self.read(self.mix(gathered).relu().amax(1))
        return scores


KINDS: dict[str, type[nn.Module]] = {"convolution": Convolution, "heads": Heads}
TOTAL_STEPS = STEPS * len(COUNTS) * len(KINDS)


class Learned(NamedTuple):
    """The accuracy of both on new pictures, which neither ever saw, and on those learned from.

    Args:
        accuracy: a row for each count of `pictures`, with shares of pictures judged right, in
            [0, 1]: KIND_unseen, on 500 pictures, and KIND_training.
        pattern: (head, query, key) of the heads with the most pictures. parameters: by kind.
    """

    accuracy: pd.DataFrame
    pattern: Tensor
    parameters: dict[str, int]

    def from_middle(self) -> tuple[Float[Tensor, "head row column"], int, float]:
        """Return weights from the middle pixel, its row and column, and the share beside it.

        The share is a head's mean weight on the 3 x 3 pixels around it, in [0, 1].
        """
        middle = SIDE // 2
        maps = self.pattern[:, middle * SIDE + middle].unflatten(-1, (SIDE, SIDE))
        near = maps[:, middle - 1 : middle + 2, middle - 1 : middle + 2].sum()
        return maps, middle, float(near) / len(maps)

    def fewest(self) -> dict[str, str]:
        """Say by kind after how many pictures nine in ten new ones are classified correctly."""
        counts, enough = self.accuracy["pictures"], {}
        for kind in KINDS:
            good = counts[self.accuracy[f"{kind}_unseen"] >= 0.9]
            least = f"more than {counts.iloc[-1]}" if good.empty else f"{good.iloc[0]}"
            enough[kind] = f"{least} pictures"
        return enough


def learn(
    counts: Sequence[int] = COUNTS,
    seed: int = 0,
    n_steps: int = STEPS,
    on_step: Callable[[int], None] = lambda done: None,
) -> Learned:
    """Train both kinds, with as many steps each, on few and on many pictures.

    Args:
        counts: pictures to learn from, each in 4..4,096.
        seed: of pictures, of the numbers to begin with, and of what each step sees.
        n_steps: of Adam for each, 1..5,000.
        on_step: called with the number of steps done in all, now and then.

    Raises:
        ArgumentError: no counts, or numbers outside of that.

    Source: Cordonnier et al. 2020 for heads as a convolution; that attention needs more pictures
    than a convolution Dosovitskiy et al. 2021, section 4.3.

    >>> learn([4], n_steps=2).parameters
    {'convolution': 116, 'heads': 2141}
    """
    if not counts or not all(4 <= n <= 4_096 for n in counts) or not 1 <= n_steps <= 5_000:
        raise ArgumentError(
            f"Take 4 to 4,096 pictures and 1 to 5,000 steps, got {tuple(counts)} and {n_steps}."
        )
    test_set = draw(N_UNSEEN, N_UNSEEN + seed)
    rows: list[dict[str, float]] = [{"pictures": count} for count in counts]
    networks: dict[str, nn.Module] = {}
    for i, (row, kind) in enumerate(product(rows, KINDS)):
        training_set = draw(int(row["pictures"]), seed)
        networks[kind] = _trained(kind, training_set, seed, n_steps, on_step, i * n_steps)
        for name, (pictures, classes) in (("unseen", test_set), ("training", training_set)):
            row[f"{kind}_{name}"] = accuracy(networks[kind](pictures), classes)
    heads = networks["heads"]
    assert isinstance(heads, Heads)
    parameters = {kind: len(weights_of(network)) for kind, network in networks.items()}
    return Learned(pd.DataFrame(rows), heads.pattern().detach(), parameters)


def _trained(
    kind: str,
    examples: tuple[Tensor, Tensor],
    seed: int,
    n_steps: int,
    on_step: Callable[[int], None],
    before: int,
) -> nn.Module:
    """Train one kind on pictures, `before` steps after the beginning of all."""
    network, (pictures, classes) = KINDS[kind](), examples
    random = torch.Generator().manual_seed(seed)  # of its own: other visitors draw numbers, too
    for part in network.parameters():
        drawn = torch.randn(part.shape, generator=random)
        part.data = drawn / math.sqrt(part[0].numel()) if part.ndim > 1 else 0 * drawn
    random = torch.Generator().manual_seed(seed)

    def loss() -> Tensor:
        drawn = torch.randint(len(pictures), (BATCH,), generator=random)
        return F.cross_entropy(network(pictures[drawn]), classes[drawn])

    train(network, loss, n_steps, RATE, beta=0.999, on_step=lambda done: on_step(before + done))
    return network
