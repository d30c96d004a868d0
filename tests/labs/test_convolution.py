"""Lab 6: heads beside torch's convolution, and beside loops that know neither."""

import math

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from mha_viz.errors import ArgumentError
from mha_viz.learn.labs.convolution import differences, inputs
from mha_viz.learn.labs.convolution import numbers as convolution
from mha_viz.learn.networks import strokes
from tests.making.comparing import close, near

BORDERS = ("zeros", "nearest")


def random_case(rows=9, columns=7, n_in=3, n_out=3, size=3, seed=0):
    random = torch.Generator().manual_seed(seed)
    picture = torch.rand(rows, columns, n_in, generator=random)
    return picture, torch.randn(n_out, n_in, size, size, generator=random)


def by_loops(picture, kernel, border):
    """Every product written out."""
    rows, columns, _ = picture.shape
    n_out, _, size, _ = kernel.shape
    out = np.zeros((rows, columns, n_out))
    for p, q, i, j in np.ndindex(rows, columns, size, size):
        r, c = p + i - size // 2, q + j - size // 2
        if border == "nearest":
            r, c = min(max(r, 0), rows - 1), min(max(c, 0), columns - 1)
        if 0 <= r < rows and 0 <= c < columns:
            out[p, q] += kernel[:, :, i, j].double().numpy() @ picture[r, c].double().numpy()
    return torch.from_numpy(out).float()


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize(("size", "n_in", "n_out"), [(1, 3, 5), (3, 1, 1), (3, 4, 2), (5, 2, 3)])
def test_heads_are_the_convolution(size, n_in, n_out, border):
    picture, kernel = random_case(n_in=n_in, n_out=n_out, size=size)
    ours = convolution.attend(picture, kernel, 20.0, border)
    close(ours, by_loops(picture, kernel, border))
    exact = convolution.convolve(picture, kernel, border)
    close(ours, exact)


def test_scores_are_the_squared_distance_up_to_a_number_for_each_query():
    picture, kernel = random_case(rows=6, columns=5)
    layer = convolution.heads(kernel.double(), alpha=1.5)
    scores = layer(convolution.tokens(picture.double())).scores
    place = torch.cartesian_prod(torch.arange(6), torch.arange(5)).double()
    for head, offset in enumerate(convolution.offsets(3)):
        distance = torch.cdist(place + offset, place).square()
        rest = scores[head] + 1.5 * distance
        close(rest, rest[:, :1].expand_as(rest))
        expected = torch.softmax(-1.5 * distance, -1)
        close(torch.softmax(scores[head], -1), expected)


def test_the_parts_of_a_pixel_sum_to_the_output():
    picture, kernel = random_case()
    for row, column, border in ((0, 0, "zeros"), (8, 6, "nearest"), (4, 3, "zeros")):
        found = convolution.at_pixel(picture, kernel, 2.0, border, row, column)
        output = convolution.attend(picture, kernel, 2.0, border)[row, column]
        close(found.parts.sum(0), output)
        slices = kernel.flatten(2).permute(2, 1, 0)
        close(found.parts, torch.einsum("hi,hio->ho", found.z, slices))
    corner = convolution.at_pixel(picture, kernel, 2.0, "zeros", 0, 0).pattern.sum((1, 2))
    close(corner, torch.tensor([0.0, 0, 0, 0, 1, 1, 0, 1, 1]))


def test_what_misses_is_what_the_answer_says():
    assert 0.065 < convolution.leak(4.0) < 0.0745  # "about 7 %"
    assert convolution.leak(4.0) == pytest.approx(4 * math.exp(-4), rel=0.06)
    assert convolution.leak(20.0) < np.finfo(np.float32).eps / 2
    picture, kernel = random_case(rows=31, columns=31, n_in=1, n_out=1)
    for alpha in (0.3, 1.0, 4.0):
        found = convolution.at_pixel(picture, kernel, alpha, "zeros", 15, 15)
        missed = 1 - float(found.pattern[4, 15, 15])
        assert missed == near(convolution.leak(alpha))


@pytest.mark.parametrize("border", BORDERS)
def test_no_error_is_above_its_bound(border):
    for seed, size in enumerate((1, 3, 5)):
        picture, kernel = random_case(size=size, seed=seed)
        found = convolution.sharpness(picture, kernel, border)
        assert (found.measured <= found.bound * 1.001 + 1e-5).all()
        assert found.measured[0] > 100 * found.measured.iloc[-1]
    # a jump of the picture beside a pixel comes near it
    step = torch.zeros(15, 15, 1)
    step[7, 7] = 1
    kernel = torch.ones(1, 1, 1, 1)
    found = convolution.sharpness(step, kernel, border, [2.0])
    assert found.measured[0] == pytest.approx(found.bound[0], rel=1e-3)


