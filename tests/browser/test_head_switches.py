"""The head switches in a real Chromium and a real Streamlit: runs that overlap, colours, layout.

What pointer and keys switch, and what is told when, is tried in test_head_switches.js of tests/web.
"""

import re
from collections.abc import Callable

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from mha_viz.web import theme
from tests.browser.canvas import pixels
from tests.browser.demo_switches import importance
from tests.browser.switches_page import heard, middle, off, tile

Show = Callable[..., Page]
Wait = Callable[[Page], None]


@pytest.mark.extended
@pytest.mark.journey
def test_a_click_shows_at_once_and_comes_back_once(show_switches: Show, wait_idle: Wait) -> None:
    page = show_switches("slow=1")
    assert off(page) == []
    tile(page, 3, 4).click()
    assert off(page) == ["L3 H4"]
    heard(page, "3.4", 1)
    wait_idle(page)
    assert off(page) == ["L3 H4"]
    page.get_by_role("button", name="Run again").click()
    heard(page, "3.4", 1)
    expect(page.get_by_text("now False")).to_be_visible()
    tile(page, 0, 0).click()
    heard(page, "0.0 3.4", 2)
    tile(page, 3, 4).click()
    heard(page, "0.0", 3)
    expect(page.get_by_text("app runs 1")).to_be_visible()


def test_of_fast_clicks_during_slow_runs_none_is_lost_or_undone(
    show_switches: Show, wait_idle: Wait
) -> None:
    page = show_switches("layers=6&heads=10&slow=0.3")
    places = [(i % 6, (3 * i) % 10) for i in range(30)]
    for count, (layer, head) in enumerate(places, start=1):
        page.mouse.click(*middle(page, layer, head))
        assert len(off(page)) == count
    heard(page, " ".join(f"{layer}.{head}" for layer, head in sorted(places)))
    wait_idle(page)
    assert len(off(page)) == 30


def test_what_python_changes_is_shown(show_switches: Show, wait_idle: Wait) -> None:
    page = show_switches()
    page.get_by_role("button", name="Preset").click()
    expect(tile(page, 1, 1)).to_have_attribute("aria-checked", "false")
    assert off(page) == ["L0 H2", "L1 H1"]
    tile(page, 1, 1).click()
    heard(page, "0.2", 1)
    wait_idle(page)
    page.get_by_role("button", name="Reset", exact=True).click()
    expect(tile(page, 0, 2)).to_have_attribute("aria-checked", "true")
    tile(page, 2, 2).click()
    heard(page, "2.2", 2)
    wait_idle(page)
    page.get_by_role(
        "button", name="Reset", exact=True
    ).click()  # Python passes [] again, as it did before
    expect(tile(page, 2, 2)).to_have_attribute("aria-checked", "true")
    # What is pressed right after a click comes after it.
    tile(page, 3, 3).click()
    page.get_by_role("button", name="Preset").click()
    expect(page.get_by_text("python: [1.1 0.2]")).to_be_visible()
    wait_idle(page)
    assert off(page) == ["L0 H2", "L1 H1"]


def seen(page: Page, layer: int, head: int, name: str) -> str:
    """Return a computed style of a tile."""
    return tile(page, layer, head).evaluate(f"e => getComputedStyle(e).{name}")


def test_colours_marks_and_focus_can_be_seen_in_both_themes(show_switches: Show) -> None:
    page = show_switches("value=signed", color_scheme="light")
    root, values = page.locator(".head-switches"), importance(4, 8, "signed")
    reach = np.abs(values).max()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        expect(root).to_have_attribute("data-theme", scheme)
        for i, j in [*np.ndindex(4, 8)][::5]:
            shown = re.findall(r"[.0-9]+(?:e-\d+)?", seen(page, i, j, "backgroundColor"))
            place = (values[i, j] / reach + 1) / 2
            want = theme.rgb(theme.mix(theme.diverging(scheme == "dark"), place))
            assert [255 * float(part) for part in shown] == pytest.approx(want, abs=1)
    assert seen(page, 2, 2, "backgroundImage") == "none"
    tile(page, 2, 2).click()
    assert seen(page, 2, 2, "backgroundImage").count("linear-gradient") == 2
    page.keyboard.press("ArrowRight")
    assert seen(page, 2, 3, "outlineStyle") == "solid"
    page.keyboard.press("Space")
    page.keyboard.press("Tab")  # leaves the grid: one stop, and nothing waits any longer
    heard(page, "2.2 2.3")


def test_patterns_lie_in_their_tiles_and_are_sent_once(
    show_switches: Show, wait_idle: Wait
) -> None:
    page = show_switches("patterns=yes&layers=12&heads=12")
    page.locator(".head-switches[data-painted]").wait_for()
    wait_idle(page)
    box, area = tile(page, 1, 1).bounding_box(), page.locator("canvas.patterns").bounding_box()
    assert box and area and min(box["width"], box["height"]) > 40
    before = pixels(page, "canvas.patterns")
    left, top = (round(box[side] - area[side]) for side in "xy")
    inside = before[top + 6 : top + round(box["height"]) - 24, left : left + round(box["width"])]
    ends = [np.array(theme.rgb(colour)) for colour in theme.sequential()]
    # All rows look at the first token: one column has the scale's end, the others its beginning.
    colours = inside[..., :3].astype(int)
    assert np.abs(colours[:, :8] - ends[-1]).max((0, 2)).min() <= 2
    assert np.abs(colours[:, 12:-8] - ends[0]).max() <= 12
    assert tile(page, 1, 1).inner_text() == "Sink +1" and tile(page, 1, 2).inner_text() == ""
    network, received = page.context.new_cdp_session(page), []
    network.on(
        "Network.webSocketFrameReceived",
        lambda event: received.append(len(event["response"]["payloadData"])),
    )
    network.send("Network.enable")
    tile(page, 2, 3).click()
    heard(page, "2.3")
    wait_idle(page)
    assert received and sum(received) < 12 * 12 * 60 * 60 / 2
    assert (pixels(page, "canvas.patterns") == before).all()
    network.detach()
