"""A vision transformer that reads digits: its training, and what hiding patches does to it."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from safetensors.torch import load_file
from torch import Tensor, nn

from mha_viz.core.metrics.flow import last_rollout
from mha_viz.learn.training import Block, accuracy, initialised, normed, train, weights_of

FILE = Path(__file__).with_suffix(".safetensors")  # written by models/store_digits.py
SIDE, PATCH = 8, 2  # pixels
N_PATCHES = (SIDE // PATCH) ** 2
CLASSES, N_TESTED = 10, 360
D_MODEL, N_HEADS, N_LAYERS = 64, 4, 2
STEPS, WARMUP, BATCH = 2_000, 50, 64
MAX_HIDDEN_SHARE = 0.5  # of the patches of a training picture
HIDDEN = (0, 2, 4, 6, 8, 10, 12)  # patches
N_DRAWS = 20  # of random patches


class Digits(NamedTuple):
    """Pictures in [0, 1], 1 is ink, and the digits that they show."""

    pictures: Float[Tensor, "picture row column"]
    labels: Int[Tensor, "picture"]


@cache
def read_digits(tested: bool) -> Digits:
    """Read the pictures: those to learn from, or the 360 to test on, drawn at random once.

    Source: Alpaydin and Kaynak 1998, "Optical Recognition of Handwritten Digits", UCI Machine
    Learning Repository, CC BY 4.0: the 1,797 pictures of its test set, as scikit-learn ships them.
    """
    stored = load_file(FILE)
    order = torch.randperm(len(stored["labels"]), generator=torch.Generator().manual_seed(0))
    chosen = order[:N_TESTED].sort().values if tested else order[N_TESTED:]
    return Digits(stored["pictures"][chosen].double() / 16, stored["labels"][chosen].long())


class VisionTransformer(nn.Module):
    """A transformer over 16 patches of 2 x 2 pixels and a class token, which stands first.

    Source: Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words", figure 1, tiny.
    """

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Linear(PATCH**2, D_MODEL)
        self.positions = nn.Parameter(torch.zeros(1 + N_PATCHES, D_MODEL))  # the class token's, too
        self.blocks = nn.ModuleList(Block(D_MODEL, N_HEADS) for _ in range(N_LAYERS))
        self.classes = nn.Linear(D_MODEL, CLASSES)

    def forward(
        self,
        pictures: Float[Tensor, "picture row column"],
        hidden: Bool[Tensor, "picture patch"] | None = None,
    ) -> tuple[Float[Tensor, "picture digit"], list[Float[Tensor, "picture head query key"]]]:
        """Return logits and each layer's pattern; no token attends to `hidden` patches."""
        tokens = F.pad(self.patches(patches_of(pictures)), (0, 0, 1, 0)) + self.positions
        visible = None if hidden is None else ~F.pad(hidden, (1, 0))[:, None, None]
        patterns = []
        for block in self.blocks:
            tokens, pattern = block(tokens, visible=visible)
            patterns.append(pattern)
        return self.classes(normed(tokens[:, 0])), patterns


def patches_of(
    pictures: Float[Tensor, "picture row column"],
) -> Float[Tensor, "picture patch pixel"]:
    """Cut pictures into patches, row after row.

    >>> patches_of(torch.arange(64.0).view(1, 8, 8))[0, 1]
    tensor([ 2.,  3., 10., 11.])
    """
    return F.unfold(pictures[:, None], PATCH, stride=PATCH).mT


def class_token_weights(
    patterns: list[Float[Tensor, "picture head query key"]],
) -> dict[str, Tensor]:
    """Return (picture, patch): the class token's weights of the last layer, and its rollout."""
    rolled = [last_rollout(layers) for layers in zip(*patterns, strict=True)]
    return {
        "attention": patterns[-1][:, :, 0, 1:].mean(1),
        "rollout": torch.stack(rolled)[:, 0, 1:],
    }


def top_patches(
    values: Float[Tensor, "picture patch"], count: int
) -> Bool[Tensor, "picture patch"]:
    """Mark the patches with the `count` largest values."""
    return torch.zeros_like(values, dtype=torch.bool).scatter(1, values.topk(count).indices, True)


