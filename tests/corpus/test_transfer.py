"""Numbers of a batch on their way to the processor: values, order, and how many are on it."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from mha_viz.corpus.measure.batches import DeviceTransfer, Found
from tests.corpus.elsewhere import There


class Copies:
    """Stands for a card's copies: lists when each starts and when it is waited for."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.n_tensors: list[int] = []

    def start(self, packed: Sequence[Tensor]) -> Callable[[], Sequence[Tensor]]:
        number = len(self.n_tensors)
        self.n_tensors.append(len(packed))
        self.events.append(f"start {number}")

        def wait() -> Sequence[Tensor]:
            self.events.append(f"wait {number}")
            return [one.as_subclass(Tensor).clone() for one in packed]

        return wait


def numbers(seed: int) -> dict[object, Tensor]:
    """Tensors of three dtypes, some of them empty or of no axis."""
    dice = torch.Generator().manual_seed(seed)
    return {
        "scores": torch.rand(2, 3, 5, generator=dice),
        ("weight", 0): torch.rand(7, generator=dice, dtype=torch.float64),
        "rows": torch.randint(11, (3, 2), generator=dice),
        "one": torch.rand((), generator=dice),
        "none": torch.rand(0, 13, generator=dice),
        ("weight", 1): torch.rand(5, 2, generator=dice, dtype=torch.float64).mT,
    }


def assert_same(found: Found, sent: dict[object, Tensor]) -> None:
    assert list(found) != [] and found.keys() == sent.keys()
    for name, one in sent.items():
        assert type(found[name]) is Tensor and found[name].dtype == one.dtype
        assert torch.equal(found[name], one), name


def test_batches_arrive_whole_and_in_order_one_behind_the_card() -> None:
    copies, received = Copies(), list[Found]()
    transfer, batches = DeviceTransfer(copies.start), [numbers(seed) for seed in range(3)]
    with There("cuda") as there:
        for at, batch in enumerate(batches):
            sent = {name: there.bring(one) for name, one in batch.items()}
            transfer.send(sent, received.append)
            assert len(received) == at  # the one before, while this one is on its way
        transfer.finish()
        transfer.finish()
    assert there.fetched == []
    assert copies.events == ["start 0", "start 1", "wait 0", "start 2", "wait 1", "wait 2"]
    assert copies.n_tensors == [3, 3, 3]  # one for each dtype
    for found, batch in zip(received, batches, strict=True):
        assert_same(found, batch)


def test_without_a_stream_of_its_own_a_device_is_read_at_the_end() -> None:
    received = list[Found]()
    with There("mps") as there:
        transfer, batch = DeviceTransfer(), numbers(0)
        del batch["weight", 0], batch["weight", 1]  # no float64 there
        transfer.send({name: there.bring(one) for name, one in batch.items()}, received.append)
        assert there.fetched == []
        transfer.finish()
    assert there.fetched == [31, 6]
    assert received[0]["scores"].numel() == 30
