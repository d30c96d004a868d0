"""The order of turns by itself; how the lane keeps to it, test_jobs tries."""

from mha_viz.ui.jobs.fair_queue import FairQueue


def test_order_take_of_an_earlier_round_leaves_later_arrivals_behind_those_who_wait():
    order = FairQueue()
    for thing, session in (("a1", "a"), ("a2", "a"), ("b1", "b")):
        order.add(thing, session)
    for thing in ("a1", "a2"):  # out of turn, as short work passes what is heavy
        order.take(thing)
    order.add("c1", "c")
    order.take("b1")
    order.add("d1", "d")
    order.add("a3", "a")
    assert list(order) == ["c1", "d1", "a3"]
