"""A fitted pattern on its page: what was painted, what a width makes, and the difference."""

import numpy as np
import pytest

from mha_viz.core.stored_runs import read
from mha_viz.learn.labs.any_pattern import numbers as any_pattern
from tests.ui.compare_app import check, matrices
from tests.ui.lab_app import lab


@pytest.mark.parametrize("d_k", [1, 3])
def test_width_shows_the_painted_the_made_and_the_difference(d_k: int) -> None:
    app = lab("any-pattern", "errors", width=str(d_k))
    check(app)
    fit = read(any_pattern.STORED[0])
    made = fit.pattern[d_k - 1]
    numbers = [np.array(matrix["numbers"]) for matrix in matrices(app)]
    for expected in (fit.target, made, made - fit.target):
        flat = expected.numpy().ravel()
        assert any(
            values.size == flat.size and np.allclose(values.astype(float), flat, atol=1e-3)
            for values in numbers
        )
