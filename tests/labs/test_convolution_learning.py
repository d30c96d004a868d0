"""Lab 6, its training: heads that could be the convolution need more pictures to become one."""

import pytest
import torch

from mha_viz.learn.labs.convolution import learning as lab
from tests.making.comparing import close


def test_the_heads_can_be_the_convolution():
    """So what they lack is not the ability, but pictures that tell where to look."""
    torch.manual_seed(0)
    conv, heads = lab.Convolution(), lab.Heads()
    offsets = torch.cartesian_prod(torch.arange(3), torch.arange(3)) - 1 + lab.SIDE - 1
    with torch.no_grad():
        for i, (row, column) in enumerate(offsets):
            heads.by_distance[i, row, column] = 40.0
        heads.mix.weight.copy_(conv.layer.weight.flatten(1))
        heads.mix.bias.copy_(conv.layer.bias)
        pictures, _ = lab.strokes(6, seed=1)
        made = heads.mix(torch.einsum("hqk,pk->pqh", heads.pattern(), pictures.flatten(1)))
    exact = conv.layer(pictures[:, None]).flatten(2).mT.reshape(6, lab.SIDE, lab.SIDE, -1)
    inside = made.reshape(6, lab.SIDE, lab.SIDE, -1)[:, 1:-1, 1:-1]  # borders are lab 6's own part
    close(inside, exact[:, 1:-1, 1:-1])


@pytest.mark.extended
def test_few_pictures_are_enough_for_a_convolution_and_not_for_heads():
    found = lab.learn(seed=1)
    convolution, heads = (found.unseen[kind] for kind in ("convolution", "heads"))
    assert convolution[1] > 0.95  # 32 pictures
    assert heads[1] < 0.7 < 0.8 < heads[-1]  # 32, and 512
    assert found.training["heads"][1] > 0.95  # it knows those 32 by heart
    assert all(c > h for c, h in zip(convolution, heads, strict=True))
