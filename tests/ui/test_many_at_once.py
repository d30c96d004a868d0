"""Twenty visitors at once, through the pages' own functions: each gets what is theirs."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import mha_viz as mv
from mha_viz.reports.report import report as make_report
from mha_viz.ui.jobs.turns import turns
from mha_viz.ui.run import page_lock
from mha_viz.ui.run.cache import Cache
from mha_viz.ui.run.scene import measured
from mha_viz.web.payload import grid_payload
from tests.making.comparing import close

VISITORS = 20
WORDS = "the old dog slept while a young cat watched two birds".split()


def text(number: int) -> str:
    """Write texts of different words and lengths; every fifth is the same."""
    number -= number % 5 == 4
    return " ".join([*WORDS[number % 7 :], *WORDS[: number % 4 + 1]]) + f" {number}"


def seen(number: int, cache: Cache) -> tuple[bytes, np.ndarray, np.ndarray, np.ndarray]:
    """Compute what one visitor's page takes: all heads, their report, their switches' change."""
    model = mv.load(("tiny-bert", "tiny-gpt2")[number // 5 % 2])
    off = [(number % 4, number % 8), ((number + 1) % 4, (number + 3) % 8)]

    def make() -> tuple[bytes, np.ndarray, np.ndarray, np.ndarray]:
        with page_lock.turn_for(model, text(number)):
            record = model.trace(text(number))
            scores = make_report(record).scores
        changed = mv.ablate(model, text(number), off, position=2)
        facts = measured(record)
        return (
            grid_payload(record),
            np.stack([facts[name] for name in sorted(facts)]),
            np.stack([scores[name].numpy() for name in sorted(scores)]),
            changed.after.log_probs.numpy(),
        )

    return cache.get((model.name, text(number), tuple(off)), make, lambda _: 1)


@pytest.mark.parametrize(
    "long", [False, pytest.param(True, marks=pytest.mark.extended)], ids=["short", "long"]
)
def test_everybody_sees_what_a_lone_visitor_sees(long, monkeypatch):
    monkeypatch.setattr(
        page_lock.streamlit_run, "raise_if_superseded", lambda: None
    )  # no page is run here
    monkeypatch.setattr(page_lock, "PATIENCE", 1e9)
    if long:
        monkeypatch.setattr(page_lock, "_LONG", 0)
    alone = [seen(number, Cache()) for number in range(VISITORS)]
    together, gate = Cache(wait=page_lock.wait_without_slot), threading.Barrier(VISITORS)

    def visit(number: int):
        gate.wait(300)
        with page_lock.page_run():
            found = seen(number, together)
            page_lock.yield_slot()
            return found

    with ThreadPoolExecutor(VISITORS) as threads:
        found = list(threads.map(visit, range(VISITORS)))
    for ours, expected in zip(found, alone, strict=True):
        codes, codes_alone = (np.frombuffer(each[0], np.uint8) for each in (ours, expected))
        assert codes.shape == codes_alone.shape
        assert (np.abs(codes.astype(int) - codes_alone) <= 1).all()  # a step of a byte: rounding
        for part, part_alone in zip(ours[1:], expected[1:], strict=True):
            close(part, part_alone)
    assert (turns.short.running, turns.long.running, turns.under_way) == (0, 0, 0)
