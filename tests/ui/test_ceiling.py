"""The memory ceiling: room is made near it, and beyond it work is refused."""

import os
import subprocess
import sys
from unittest.mock import MagicMock

import pytest

from mha_viz.checkpoints import loading
from mha_viz.errors import LimitError
from mha_viz.ui.operating import memory_limit, refusals
from mha_viz.ui.operating.memory_limit import DROP_INTERVAL_SECONDS, Ceiling
from mha_viz.ui.run import memory
from mha_viz.ui.run.cache import Cache, Visitor
from mha_viz.ui.state import allowed


class Server:
    """Takes memory, some of which it can let go of."""

    def __init__(self, needed: int, unseen: int, seen: int) -> None:
        self.needed, self.unseen, self.seen = needed, unseen, seen
        self.asked: list[bool] = []
        self.now = 0.0
        self.ceiling = Ceiling(100, self.used, self.let_go, lambda: self.now)

    def used(self) -> int:
        return self.needed + self.unseen + self.seen

    def let_go(self, everything: bool) -> None:
        self.asked.append(everything)
        self.unseen = 0
        self.seen = 0 if everything else self.seen


@pytest.mark.parametrize(
    ("shown_bytes", "requests", "used"), [(20, [], 80), (30, [False], 70), (60, [True], 40)]
)
def test_look_lets_go_of_more_the_nearer_the_ceiling_is(shown_bytes, requests, used):
    server = Server(needed=40, unseen=20, seen=shown_bytes)
    server.ceiling.look()
    assert (server.asked, server.used(), server.ceiling.over) == (requests, used, False)


def test_what_stays_too_much_is_known_and_not_emptied_again_and_again():
    server = Server(needed=120, unseen=1, seen=1)
    for _ in range(3):
        server.ceiling.look()
    assert server.ceiling.over
    assert server.asked == [True, False, False]
    server.now = DROP_INTERVAL_SECONDS
    server.ceiling.look()
    assert server.asked[-1] is True
    server.needed = 50
    server.ceiling.look()
    assert not server.ceiling.over


@pytest.fixture
def pressed(monkeypatch):
    over = Ceiling(1, lambda: 2, lambda everything: None)
    over.look()
    monkeypatch.setattr(memory_limit, "_ceilings", [over])


def test_beyond_it_long_texts_and_new_models_are_refused_with_a_sentence(pressed):
    before = refusals.counted().get("memory", 0)
    with pytest.raises(LimitError, match="memory"):
        allowed.check_text("x" * (allowed.MAX_SHORT_TEXT + 1))
    with pytest.raises(LimitError, match="memory"):
        allowed.check_model("/some/folder")
    allowed.check_text("A cat sat.")  # short work goes on
    allowed.check_model("tiny-bert")
    assert refusals.counted()["memory"] == before + 2


def test_a_cache_lets_go_of_what_nobody_looks_at_or_of_everything():
    visitor = Visitor("one")
    looking = [visitor]
    cache = Cache(current_visitor=lambda: looking[0] if looking else None)
    cache.get("seen", lambda: "a", lambda _: 10)
    looking.clear()
    cache.get("unseen", lambda: "b", lambda _: 20)
    cache.drop(everything=False)
    assert (cache.find("seen"), cache.find("unseen"), cache.n_bytes) == ("a", None, 10)
    cache.drop(everything=True)
    assert (len(cache), cache.n_bytes, dict(visitor.in_view)) == (0, 0, {})


def test_let_go_forgets_the_models_that_it_drops(monkeypatch):
    """Check that files of a model taken for loaded are checked before they are read again."""
    monkeypatch.setattr(memory, "await_transformers", lambda: None)
    monkeypatch.setattr(memory, "allowed", MagicMock())
    monkeypatch.setattr(loading, "load", MagicMock())
    memory.let_go(everything=True)
    which = [(f"model-{i}", "cpu", "float32") for i in range(memory.MAX_MODELS + 1)]
    for each in (*which, which[1]):
        memory.model(*each)
    assert set(memory._loaded) == set(which[1:])
    memory.let_go(everything=False)
    assert memory._loaded and not memory.needs_check(*which[1])
    memory.let_go(everything=True)
    assert not memory._loaded


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="only Linux tells")
def test_memory_of_this_process_and_of_its_children_counts():
    before = memory_limit.used_bytes()
    held = bytearray(os.urandom(1)) * 400_000_000
    assert memory_limit.used_bytes() - before > 300_000_000
    del held
    before = memory_limit.used_bytes()
    # Another program, so that nothing of this one has to be imported there.
    holds = "held = bytearray(b'x') * 400_000_000; print('held', flush=True); input()"
    child = subprocess.Popen(
        [sys.executable, "-c", holds], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdout.readline() == "held\n"
        assert memory_limit.used_bytes() - before > 300_000_000
        child.stdin.write("\n")