@torch.no_grad()
def accuracy_with_hidden(
    network: VisionTransformer, tested: Digits, seed: int
) -> dict[str, list[float]]:
    """Measure the share of digits still read right with `HIDDEN` patches hidden, by their choice.

    Patches with the most attention, rollout or ink are hidden, those with the least attention, or
    random ones: then it is a mean over 20 draws.
    """
    _, patterns = network(tested.pictures)
    by = class_token_weights(patterns) | {"ink": patches_of(tested.pictures).sum(-1)}
    orders = {name: [values] for name, values in by.items()}
    random = torch.Generator().manual_seed(seed)
    shape = by["ink"].shape
    orders["random"] = [torch.rand(shape, generator=random) for _ in range(N_DRAWS)]
    orders["least"] = [-by["attention"]]

    def right(values: Tensor, count: int) -> float:
        logits, _ = network(tested.pictures, top_patches(values, count))
        return accuracy(logits, tested.labels)

    return {
        name: [sum(right(values, n) for values in draws) / len(draws) for n in HIDDEN]
        for name, draws in orders.items()
    }


class Reading(NamedTuple):
    """A vision transformer's training.

    Args:
        weights: all of the network's, as one vector.
        right: share of the tested digits that it reads right.
        linear: that share for a linear classifier of the same pictures' 64 pixels.
        hidden: that share by the choice and number of hidden patches, as of `hidden_right`.
    """

    weights: Tensor
    right: float
    linear: float
    hidden: dict[str, list[float]]


def learn(
    n_steps: int = STEPS, seed: int = 0, on_step: Callable[[int], None] | None = None
) -> Reading:
    """Train a vision transformer on digits, moved by up to a pixel, and half with hidden patches.

    So hidden patches are nothing new to it. In float64, so that rounding does not grow into another
    result on another processor.
    """
    training, tested = read_digits(False), read_digits(True)
    random = torch.Generator().manual_seed(seed)
    network = initialised(VisionTransformer(), D_MODEL, random).double()
    random = torch.Generator().manual_seed(seed)

    def loss() -> Tensor:
        chosen = torch.randint(len(training.labels), (BATCH,), generator=random)
        moved = _moved(training.pictures[chosen], torch.randint(3, (BATCH, 2), generator=random))
        share = (torch.rand(BATCH, 1, generator=random) * 2 - 1) * MAX_HIDDEN_SHARE  # below 0: none
        hidden = torch.rand(BATCH, N_PATCHES, generator=random) < share
        return F.cross_entropy(network(moved, hidden)[0], training.labels[chosen])

    train(network, loss, n_steps, 0.003, warmup=WARMUP, on_step=on_step)
    hidden = accuracy_with_hidden(network, tested, seed)
    linear = linear_accuracy(training, tested)
    return Reading(weights_of(network), hidden["attention"][0], linear, hidden)


def _moved(pictures: Tensor, steps: Int[Tensor, "picture 2"]) -> Tensor:
    """Move each picture by -1..1 pixels down and right, for steps of 0..2."""
    pixels = steps[..., None] + torch.arange(SIDE)
    rows, columns = pixels[:, 0, :, None], pixels[:, 1, None]
    return F.pad(pictures, (1, 1, 1, 1))[torch.arange(len(pictures))[:, None, None], rows, columns]


def linear_accuracy(training: Digits, tested: Digits) -> float:
    """Return the share that a linear classifier reads right: softmax regression, ||W||^2 / 2 added.

    The penalty is that of scikit-learn's LogisticRegression, C = 1.
    """
    linear = nn.Linear(SIDE**2, CLASSES).double()
    for part in linear.parameters():
        nn.init.zeros_(part)
    pixels = [part.pictures.flatten(1) for part in (training, tested)]
    descent = torch.optim.LBFGS(linear.parameters(), max_iter=300, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        descent.zero_grad()
        total = F.cross_entropy(linear(pixels[0]), training.labels, reduction="sum")
        total = total + linear.weight.square().sum() / 2
        total.backward()
        return total

    descent.step(loss)
    return accuracy(linear(pixels[1]), tested.labels)
