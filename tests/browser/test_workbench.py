"""The workbench of the Heads page with its server: messages that meet, and small windows.

What is drawn when something is chosen is tried in test_workbench.js of tests/web.
"""

import pytest
from playwright.sync_api import expect

import mha_viz as mv
from mha_viz.web.browser import script
from tests.browser.canvas import pixels, tile_box
from tests.browser.compare_page import query
from tests.browser.ready import wait_ready
from tests.browser.workbench_page import (
    PHONE,
    TEXT,
    cell,
    chosen_head,
    click_head,
    name_of,
    view_menu,
)

LINK = f"/?text={TEXT}&layer=1&head=2"


def test_choices_while_the_server_is_busy_all_reach_the_address(open_page) -> None:
    """The server reads only the last of the messages that wait."""
    page = open_page(LINK)
    page.get_by_text("All heads as a table").click()  # a run that takes a while
    name_of(page).scroll_into_view_if_needed()
    for layer, head in ((3, 7), (2, 5)):
        click_head(page, layer, head)
        expect(page.locator("html")).to_have_attribute("data-ready", "working")
    view_menu(page).get_by_role("radio", name="Linear").click()
    view_menu(page).get_by_role("checkbox", name="Hide special tokens").check()
    wait_ready(page)
    expect(name_of(page)).to_have_text("L2 H5")
    chosen = {"layer": "2", "head": "5", "scale": "linear", "no_special": "1"}
    assert chosen.items() <= query(page).items()


@pytest.mark.parametrize("size", [(1280, 720), (2560, 1440)])
def test_all_heads_and_the_chosen_head_are_in_the_window_without_scrolling(open_page, size) -> None:
    width, height = size
    page = open_page(LINK, viewport={"width": width, "height": height})
    for part in (".head-grid .cells", ".grid-view .legend", ".heat-cells", ".head-view .heat-bar"):
        expect(page.locator(part).first).to_be_in_viewport(ratio=1)
    grid, heat = (page.locator(part).bounding_box() for part in (".head-grid", ".heat-cells"))
    assert grid["x"] + grid["width"] <= heat["x"]  # covers it nowhere


def test_workbench_on_a_phone_takes_taps_on_heads_cells_and_lines(open_page) -> None:
    page = open_page(LINK, **PHONE)
    expect(chosen_head(page)).to_have_attribute("data-exact", "true")
    grid, heat = (page.locator(part).bounding_box() for part in (".head-grid", ".heat-cells"))
    assert heat["y"] + heat["height"] <= grid["y"]
    page.locator(".heat-over").scroll_into_view_if_needed()
    page.touchscreen.tap(*cell(page, 3, 4, len(mv.load("tiny-bert").trace(TEXT).tokens)))
    wait_ready(page)
    assert {"query": "3", "key": "4"}.items() <= query(page).items()
    page.locator(".head-grid").scroll_into_view_if_needed()
    tile = tile_box(page, 2, 1)
    page.touchscreen.tap(tile["x"] + tile["side"] / 2, tile["y"] + tile["side"] / 2)
    expect(name_of(page)).to_have_text("L2 H1")
    page.get_by_role("radio", name="Lines").click()
    expect(page.locator(".token-lines[data-painted]")).to_be_visible()
    assert pixels(page, ".token-lines canvas")[..., 3].any()
    page.locator(".token-lines .queries .row").nth(2).tap()
    wait_ready(page)
    assert query(page)["query"] == "2" and "key" not in query(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_choice_brings_neither_the_picture_nor_its_script_again(open_page) -> None:
    text = "the cat " * 60
    page = open_page(f"/?text={text}")
    frames: list[int] = []
    devtools = page.context.new_cdp_session(page)
    devtools.on(
        "Network.webSocketFrameReceived",
        lambda event: frames.append(len(event["response"]["payloadData"])),
    )
    devtools.send("Network.enable")
    click_head(page, 2, 5)
    expect(name_of(page)).to_have_text("L2 H5")
    wait_ready(page)
    assert query(page)["head"] == "5"
    devtools.detach()
    n = len(mv.load("tiny-bert").trace(text).tokens)
    assert frames and sum(frames) < min(len(script("workbench")), 32 * n * n)
