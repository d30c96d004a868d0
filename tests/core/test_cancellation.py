"""Tests of `core.cancellation`: cancelled work ends with the block that it is in."""

import pytest
import torch

from mha_viz.core.cancellation import cancellation, check_cancelled
from mha_viz.core.record.record import AttentionRecord
from mha_viz.reports.report import report
from tests.core.records import make, tokens_of


class Overtaken(BaseException):
    """An exception such as a page raises: no `Exception`."""


def a_record(n: int = 70) -> AttentionRecord:
    """Six layers of four heads."""
    dice = torch.Generator().manual_seed(3)
    return make(
        pattern=torch.randn(6, 4, n, n, generator=dice).softmax(-1),
        z=torch.randn(6, 4, n, 7, generator=dice),
        W_O=tuple(torch.randn(6, 4, 7, 13, generator=dice)),
        tokens=tokens_of(*range(n)),
        query=None,
        key=None,
        value=None,
        scale=(1.0,) * 6,
    )


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


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_report_that_is_stopped_begins_no_other_block(at: int) -> None:
    record, calls = a_record(), []

    def stop() -> None:
        calls.append(1)
        if len(calls) == at:
            raise Overtaken

    with pytest.raises(Overtaken), cancellation(stop):
        report(record)
    assert len(calls) == at
