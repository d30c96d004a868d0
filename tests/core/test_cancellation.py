"""Tests of `core.cancellation`: cancelled work ends with the block that it is in."""

from mha_viz.core.cancellation import cancellation, check_cancelled


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
