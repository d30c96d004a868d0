"""The numbers of layers are the network's own, also where some layers have no attention."""

import pytest
from torch import nn

from mha_viz.engine.numbering import own_layer_numbers
from tests.making.hybrids import jamba

TEXT = "ba da fa ba da fa ka"


def test_a_hybrid_numbers_its_layers_as_its_network_does():
    model = jamba()
    record = model.trace(TEXT)
    assert model.layer_numbers == record.layer_numbers == (3, 7) and record.shape[:2] == (2, 4)
    for position, number in enumerate(model.layer_numbers):
        module = model.network.model.layers[number].self_attn
        assert model.layers()[position].module is module and record.layer_of(number) == position
    note = "Layers 0–2 and 4–6 have no attention over the text."
    assert model.notes == record.notes == (note,)
    assert record.merge_words().without_first().layer_numbers == (3, 7)


class _Layer(nn.Module):
    def __init__(self, attention: nn.Module, layer_idx: int | None = None) -> None:
        super().__init__()
        self.attention, self.attention.layer_idx = attention, layer_idx


@pytest.mark.parametrize(
    ("shared", "expected"), [((0, 1), (1, 3)), ((0, 0), (1, 3)), (None, (0, 1))]
)
def test_places_of_shared_modules_and_of_one_that_runs_twice(shared, expected):
    attentions = [nn.Identity(), nn.Identity()]
    if shared is None:  # as ALBERT has it: one layer that is called again
        network, called = nn.ModuleList([_Layer(attentions[0])]), [attentions[0]] * 2
    else:  # as Zamba2 has it: what shares its weights may be one module
        called = [attentions[i] for i in shared]
        layers = [nn.Linear(1, 1), _Layer(called[0], -1), nn.Linear(1, 1), _Layer(called[1], -1)]
        network = nn.ModuleList(layers)
    found, n_all = own_layer_numbers(nn.ModuleDict({"layers": network}), called, 2)
    assert found == expected and n_all == (4 if shared else 2)
