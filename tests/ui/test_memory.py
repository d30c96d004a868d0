"""The cache of records: bounded, and fair to the newest."""

import threading

from mha_viz.ui.memory import Cache


def test_the_least_recently_used_goes_first():
    cache = Cache(max_bytes=10)
    for key in "abc":
        cache.get(key, lambda key=key: key * 3, len)
    cache.get("a", lambda: "made again", len)  # touched: now b is the oldest
    cache.get("d", lambda: "ddd", len)
    made = []
    for key in "acdb":
        cache.get(key, lambda key=key: made.append(key) or "xxx", len)
    assert made == ["b"]
    assert cache.n_bytes <= 10


def test_a_thing_larger_than_the_room_pushes_nothing_out():
    cache = Cache(max_bytes=10)
    cache.get("small", lambda: "s", len)
    assert cache.get("huge", lambda: "h" * 50, len) == "h" * 50
    assert cache.get("small", lambda: "made again", len) == "s"
    assert len(cache) == 1 and cache.n_bytes == 1


def test_what_fails_to_be_made_is_not_kept():
    cache = Cache()
    for _ in range(2):
        try:
            cache.get("x", lambda: 1 / 0, lambda _: 1)
        except ZeroDivisionError:
            continue
    assert len(cache) == 0 and cache.get("x", lambda: "y", len) == "y"


def test_threads_that_make_the_same_thing_do_not_count_it_twice():
    cache, gate = Cache(), threading.Barrier(5)

    def make():
        gate.wait(timeout=300)  # all five are making it at once
        return "value"

    threads = [threading.Thread(target=lambda: cache.get("k", make, lambda _: 7)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(cache), cache.n_bytes) == (1, 7)
