"""Lab 6, its training: a convolution and heads that could be one, on few and on many pictures."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import pandas as pd
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.optim import Adam

from mha_viz.core.attention.dot_product import softmax
from mha_viz.errors import ArgumentError
from mha_viz.learn.training import descend

SIDE = 8  # pixels
CLASSES = ("lying", "standing", "falling", "rising")  # which way a stroke runs
COUNTS = (8, 32, 128, 512)  # pictures to learn from
N_UNSEEN = 500
CHANCE = 1 / len(CLASSES)
STEPS, BATCH = 400, 32
N_HEADS, CHANNELS = 9, 8
_STROKES = ((0, 1), (1, 0), (1, 1), (-1, 1))  # rows down, columns right, for each class
_NOISE = 0.25
_RATE = 0.01  # of Adam


def strokes(
    count: int, seed: int
) -> tuple[Float[Tensor, "picture row column"], Int[Tensor, " picture"]]:
    """Draw pictures of one stroke three pixels long, anywhere, on noise; and its direction.

    >>> pictures, classes = strokes(5, seed=0)
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


@dataclass(frozen=True)
class Learned:
    """The accuracy of both: shares of pictures judged right, in [0, 1], one for each count.

    Args:
        counts: of pictures learned from.
        unseen: by kind, on 500 pictures that neither ever saw. training: on those learned from.
        pattern: (head, query, key) of the heads with the most pictures. parameters: by kind.
    """

    counts: tuple[int, ...]
    unseen: dict[str, list[float]]
    training: dict[str, list[float]]
    pattern: Tensor
    parameters: dict[str, int]


def learn(
    counts: Sequence[int] = COUNTS,
    seed: int = 0,
    n_steps: int = STEPS,
    on_step: Callable[[int], None] | None = None,
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
    unseen: dict[str, list[float]] = {kind: [] for kind in KINDS}
    training: dict[str, list[float]] = {kind: [] for kind in KINDS}
    test_set, networks = strokes(N_UNSEEN, N_UNSEEN + seed), {}
    for i, (count, kind) in enumerate(product(counts, KINDS)):
        training_set = strokes(count, seed)
        networks[kind] = network = _initialised(KINDS[kind](), seed)
        draws = torch.Generator().manual_seed(seed)
        loss = partial(_batch_loss, network, training_set, draws)
        for step in descend(Adam(network.parameters(), lr=_RATE), loss, n_steps):
            if on_step is not None and step % 20 == 0:
                on_step(i * n_steps + step)
        unseen[kind].append(_accuracy(network, test_set))
        training[kind].append(_accuracy(network, training_set))
    heads = networks["heads"]
    assert isinstance(heads, Heads)
    parameters = {kind: sum(p.numel() for p in net.parameters()) for kind, net in networks.items()}
    return Learned(tuple(counts), unseen, training, heads.pattern().detach(), parameters)


def accuracies(learned: Learned) -> pd.DataFrame:
    """Return the shares judged right, a row for each count of pictures."""
    shares = {"unseen": learned.unseen, "training": learned.training}
    columns = {f"{kind}_{on}": share for on, by in shares.items() for kind, share in by.items()}
    return pd.DataFrame({"pictures": learned.counts, **columns})


def fewest(learned: Learned) -> dict[str, str]:
    """Say by kind after how many pictures nine in ten new ones are classified correctly."""
    table, enough = accuracies(learned), {}
    for kind in KINDS:
        counts = table.pictures[table[f"{kind}_unseen"] >= 0.9]
        least = f"more than {learned.counts[-1]}" if counts.empty else f"{counts.iloc[0]}"
        enough[kind] = f"{least} pictures"
    return enough


@torch.no_grad()
def _initialised(network: nn.Module, seed: int) -> nn.Module:
    """Draw parameters from a generator of its own: other visitors draw some, too."""
    random = torch.Generator().manual_seed(seed)
    for part in network.parameters():
        drawn = torch.randn(part.shape, generator=random)
        part.copy_(drawn / math.sqrt(max(1, part[0].numel())) if part.ndim > 1 else 0 * drawn)
    return network


def _batch_loss(
    network: nn.Module, pictures: tuple[Tensor, Tensor], random: torch.Generator
) -> Tensor:
    drawn = torch.randint(len(pictures[0]), (BATCH,), generator=random)
    return F.cross_entropy(network(pictures[0][drawn]), pictures[1][drawn])


@torch.no_grad()
def _accuracy(network: nn.Module, pictures: tuple[Tensor, Tensor]) -> float:
    return float((network(pictures[0]).argmax(-1) == pictures[1]).double().mean())
