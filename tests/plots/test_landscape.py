"""The landscape of a loss: its numbers, its path, and what does not fit."""

import numpy as np
import pytest

from mha_viz.plots.curves import LossPlane, landscape

X, Y = np.linspace(-1, 1, 5), np.linspace(-2, 2, 4)
LOSS = 0.3 + X[None] ** 2 + Y[:, None] ** 2
PATH = np.array([[0.5, 1.0], [0.2, 0.1], [0.0, 0.0]])


def made(loss=LOSS, steps=(0, 10, 1_200)):
    plane = LossPlane(X, Y, loss, PATH)
    return landscape(plane, steps, title="Loss", x_title="one", y_title="two")


def test_heights_are_logarithms_and_hover_tells_the_loss():
    surface, path, end = made().data
    assert surface.z == pytest.approx(np.log10(LOSS))
    assert np.array(surface.customdata) == pytest.approx(LOSS)
    assert list(path.x) == PATH[:, 0].tolist() and list(path.y) == PATH[:, 1].tolist()
    assert path.hovertext == ("step 0", "step 10", "step 1,200")
    assert (end.x[0], end.y[0]) == (0, 0) and end.hovertext == ("step 1,200, the end",)


def test_a_loss_of_nothing_has_a_place():
    assert np.isfinite(made(loss=np.zeros((4, 5))).data[0].z).all()
