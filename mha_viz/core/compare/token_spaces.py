"""Tokens of texts as points in the spaces of heads, and their principal components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from mha_viz.core.arguments import check_index
from mha_viz.core.layer_numbers import head_name
from mha_viz.core.record.attention_record import Token

T = TypeVar("T", bound=Sequence[int])
SPACES = ("queries", "keys", "values", "outputs")


@dataclass(frozen=True, eq=False, kw_only=True)
class TokenPoints:
    """Tokens of several texts, which a picture has as points.

    Args:
        tokens: of each point.
        text: the number of its text among `texts`.
        position: its place in that text.
        texts: that the tokens are of.
        model, notes: where they come from.
    """

    tokens: tuple[Token, ...]
    text: Int[Tensor, " token"]
    position: Int[Tensor, " token"]
    texts: tuple[str, ...] = ()
    model: str = ""
    notes: tuple[str, ...] = ()

    def token_table(self, **columns: Any) -> pd.DataFrame:
        """Make a row for each token: token, text, position, and further columns."""
        labels = [token.text for token in self.tokens]
        about = {"token": labels, "text": self.text.numpy(), "position": self.position.numpy()}
        return pd.DataFrame(about | columns)


@dataclass(frozen=True, eq=False, kw_only=True)
class HeadSpaces(TokenPoints):
    """Queries, keys, values and outputs of one head, on the principal components of each space.

    Args:
        coordinates: of each token in each of `SPACES`, around the mean over all tokens; the unit is
            that of the vectors, and the sign of a component is arbitrary. Queries and keys are as
            the scores saw them; an output is z W_O, what the head writes to the residual stream
            where it looks from that token.
        explained: the share of a space's variance on each component, in [0, 1], the largest first;
            NaN where nothing varies.
        received: the mean weight that the head gives each token as a key, over the queries that
            see it.
        layer, head: the layer by its own number.

    >>> import mha_viz as mv
    >>> spaces = mv.head_spaces(mv.load("tiny-gpt2"), ["The cat sat on the mat."], 1, 3)
    >>> spaces.coordinates.shape, spaces.explained.shape
    (torch.Size([4, 7, 8]), torch.Size([4, 8]))
    >>> spaces.table(components=(0, 2)).columns.tolist()[-2:]
    ['outputs 1', 'outputs 3']
    """

    coordinates: Float[Tensor, "space token component"]
    explained: Float[Tensor, "space component"]
    received: Float[Tensor, " token"]
    layer: int
    head: int

    def check_components(self, components: T) -> T:
        """Return components, counted from 0; ArgumentError where there is none of a number."""
        for component in components:
            check_index("component", component, self.coordinates.shape[-1])
        return components

    def table(self, components: Sequence[int] = (0, 1)) -> pd.DataFrame:
        """Make a row for each token, with its coordinates on some components in every space.

        `components` are counted from 0, and from 1 in the columns: "queries 1", "keys 1" and so on.
        ArgumentError: no such component.
        """
        self.check_components(components)
        columns = {
            f"{space} {i + 1}": coordinates[:, i].numpy()
            for space, coordinates in zip(SPACES, self.coordinates, strict=True)
            for i in components
        }
        return self.token_table(received=self.received.numpy(), **columns)

    def __repr__(self) -> str:
        n_tokens, n_components = self.coordinates.shape[1:]
        name = head_name(self.layer, self.head)
        return (
            f"HeadSpaces({self.model!r}, {name}, {n_tokens:,} tokens of {len(self.texts):,} texts "
            f"on {n_components} components)"
        )


def principal_components(
    vectors: Float[Tensor, "*head token d"], n: int
) -> tuple[Float[Tensor, "*head token component"], Float[Tensor, "*head component"]]:
    """Return coordinates on the n directions of most variance, and their shares of it in [0, 1].

    Coordinates are around the mean over tokens.
    """
    centred = vectors.double() - vectors.double().mean(-2, keepdim=True)
    directions, explained = principal_directions(centred.mT @ centred, n)
    return (centred @ directions.double()).float(), explained


def principal_directions(
    covariance: Float[Tensor, "*head d d"], n: int
) -> tuple[Float[Tensor, "*head d direction"], Float[Tensor, "*head direction"]]:
    """Return the n directions of most variance, the first first, and their shares of it in [0, 1].

    There are d of them at the most. The largest part of each direction is positive, so that the
    same vectors give the same map. Shares are NaN where nothing varies.
    """
    values, vectors = torch.linalg.eigh(covariance.double())
    directions = vectors.flip(-1)[..., :n]
    largest = directions.gather(-2, directions.abs().argmax(-2, keepdim=True))
    directions = directions * torch.where(largest < 0, -1.0, 1.0)
    values = values.clamp(min=0.0).flip(-1)
    return directions.float(), (values[..., :n] / values.sum(-1, keepdim=True)).float()
