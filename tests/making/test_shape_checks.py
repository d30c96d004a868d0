"""A test of the checks of shapes that pytest's options switch on."""

import numpy as np
import pytest
from jaxtyping import TypeCheckError

from mha_viz.plots.head_values import by_layer


def test_a_wrong_shape_is_refused() -> None:
    with pytest.raises(TypeCheckError, match="by_layer"):
        by_layer(np.zeros((2, 3, 5)), "Entropy", "nats")
