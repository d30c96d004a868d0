"""Work in parts: each in one thread, and nobody else's threads are touched."""

import threading
import time

import pytest
import torch

from mha_viz.core.cancellation import cancellation, check_cancelled
from mha_viz.core.threads import in_threads
from tests.waiting import PATIENCE


@pytest.fixture
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_results_are_in_order_and_each_part_has_one_thread(three_threads) -> None:
    ended = [threading.Event() for _ in range(5)]

    def work(part: int) -> tuple[int, int]:
        if part < 2:  # the first three begin together and end the other way round
            assert ended[part + 1].wait(PATIENCE)
        ended[part].set()
        return part, torch.get_num_threads()

    assert list(in_threads(work, range(5))) == [(part, 1) for part in range(5)]


def test_afterwards_all_have_as_many_as_before(three_threads) -> None:
    list(in_threads(abs, range(3)))
    seen = []
    late = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    late.start()
    late.join()
    assert seen == [3] and torch.get_num_threads() == 3


def test_work_that_is_abandoned_leaves_its_rest_undone() -> None:
    done, asked = [], []

    def overtaken() -> None:
        asked.append(None)
        if len(asked) == 2:
            raise TimeoutError

    def work(part: int) -> int:
        time.sleep(0.05)
        done.append(part)
        return part

    with cancellation(overtaken), pytest.raises(TimeoutError):
        list(in_threads(work, range(50)))
    assert len(done) < 50


def test_a_fault_is_that_of_its_part() -> None:
    with pytest.raises(ZeroDivisionError):
        list(in_threads(lambda part: 1 / part, [1, 0, 2]))


def test_inner_check_is_called_after_outer_check() -> None:
    calls = []
    with cancellation(lambda: calls.append("outer")):
        with cancellation(lambda: calls.append("inner")):
            check_cancelled()
        with cancellation(None):
            check_cancelled()
        check_cancelled()
    check_cancelled()
    assert calls == ["outer", "inner", "outer"]