def test_each_step_of_alpha_divides_the_error_by_e():
    error = convolution.sharpness(*random_case(), "zeros", [5.0, 6.0, 7.0]).measured
    assert error[0] / error[1] == pytest.approx(math.e, rel=0.05)
    assert error[1] / error[2] == pytest.approx(math.e, rel=0.05)


def test_one_head_knows_no_neighbours_and_nine_do():
    picture, kernel = random_case(size=1)
    alone = torch.einsum("rci,oi->rco", picture, kernel[:, :, 0, 0])
    close(convolution.attend(picture, kernel), alone)
    gaps = differences.shuffle_gaps(picture)
    assert gaps["one"] < 1e-5 and gaps["nine"] > 0.05


@pytest.mark.parametrize(("size", "n_in", "n_out"), [(1, 3, 3), (3, 1, 1), (5, 3, 2)])
def test_costs_are_those_that_torch_counts(size, n_in, n_out):
    picture, kernel = random_case(n_in=n_in, n_out=n_out, size=size)
    bill = differences.cost(9 * 7, kernel)
    layer, x = convolution.heads(kernel, 20.0), convolution.tokens(picture, max(n_in, n_out))
    with FlopCounterMode(display=False) as counted, torch.no_grad():
        found = layer(x)
    assert counted.get_total_flops() == 2 * bill["attention"]
    assert bill["pattern"] == found.pattern.numel() * 4
    with FlopCounterMode(display=False) as counted:
        convolution.convolve(picture, kernel)
    assert counted.get_total_flops() == 2 * bill["convolution"]


# -- pictures and kernels --------------------------------------------------------------------------


def test_kernels_do_what_they_are_called():
    expected = dict(identity=1, blur=1, sharpen=1, edge=0, emboss=1)
    for size in (3, 5):
        total = {name: sum(map(sum, inputs.kernel_numbers(name, size))) for name in expected}
        assert total == pytest.approx(expected)
    assert inputs.kernel_numbers("emboss", 3) == ((-2, -1, 0), (-1, 1, 1), (0, 1, 2))
    picture = inputs.picture("house", 16, colour=True)
    grey = inputs.full_kernel(inputs.kernel_numbers("grey", 1, colour=True), 1, 3)
    close(convolution.attend(picture, grey)[:, :, :1], inputs.picture("house", 16))
    assert inputs.kernel_numbers("brighten", 1) == ((1.5,),)


def test_the_heads_can_be_the_convolution():
    """So what they lack is not the ability, but pictures that tell where to look."""
    torch.manual_seed(0)
    conv, heads = strokes.Convolution(), strokes.Heads()
    offsets = torch.cartesian_prod(torch.arange(3), torch.arange(3)) - 1 + strokes.SIDE - 1
    with torch.no_grad():
        for i, (row, column) in enumerate(offsets):
            heads.by_distance[i, row, column] = 40.0
        heads.mix.weight.copy_(conv.layer.weight.flatten(1))
        heads.mix.bias.copy_(conv.layer.bias)
        pictures, _ = strokes.draw(6, seed=1)
        made = heads.mix(torch.einsum("hqk,pk->pqh", heads.pattern(), pictures.flatten(1)))
    exact = conv.layer(pictures[:, None]).flatten(2).mT.reshape(6, strokes.SIDE, strokes.SIDE, -1)
    inside = made.reshape(6, strokes.SIDE, strokes.SIDE, -1)[
        :, 1:-1, 1:-1
    ]  # borders are the lab's own part
    close(inside, exact[:, 1:-1, 1:-1])


@pytest.mark.parametrize(("counts", "n_steps"), [((), 2), ((4, 3), 2), ((4_097,), 2), ((4,), 0)])
def test_a_training_without_pictures_or_steps_is_refused(counts, n_steps):
    with pytest.raises(ArgumentError, match="4 to 4,096 pictures"):
        strokes.learn(counts, n_steps=n_steps)


@pytest.mark.extended
def test_few_pictures_are_enough_for_a_convolution_and_not_for_heads():
    found = strokes.learn(seed=1)
    convolution, heads = (found.accuracy[f"{kind}_unseen"] for kind in ("convolution", "heads"))
    assert convolution[1] > 0.95  # 32 pictures
    assert heads[1] < 0.7 < 0.8 < heads[3]  # 32, and 512
    assert found.accuracy.heads_training[1] > 0.95  # it knows those 32 by heart
    assert (convolution > heads).all()
