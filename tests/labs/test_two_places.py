"""Lab 3: its layer beside torch's own attention, one head and two places, and rank."""

import pytest
import torch
import torch.nn.functional as F

from mha_viz.learn.labs.two_places import numbers as lab
from tests.making.comparing import close


@pytest.fixture(scope="module")
def runs() -> dict[int, lab.Run]:
    return lab.learn(lab.HEADS, n_seeds=1)


@pytest.mark.extended
def test_a_text_has_each_name_once_and_the_answer_is_in_it():
    given = lab.texts(200, 8, torch.Generator().manual_seed(1))
    assert all(len(set(row)) == lab.N_TOKENS for row in given.names.tolist())
    for names, values, asked, answer in zip(*(x.tolist() for x in given[:4]), strict=True):
        assert asked[0] != asked[1]
        assert [values[names.index(name)] for name in asked] == answer


@pytest.mark.extended
def test_one_head_gets_one_value_right_and_guesses_the_other(runs):
    for n_values in (2, 4, 8):
        usual = n_values == 8
        run = (runs if usual else lab.learn([1], n_seeds=1, n_values=n_values))[1]
        accuracies = sorted((float(run.first[0, -1]), float(run.second[0, -1])))
        assert accuracies[1] > 0.95, n_values
        assert accuracies[0] == pytest.approx(1 / n_values, abs=0.07)
        assert float(run.both[0, -1]) == pytest.approx(1 / n_values, abs=0.07)


@pytest.mark.extended
def test_two_heads_get_both_with_as_many_parameters(runs):
    assert float(runs[2].both[0, -1]) > 0.97
    assert len({run.n_parameters for run in runs.values()}) == 1
    assert runs[1].n_parameters == 4 * 16 * 16


@pytest.mark.extended
def test_each_of_two_heads_has_a_place_of_its_own(runs):
    shares = runs[2].shares
    assert torch.allclose(shares.sum(-1), torch.ones(2), atol=1e-5)
    assert set(shares[:, :2].argmax(-1).tolist()) == {0, 1}
    assert shares[:, :2].amax(-1).min() > 0.7
    assert runs[1].shares[0, :2].amax() > 0.6  # one head: one place


@pytest.mark.extended
def test_no_heads_scores_have_more_rank_than_its_width(runs):
    for n_heads, run in runs.items():
        assert run.d_head == 16 // n_heads
        assert len(run.score_ranks) == n_heads and max(run.score_ranks) <= run.d_head
        assert max(run.score_ranks) == run.d_head  # the bound is reached
    assert max(runs[16].weight_ranks) > 1  # softmax raises the rank


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
