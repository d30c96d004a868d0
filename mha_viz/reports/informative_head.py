"""The head to look at first."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Num
from torch import Tensor

# What a head does that looks at places and not at words.
PLACES = ("previous_token", "next_token", "self_token", "first_token", "special_token")


def most_informative_head(
    scores: Mapping[str, Num[np.ndarray | Tensor, "layer head"]],
) -> tuple[int, int]:
    """Choose the head that says most about the words of a text, by its scores alone.

    That is the largest `mutual_information` (the head picks different keys for different tokens,
    and is sure of them), times the shares of its weight that lie elsewhere than where heads look
    whatever the words are: at the token before, after, itself, the first, special ones. A rule of
    thumb for opening a page, not a finding.

    Returns its layer and head; (0, 0) where the scores of all heads are equal. Keys of `METRICS`
    that are missing are passed over.

    >>> scores = {"mutual_information": np.array([[0.9, 1.0]]),
    ...           "previous_token": np.array([[0.1, 0.9]])}
    >>> most_informative_head(scores)
    (0, 0)
    """
    if "mutual_information" not in scores:
        return 0, 0
    worth = np.nan_to_num(np.asarray(scores["mutual_information"], dtype=np.float64))
    for key in PLACES:
        if key in scores:
            worth = worth * (1 - np.nan_to_num(np.asarray(scores[key], dtype=np.float64)))
    layer, head = np.unravel_index(int(worth.argmax()), worth.shape)
    return int(layer), int(head)
