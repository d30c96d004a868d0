"""Numbers of a batch on their way to the processor: values, order, and how many are on it."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from mha_viz.corpus.measure.batches import DeviceTransfer, Found
from mha_viz.corpus.measure.measuring import BatchMeasure, BatchOptions
from mha_viz.corpus.measure.profiles import Profile
from tests.corpus.elsewhere import There
from tests.corpus.reference import one_batch, small


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


def test_a_processor_hands_on_its_own_tensors_at_once() -> None:
    copies, received = Copies(), list[Found]()
    transfer, sent = DeviceTransfer(copies.start), numbers(0)
    transfer.send(sent, received.append)
    assert all(received[0][name] is one for name, one in sent.items())
    transfer.finish()
    assert len(received) == 1 and copies.events == []


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


def test_a_batch_that_was_sent_is_measured_as_one_that_is_asked_at_once() -> None:
    model = small("bert")
    encoded = one_batch(model).encoded
    profiles = [Profile(model.n_layers, model.n_heads) for _ in range(2)]
    at_once, sent = (
        BatchMeasure(model, encoded, BatchOptions(0.3, profile, chance=True, keep=("z",)))
        for profile in profiles
    )
    there, transfer = There("cuda"), DeviceTransfer(Copies().start)
    sent._on_device = {name: there.bring(one) for name, one in sent._on_device.items()}
    arrived = list[bool]()
    assert sent.left is not None
    with there:
        sent.send(transfer, lambda: arrived.append(True))
        assert sent.left is None and arrived == []
        transfer.finish()
    at_once.send(DeviceTransfer(), lambda: arrived.append(True))
    assert arrived == [True, True]
    for name in ("scores", "chance", "repeating"):
        a, b = (torch.from_numpy(one.numbers(name)) for one in (sent, at_once))
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)
    for axis, weight in profiles[0].weight.items():
        assert torch.equal(weight, profiles[1].weight[axis]) and weight.sum() > 0
        assert torch.equal(profiles[0].rows[axis], profiles[1].rows[axis])
