"""Lab 3's layer beside torch's own attention, and that its training learns, in a second."""

import torch
import torch.nn.functional as F

from mha_viz.learn.labs.two_places import numbers as lab
from tests.making.comparing import close


def test_reader_is_attention_of_both_names_over_the_tokens():
    random = torch.Generator().manual_seed(1)
    reader, given = lab.Reader(16, 2, 8, random), lab.texts(5, 8, random)
    logits, looked = reader(given)
    asked = reader.first[given.queried[:, :1]] + reader.second[given.queried[:, 1:]]
    tokens = reader.name[given.names] + reader.value[given.values]
    layer = reader.attention
    q = torch.einsum("btd,hde->bhte", asked, layer.W_Q)
    k, v = (torch.einsum("btd,hde->bhte", tokens, weight) for weight in (layer.W_K, layer.W_V))
    z = F.scaled_dot_product_attention(q, k, v)
    close(looked.z, z)
    close(logits.flatten(1), torch.einsum("bhte,hed->bd", z, layer.W_O) @ reader.read)


def test_two_heads_learn_both_of_two_values_within_200_steps():
    run = lab.learn([2], n_steps=200, n_seeds=1, d_model=32, n_values=2)[2]
    assert float(run.both[0, 0]) < 0.5 and float(run.both[0, -1]) > 0.97
