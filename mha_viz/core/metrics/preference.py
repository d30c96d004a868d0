"""Heads that prefer some keys to others, whatever the query: their scores with keys reordered."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

N_ORDERS = 16  # four turns, each forwards and backwards, each as it is and with its sign changed
_RIDGE = 1e-9  # where rows share no keys, so that nothing tells theirs apart
_LEAST_WEIGHT = 1e-6  # smaller weights count as this one


def key_preferences(
    weights: Float[Tensor, "head query key"], visible: Bool[Tensor, "query key"]
) -> Float[Tensor, "head key"]:
    """Fit one number a key to the logarithms of a head's weights, in nats.

    The weights of a head that prefers the same keys in all rows are the softmax of these numbers
    over the keys that each row may see. They are the least-squares fit of a number a row and a
    number a key; their mean is 0.

    >>> weights = torch.tensor([[[1.0, 0.0], [0.8, 0.2]]])
    >>> key_preferences(weights, torch.ones(2, 2, dtype=torch.bool).tril())
    tensor([[ 0.6931, -0.6931]])
    """
    counted = visible.double()
    n_keys = counted.sum(-1).clamp(min=1)
    logarithms = weights.double().clamp_min(_LEAST_WEIGHT).log() * counted
    # The normal equations, without the numbers of the rows; those of the keys have the mean 0.
    of_rows = logarithms.sum(-1) / n_keys
    products = counted.sum(-2).diag() - (counted.mT / n_keys) @ counted
    products = products + 1 / len(products) + _RIDGE * torch.eye(len(products)).to(products)
    preferences = torch.linalg.solve(products, (logarithms.sum(-2) - of_rows @ counted).mT).mT
    return preferences.to(weights)


def other_orders(preferences: Float[Tensor, "head key"]) -> Float[Tensor, "order head key"]:
    """Turn the keys' numbers by quarters of the text, backwards too, and with their signs changed.

    What neighbouring keys have in common stays, and so does a trend. The first of the 16 orders is
    the one that is given: it is counted with the others (Phipson and Smyth 2010).
    """
    quarters = [quarter * preferences.shape[-1] // 4 for quarter in range(4)]
    turned = torch.stack([preferences.roll(quarter, -1) for quarter in quarters])
    both_ways = torch.cat([turned, turned.flip(-1)])
    return torch.cat([both_ways, -both_ways])


def scores_by_preference(
    preferences: Float[Tensor, "*head key"],
    weight: Float[Tensor, "query key"],
    visible: Bool[Tensor, "query key"],
) -> Float[Tensor, "*head"]:
    """Compute a metric that is linear in the weights, of heads that only prefer some keys.

    `weight` is what each weight counts in it. A row's weights are exp(preference) over their sum,
    among the keys that it may see, so that two products of matrices stand for all patterns.
    """
    strength = (preferences - preferences.amax(-1, keepdim=True)).double().exp()
    sums = strength @ visible.to(strength).mT
    counted = strength @ (weight * visible).to(strength).mT
    return (counted / sums.clamp_min(torch.finfo(torch.float64).tiny)).sum(-1)
