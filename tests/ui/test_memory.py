"""The cache of records: bounded, fair to the newest, and kind to who still looks."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from mha_viz.checkpoints import building
from mha_viz.errors import OutOfMemoryError
from mha_viz.ui.operating.settings import Settings
from mha_viz.ui.run import memory
from mha_viz.ui.run.cache import Cache, Visitor
from tests.making.checkpoints import D_HEAD, HEADS, LAYERS, N_CTX, copy
from tests.ui.compare_app import check
from tests.ui.heads_app import heads_page


def test_the_least_recently_used_goes_first():
    cache = Cache(max_unseen=10)
    for key in "abc":
        cache.get(key, lambda key=key: key * 3, len)
    cache.get("a", lambda: "made again", len)  # touched: now b is the oldest
    cache.get("d", lambda: "ddd", len)
    made = []
    for key in "acdb":
        cache.get(key, lambda key=key: made.append(key) or "xxx", len)
    assert made == ["b"]
    assert cache.n_bytes <= 10


def test_a_page_is_drawn_whole_where_memory_keeps_none_of_its_records(monkeypatch):
    monkeypatch.setattr(memory.cache(), "max_bytes", 0)
    app = heads_page(text="The cat sat on the red mat.")
    check(app)
    assert len(app.dataframe) == 1  # of all heads, below the workbench


def waiting(cache: Cache) -> threading.Semaphore:
    """Released once for each thread that begins to wait for another's work."""
    begun, wait = threading.Semaphore(0), cache.wait

    def tell(event):
        begun.release()
        return wait(event)

    cache.wait = tell
    return begun


def test_what_several_ask_for_at_once_is_made_once():
    cache, made = Cache(), []
    begun = waiting(cache)

    def make():
        made.append(threading.get_ident())
        for _ in range(4):  # all others wait
            assert begun.acquire(timeout=300)
        return "value"

    with ThreadPoolExecutor(5) as threads:
        found = list(threads.map(lambda _: cache.get("k", make, lambda _: 7), range(5)))
    assert (len(made), found) == (1, ["value"] * 5)
    assert (len(cache), cache.n_bytes) == (1, 7)


def test_where_who_makes_it_gives_up_the_next_who_waits_makes_it():
    cache, tries = Cache(), []
    begun = waiting(cache)

    def make():
        tries.append(threading.get_ident())
        if len(tries) == 1:
            for _ in range(2):
                assert begun.acquire(timeout=300)
            raise KeyboardInterrupt  # as Streamlit ends a run: by what is no Exception
        return "value"

    def ask(_):
        try:
            return cache.get("k", make, len)
        except KeyboardInterrupt:
            return "ended"

    with ThreadPoolExecutor(3) as threads:
        assert sorted(threads.map(ask, range(3))) == ["ended", "value", "value"]
    assert len(tries) == 2


def test_an_error_is_the_own_error_of_each_who_asked():
    cache = Cache()
    begun = waiting(cache)
    first = threading.Event()

    def make():
        if not first.is_set():
            first.set()
            assert begun.acquire(timeout=300)
        raise ValueError("nothing of this")

    def ask(_):
        with pytest.raises(ValueError, match="nothing of this") as error:
            cache.get("k", make, len)
        return error.value

    with ThreadPoolExecutor(2) as threads:
        one, other = threads.map(ask, range(2))
    assert one is not other and len(cache) == 0


def test_who_waits_may_leave_and_the_others_are_not_disturbed():
    cache, left = Cache(), threading.Event()

    def leave(event):
        left.set()
        raise KeyboardInterrupt

    cache.wait = leave

    def make():
        thread = threading.Thread(target=ask)
        thread.start()
        assert left.wait(300)
        thread.join()
        return "value"

    def ask():
        with pytest.raises(KeyboardInterrupt):
            cache.get("k", make, len)

    assert cache.get("k", make, len) == "value"
    assert cache.get("k", lambda: "made again", len) == "value"


def visited(**bounds: int) -> tuple[Cache, list[Visitor], list[int]]:
    """A cache asked by the one visitor in the list, and how many bytes it let go each time."""
    here, dropped = [Visitor()], []
    return Cache(**bounds, current_visitor=lambda: here[0], on_drop=dropped.append), here, dropped


def test_what_a_visitor_looks_at_stays_until_he_leaves():
    cache, here, dropped = visited(max_bytes=100, max_unseen=5)
    cache.get("large", lambda: "x" * 50, len)
    assert cache.get("large", lambda: "made again", len) == "x" * 50
    first, here[0] = here[0], Visitor()
    cache.get("large", lambda: "made again", len)  # two look at it
    cache.leave(first)
    assert cache.n_bytes == 50 and dropped == []
    cache.leave(here[0])
    assert (len(cache), cache.n_bytes, dropped) == (0, 0, [50])


def test_one_visitor_has_a_share():
    cache, here, _ = visited(max_bytes=100, max_unseen=0, max_of_one=50)
    for key in "abc":
        cache.get(key, lambda: "x" * 20, len)
    assert list(here[0].in_view) == ["b", "c"] and cache.n_bytes == 40


def test_who_left_while_a_thing_was_made_keeps_nothing():
    cache, here, _ = visited(max_bytes=100, max_unseen=5)

    def make() -> str:
        cache.leave(here[0])
        return "x" * 50

    assert cache.get("large", make, len) == "x" * 50
    assert cache.n_bytes == 0 and not here[0].in_view


def test_size_line_counts_weights_in_the_chosen_precision_and_the_longest_text(
    folder, tmp_path, monkeypatch
):
    own = str(copy(folder, tmp_path / "own"))
    line = memory.size_line(own, "float32")
    token = 4 * 4 * LAYERS * HEADS * D_HEAD
    assert line.endswith(f"a text of {N_CTX} tokens takes {N_CTX * token / 1000:.3g} kB")
    weights = float(line.split()[0])
    half = memory.size_line(own, "bfloat16")
    assert float(half.split()[0]) == pytest.approx(weights / 2, rel=0.01)
    assert memory.size_line("tiny-bert", "float32") == ""
    assert memory.size_line("/a folder that is gone", "float32") == ""
    monkeypatch.setattr(memory, "settings", lambda: Settings(max_tokens=9))
    memory.size_line.cache_clear()
    assert "a text of 9 tokens" in memory.size_line(own, "float32")


def test_other_models_are_dropped_for_one_that_does_not_fit_beside_them(
    folder, tmp_path, monkeypatch
):
    own = str(copy(folder, tmp_path / "own"))
    memory.model("tiny-gpt2", "cpu", "float32")
    dropped = []
    let_go = memory.let_go
    monkeypatch.setattr(
        memory, "let_go", lambda everything: (dropped.append(everything), let_go(everything))
    )
    monkeypatch.setattr(building, "available", lambda: 10**9 if dropped else 0)
    assert memory.model(own, "cpu", "float32").name == own
    assert dropped == [True] and list(memory._loaded) == [(own, "cpu", "float32")]
    memory.let_go(True)
    monkeypatch.setattr(building, "available", lambda: 0)
    n_dropped = len(dropped)
    with pytest.raises(OutOfMemoryError, match="and cpu has 0 bytes free"):
        memory.model(own, "cpu", "float32")
    assert len(dropped) == n_dropped
