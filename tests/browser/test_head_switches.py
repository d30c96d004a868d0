"""The head switches in a real Chromium, inside a small app of their own."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from mha_viz.web import theme
from tests.browser.canvas import pixels
from tests.browser.demo_switches import importance
from tests.browser.switches_page import heard, middle, off, tile

Show = Callable[..., Page]
Wait = Callable[[Page], None]


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


SCATTERED = [(i % 6, (3 * i) % 10) for i in range(30)]
ALL_OFF = " ".join(f"{layer}.{head}" for layer, head in sorted(SCATTERED))


def test_clicks_at_the_same_time_are_sent_together(show_switches: Show) -> None:
    page = show_switches("layers=6&heads=10")
    tiles = page.locator(".head-switches .tile")
    tiles.first.wait_for()
    begins = [f"L{layer} H{head}," for layer, head in SCATTERED]
    tiles.evaluate_all(
        "(tiles, begins) => begins.forEach((name) => "
        "tiles.find((tile) => tile.ariaLabel.startsWith(name)).click())",
        begins,
    )
    heard(page, ALL_OFF, 1)
    assert len(off(page)) == 30


def test_of_fast_clicks_none_is_lost(show_switches: Show, wait_idle: Wait) -> None:
    page = show_switches("layers=6&heads=10")
    for layer, head in SCATTERED:
        page.mouse.click(*middle(page, layer, head))
    heard(page, ALL_OFF)
    wait_idle(page)
    assert len(off(page)) == 30


def test_clicks_during_a_slow_run_are_not_undone_by_it(
    show_switches: Show, wait_idle: Wait
) -> None:
    page = show_switches("slow=0.7")
    places = [(0, i) for i in range(8)]
    for layer, head in places:
        tile(page, layer, head).click()
        page.wait_for_timeout(230)
        assert len(off(page)) == head + 1
    expect(page.get_by_text("python: [0.0 0.1 0.2 0.3 0.4 0.5 0.6 0.7]")).to_be_visible()
    wait_idle(page)
    assert len(off(page)) == 8


def test_there_and_back_is_as_before(show_switches: Show) -> None:
    page = show_switches()
    tile(page, 1, 1).dblclick()
    page.wait_for_timeout(400)
    heard(page, "")
    assert off(page) == []


def test_a_drag_sets_all_to_what_the_first_became(show_switches: Show) -> None:
    page = show_switches()
    tile(page, 1, 3).click()
    heard(page, "1.3", 1)
    page.mouse.move(*middle(page, 1, 1))
    page.mouse.down()
    page.mouse.move(*middle(page, 1, 5))  # one jump: what lies between is meant, too
    page.wait_for_timeout(400)
    heard(page, "1.3", 1)  # nothing is said while the drag goes on
    page.mouse.move(*middle(page, 3, 5), steps=4)
    assert len(off(page)) == 7
    page.mouse.up()
    heard(page, "1.1 1.2 1.3 1.4 1.5 2.5 3.5", 2)
    page.mouse.move(*middle(page, 1, 5))
    page.mouse.down()
    page.mouse.move(*middle(page, 1, 2), steps=3)
    page.mouse.move(5, 5)
    page.mouse.up()
    heard(page, "1.1 2.5 3.5", 3)


def test_names_switch_rows_and_columns(show_switches: Show) -> None:
    page = show_switches("layers=3&heads=4")
    tile(page, 1, 2).click()
    page.get_by_role("button", name="Layer 1: 1 of 4 heads off").click()
    assert off(page) == [f"L1 H{head}" for head in range(4)]
    page.get_by_role("button", name="Head 3: 1 of 3 layers off").click()
    heard(page, "0.3 1.0 1.1 1.2 1.3 2.3")
    page.get_by_role("button", name="Layer 1: 4 of 4 heads off").click()
    heard(page, "0.3 2.3")


def test_keyboard(show_switches: Show) -> None:
    page = show_switches()
    tile(page, 0, 0).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("""() => {
        const { activeElement } = document.activeElement.shadowRoot;
        return activeElement.ariaLabel;
    }""").startswith("L1 H1, on, importance ")
    ring = tile(page, 1, 1).evaluate("e => getComputedStyle(e).outlineStyle")
    assert ring == "solid"
    page.keyboard.press("Space")
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    heard(page, "1.1 1.7")
    expect(page.locator(".head-switches .tip")).to_have_text(
        tile(page, 1, 7).get_attribute("aria-label") or ""
    )
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Shift+Space")
    heard(page, "1.1 1.7 " + " ".join(f"2.{head}" for head in range(8)))
    page.keyboard.press("Shift+Space")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowLeft")  # the layer's name
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    heard(page, "1.0 1.1 1.2 1.3 1.4 1.5 1.6 1.7")
    page.keyboard.press("Escape")
    expect(page.locator(".head-switches .tip")).to_be_hidden()
    page.keyboard.press("Control+End")
    page.keyboard.press("Space")
    page.keyboard.press("Tab")  # leaves the grid: one stop, and nothing waits any longer
    heard(page, "1.0 1.1 1.2 1.3 1.4 1.5 1.6 1.7 3.7")


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


def test_a_change_that_python_does_not_keep_goes_with_the_next_run(
    show_switches: Show, wait_idle: Wait
) -> None:
    page = show_switches("refuse=1")
    tile(page, 1, 1).click()
    heard(page, "", 1)
    wait_idle(page)
    page.get_by_role("button", name="Run again").click()
    expect(tile(page, 1, 1)).to_have_attribute("aria-checked", "true")


def test_another_model(show_switches: Show, wait_idle: Wait) -> None:
    page = show_switches()
    tile(page, 0, 1).click()
    heard(page, "0.1", 1)
    page.get_by_text("Small").click()
    expect(page.locator(".head-switches .tile")).to_have_count(6)
    assert off(page) == ["L0 H1"]
    tile(page, 1, 2).click()
    heard(page, "0.1 1.2", 2)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_and_legend(show_switches: Show, scheme: Any) -> None:
    page = show_switches("value=signed", color_scheme=scheme)
    root = page.locator(".head-switches")
    expect(root).to_have_attribute("data-theme", scheme)
    values = importance(4, 8, "signed")
    reach = np.abs(values).max()
    for i, j in [*np.ndindex(4, 8)][::5]:
        seen = tile(page, i, j).evaluate("e => getComputedStyle(e).backgroundColor")
        rgb = [255 * float(part) for part in re.findall(r"[.0-9]+(?:e-\d+)?", seen)]
        place = (values[i, j] / reach + 1) / 2
        want = theme.rgb(theme.mix(theme.diverging(scheme == "dark"), place))
        assert rgb == pytest.approx(want, abs=1)
    ends = page.locator(".head-switches .end").all_text_contents()
    assert ends == [f"-{reach:.4g}", f"{reach:.4g}"]
    before = tile(page, 2, 2).evaluate("e => getComputedStyle(e).backgroundImage")
    tile(page, 2, 2).click()
    crossed = tile(page, 2, 2).evaluate("e => getComputedStyle(e).backgroundImage")
    assert before == "none" and crossed.count("linear-gradient") == 2
    expect(page.get_by_text("1 of 32 heads off")).to_be_visible()


def test_values_are_named_and_missing_ones_too(show_switches: Show) -> None:
    page = show_switches("value=gaps&name=<b>bold</b> $x$")
    tip = page.locator(".head-switches .tip")
    tile(page, 0, 1).hover()
    expect(tip).to_have_text("L0 H1, on, <b>bold</b> $x$ 0.0123")
    tile(page, 0, 2).hover()
    expect(tip).to_have_text("L0 H2, on, <b>bold</b> $x$ not defined")
    assert tile(page, 0, 2).evaluate("e => e.classList.contains('missing')")
    expect(page.locator(".head-switches .legend")).to_contain_text("not defined")
    assert page.locator(".head-switches b").count() == 0
    page.get_by_text("app runs").hover()
    expect(tip).to_be_hidden()
    bare = show_switches("value=none")
    tile(bare, 0, 1).hover()
    expect(bare.locator(".head-switches .tip")).to_have_text("L0 H1, on")
    expect(bare.locator(".head-switches .ramp")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_tile_holds_its_heads_pattern_and_label(show_switches: Show, scheme: Any) -> None:
    page = show_switches("patterns=yes", color_scheme=scheme)
    page.locator(".head-switches[data-painted]").wait_for()
    box, area = tile(page, 1, 1).bounding_box(), page.locator("canvas.patterns").bounding_box()
    assert box and area and min(box["width"], box["height"]) > 60
    seen = pixels(page, "canvas.patterns")[..., :3].astype(int)
    left, top = (round(box[side] - area[side]) for side in "xy")
    inside = seen[top + 6 : top + round(box["height"]) - 24, left : left + round(box["width"])]
    ends = [np.array(theme.rgb(colour)) for colour in theme.sequential(scheme == "dark")]
    # All rows look at the first token: one column has the scale's end, the others its beginning.
    assert np.abs(inside[:, :8] - ends[-1]).max((0, 2)).min() <= 2
    assert np.abs(inside[:, 12:-8] - ends[0]).max() <= 12
    assert tile(page, 1, 1).inner_text() == "Sink +1" and tile(page, 1, 2).inner_text() == ""
    said = tile(page, 1, 1).get_attribute("aria-label") or ""
    assert said.startswith("L1 H1, on, Sink, <b>Other</b>, importance ")
    assert page.locator("canvas.patterns").get_attribute("aria-hidden") == "true"


def test_patterns_are_sent_once_and_not_painted_for_a_switch(
    show_switches: Show, wait_idle: Wait
) -> None:
    page = show_switches("patterns=yes&layers=12&heads=12")
    page.locator(".head-switches[data-painted]").wait_for()
    wait_idle(page)
    before = pixels(page, "canvas.patterns")
    paint = "CanvasRenderingContext2D.prototype.putImageData"
    page.evaluate(f"void ({paint} = () => (window.painted = true))")
    network, received = page.context.new_cdp_session(page), []
    network.on(
        "Network.webSocketFrameReceived",
        lambda event: received.append(len(event["response"]["payloadData"])),
    )
    network.send("Network.enable")
    tile(page, 2, 3).click()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    heard(page, "2.3 2.4")
    wait_idle(page)
    assert off(page) == ["L2 H3", "L2 H4"]
    assert received and sum(received) < 12 * 12 * 60 * 60 / 2
    assert (pixels(page, "canvas.patterns") == before).all()
    assert page.evaluate("window.painted") is None
    network.detach()
