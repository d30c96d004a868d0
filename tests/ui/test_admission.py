"""Places on a full server: who has one keeps it, and who has none is told and waits."""

import pytest

from mha_viz.ui.operating import refusals
from mha_viz.ui.run import admission
from mha_viz.ui.run.admission import OPENING_SECONDS, Admission
from mha_viz.ui.run.memory import RECONNECT_SECONDS
from tests.ui.opening import APP, opened


class House:
    def __init__(self, most: int | None, of_one: int | None = None) -> None:
        self.open: set[str] = set()
        self.now, self.no_room = 0.0, False
        self.admission = Admission(
            most, self.open.__contains__, lambda: self.no_room, lambda: self.now, of_one
        )

    def come(self, session: str, address: str | None = None) -> bool:
        self.open.add(session)
        return self.admission.admit(session, address)

    def act(self, session: str) -> bool:
        self.now += OPENING_SECONDS + 1
        return self.come(session)


def test_the_first_ones_have_a_place_and_keep_it():
    house = House(2)
    assert [house.come(name) for name in "abcab"] == [True, True, False, True, True]


def test_a_place_is_free_once_a_page_was_closed_and_not_when_its_connection_broke():
    house = House(1)
    assert house.come("a") and house.act("a")
    house.open.remove("a")
    assert not house.come("b")  # a may come back
    house.now += RECONNECT_SECONDS
    assert house.come("a")
    house.open.remove("a")
    assert not house.come("b")
    house.now += RECONNECT_SECONDS + 1
    assert house.come("b") and not house.come("a")


def test_take_after_a_page_that_was_only_opened_is_closed_finds_its_place_free():
    house = House(1)
    assert house.come("a")
    house.open.remove("a")
    assert house.come("b")


def test_take_on_a_full_server_gets_the_place_of_a_page_that_nobody_used():
    house = House(2)
    assert house.come("used") and house.act("used") and house.come("opened")
    house.now += OPENING_SECONDS
    assert not house.come("new")
    house.now += 1
    assert house.come("new") and house.come("used") and not house.come("opened")


def test_take_beyond_the_places_of_one_address_is_refused_and_others_come_in():
    house = House(9, of_one=2)
    assert [house.come(name, "one") for name in "abc"] == [True, True, False]
    assert house.admission.is_address_full("one") and not house.admission.is_address_full("other")
    assert house.come("d", "other") and [house.come(name) for name in "efg"] == [True] * 3
    house.open.remove("a")
    assert house.come("c", "one")


def test_without_memory_nobody_new_comes_in():
    house = House(None)
    assert house.come("a")
    house.no_room = True
    assert house.come("a") and not house.come("b")


@pytest.mark.slow
def test_a_full_server_says_so_in_place_of_the_page(monkeypatch):
    monkeypatch.setattr(admission, "_admission", lambda: Admission(0, lambda session: True))
    before = refusals.counted().get("session", 0)
    app = opened(APP)
    assert not app.exception and not app.selectbox
    assert len(app.info) == 1
    assert refusals.counted()["session"] > before
    monkeypatch.undo()
    assert app.run().selectbox
