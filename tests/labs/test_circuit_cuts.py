"""Cut paths of the induction lab: which heads each row of its table cuts."""

import pytest

import mha_viz as mv
from mha_viz.learn.labs.induction_circuit import numbers as lab


@pytest.fixture(scope="module")
def circuit() -> lab.Circuit:
    return lab.find_circuit(mv.load(lab.MODEL), 5, 2)


def test_cuts_rows_are_the_losses_of_the_heads_that_they_name(circuit: lab.Circuit) -> None:
    writers, readers = list(circuit.writers), list(circuit.readers)
    layer = writers[0][0]
    n_heads = circuit.previous.shape[1]
    others = [(layer, head) for head in range(n_heads) if (layer, head) not in writers]
    assert len(others) + len([head for head in writers if head[0] == layer]) == n_heads
    table = lab.cuts(circuit)
    expected = [
        circuit.second_loss,
        lab.loss_with_cut(circuit, writers[:1], readers[:1]),
        lab.loss_with_cut(circuit, writers[:1], readers),
        lab.loss_with_cut(circuit, writers, readers),
        lab.loss_with_cut(circuit, writers[:1], readers, "query"),
        lab.loss_with_cut(circuit, others, readers),
    ]
    assert table.loss.tolist() == pytest.approx(expected)
    assert table.more.tolist() == pytest.approx([loss - expected[0] for loss in expected])
    by_sender = lab.cut_by_sender(circuit)
    assert len(by_sender.more) == n_heads
