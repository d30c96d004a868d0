"""The scores of the induction probe, apart from it: reading them takes no model library."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from mha_viz.core.layer_numbers import head_name


@dataclass(frozen=True, eq=False)
class InductionScores:
    """The induction score of each head, with its interval.

    Args:
        mean: (layer, head), the mean score over the texts, a probability in [0, 1].
        low, high: (layer, head), its 95 % t-interval over the texts, cut to [0, 1].
        n_seeds: how many random texts.
        period: tokens in one copy.
        layer_numbers: the model's own, of the layer axis; none: 0, 1, 2 ...
        uniform, offset: what uniform attention (of the layers' mean, where layers see different
            keys), and a head that always looks at the token before, score on such texts.
    """

    mean: Float[Tensor, "layer head"]
    low: Float[Tensor, "layer head"]
    high: Float[Tensor, "layer head"]
    n_seeds: int
    period: int
    uniform: float
    offset: float
    layer_numbers: tuple[int, ...] = ()

    def __repr__(self) -> str:
        layer, head = divmod(int(self.mean.argmax()), self.mean.shape[1])
        return (
            f"InductionScores(best {head_name(layer, head, numbers=self.layer_numbers)} "
            f"{self.mean[layer, head]:.3g}, "
            f"uniform {self.uniform:.3g}, {self.n_seeds} texts of {self.period} repeated tokens)"
        )
