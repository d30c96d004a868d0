"""The workbench of the Explore page with its server: what is told, the address, the layout.

What is drawn when something is chosen is tried in test_workbench.js of tests/web.
"""

import re

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import mha_viz as mv
from mha_viz.web.theme import format_weight
from tests.browser.canvas import pixels
from tests.browser.compare_page import query
from tests.browser.idle import run_asked_for
from tests.browser.workbench_page import (
    cell,
    chosen_head,
    click_head,
    menu_of,
    name_of,
    word,
)

TEXT = "The old dog slept while the young cat watched the birds."
LINK = f"/?text={TEXT}&layer=1&head=2"


def record() -> mv.AttentionRecord:
    return mv.load("tiny-bert").trace(TEXT)


@pytest.fixture
def cut_off():
    """`cut_off(page)`: from now on nothing that the page says reaches the server."""

    def cut_off(page: Page) -> None:
        page.evaluate("() => { WebSocket.prototype.send = () => {}; }")

    return cut_off


def test_what_is_chosen_is_drawn_without_the_server(open_page, cut_off):
    page = open_page(LINK)
    report = mv.head_report(record(), mv.load("tiny-bert"))
    expect(page.locator(".head-grid .badge")).to_have_count(int((report.labels != "").sum()))
    cut_off(page)
    before = pixels(page, ".heat-cells")
    click_head(page, 3, 7)
    expect(page.locator(".heat")).to_have_attribute("data-painted", "L3 H7")
    expect(page.locator(".head-grid")).to_have_attribute("data-selected", "L3 H7")
    after = pixels(page, ".heat-cells")
    assert (after != before).any()
    expect(chosen_head(page)).to_have_attribute("data-exact", "true")  # for the pointer rests there
    weights = record().head(3, 7)
    row, column = divmod(int(weights.argmax()), weights.shape[1])
    page.mouse.move(*cell(page, row, column, len(weights)))
    tip = page.locator(".heat .tip")
    expect(tip.locator(".weight")).to_have_text(format_weight(weights[row, column]))
    expect(tip).to_contain_text(f"largest of {len(weights)} in its row")
    page.mouse.move(*cell(page, 2, 3, len(weights)))
    page.mouse.down()
    page.mouse.move(*cell(page, 4, 5, len(weights)))
    page.mouse.move(*cell(page, 5, 6, len(weights)))
    page.mouse.up()
    page.get_by_role("button", name="Show all").click()
    page.mouse.move(1, 1)
    assert (pixels(page, ".heat-cells") == after).all()
    page.get_by_role("radio", name="Token lines").click()
    expect(page.locator(".token-lines[data-painted]")).to_be_visible()
    menu_of(page, "Sort").select_option("entropy")
    entropy = report["entropy"].to_numpy()
    names = page.locator(".head-grid .caption b").all_text_contents()
    assert names == [f"L{i // 8} H{i % 8}" for i in np.argsort(-entropy, kind="stable")]
    page.get_by_role("checkbox", name="No special").check()
    n = sum(not token.is_special for token in record().tokens)
    expect(page.locator(".head-view .word")).to_have_count(n)
    assert query(page)["layer"] == "1"  # the server has heard nothing


def test_what_was_chosen_meanwhile_reaches_the_address_once(open_page, wait_idle):
    page = open_page(LINK)
    steps, asked = page.evaluate("[history.length, talk.asked]")
    page.locator(".head-grid .cells").focus()
    for key in ("Control+Home", "ArrowDown", "Enter", "ArrowDown", "Enter", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    page.get_by_role("radio", name="Log").click()
    expect(page).to_have_url(re.compile("scale=log"))  # what came last is told last
    wait_idle(page)
    assert {"layer": "2", "head": "1", "scale": "log"}.items() <= query(page).items()
    assert page.evaluate("history.length") - steps <= 3
    assert page.evaluate("talk.asked") > asked


@pytest.mark.journey
def test_choices_while_the_server_is_busy_are_all_heard(open_page, wait_idle):
    """The server reads only the last of the messages that wait."""
    page = open_page(LINK)
    page.get_by_text("All heads as a table").click()  # a run that takes a while
    for layer, number in ((3, 7), (2, 5)):
        with run_asked_for(page):
            click_head(page, layer, number)
    with run_asked_for(page):
        page.get_by_role("radio", name="Linear").click()
    page.get_by_role("checkbox", name="No special").check()
    wait_idle(page)
    expect(name_of(page)).to_have_text("L2 H5")
    chosen = {"layer": "2", "head": "5", "scale": "linear", "no_special": "1"}
    assert chosen.items() <= query(page).items()


def test_a_pair_of_words_is_in_the_address_and_survives_a_change_of_head(open_page, wait_idle):
    page = open_page(LINK)
    labels = record().labels
    dog, cat = labels.index("dog"), labels.index("cat")
    word(page, cat).click()
    word(page, dog).click()
    weight = format_weight(record().pattern[1, 2, cat, dog])
    expect(page.get_by_text(f"“{labels[cat]}” looks at “{labels[dog]}”: {weight}")).to_be_visible()
    expect(word(page, cat)).to_have_class(re.compile("looks"))
    expect(word(page, dog)).to_have_class(re.compile("looked"))
    expect(page).to_have_url(re.compile(f"query={cat}&key={dog}"))
    click_head(page, 3, 6)
    expect(page).to_have_url(re.compile("layer=3"))
    wait_idle(page)
    assert {"query": str(cat), "key": str(dog), "layer": "3"}.items() <= query(page).items()
    expect(word(page, cat)).to_have_class(re.compile("looks"))
    for show in ("Token lines", "Query · key"):
        page.get_by_role("radio", name=show).click()
        wait_idle(page)
    for label, place in (("Looks (query)", cat), ("Looked at (key)", dog)):
        menu = page.get_by_test_id("stSelectbox").filter(has=page.get_by_text(label, exact=True))
        expect(menu.locator("input")).to_have_value(f"{place} · {labels[place]}")
    page.get_by_role("button", name="Clear selection").click()
    wait_idle(page)
    assert not {"query", "key"} & query(page).keys()


def test_all_heads_and_the_chosen_one_are_whole_without_scrolling(open_page, wait_idle):
    page = open_page(LINK, viewport={"width": 1280, "height": 720})
    expect(chosen_head(page)).to_have_attribute("data-exact", "true")
    for width, height in ((1280, 720), (1440, 900), (2560, 1440)):
        page.set_viewport_size({"width": width, "height": height})
        wait_idle(page)
        for part in (
            ".head-grid .cells",
            ".head-grid .legend",
            ".heat-cells",
            ".head-view .numbers",
            "h2.name",
        ):
            box = page.locator(part).bounding_box()
            assert box["x"] >= 0 and box["y"] >= 0, part
            assert box["x"] + box["width"] <= width and box["y"] + box["height"] <= height, part
        grid, heat = (page.locator(part).bounding_box() for part in (".head-grid", ".heat-cells"))
        assert grid["x"] + grid["width"] <= heat["x"]
        assert heat["width"] * heat["height"] > 0.08 * width * height


@pytest.mark.journey
def test_back_leads_to_the_head_before_and_to_the_pair_before(open_page, wait_idle, go_back):
    page = open_page(LINK)
    click_head(page, 3, 3)
    wait_idle(page)
    word(page, 4).click()
    wait_idle(page)
    go_back(page)
    expect(word(page, 4)).to_have_attribute("aria-pressed", "false")
    expect(name_of(page)).to_have_text("L3 H3")
    go_back(page)
    expect(name_of(page)).to_have_text("L1 H2")
    expect(page.locator(".heat")).to_have_attribute("data-painted", "L1 H2")
    page.go_forward()
    expect(name_of(page)).to_have_text("L3 H3")


def test_on_a_phone_the_parts_stand_one_below_the_other(open_page):
    page = open_page(LINK, viewport={"width": 390, "height": 844}, has_touch=True)
    expect(chosen_head(page)).to_have_attribute("data-exact", "true")
    grid, picture = (page.locator(part).bounding_box() for part in (".head-grid", ".heat-cells"))
    assert grid["y"] + grid["height"] <= picture["y"] and picture["width"] <= 390
    page.locator(".heat-over").scroll_into_view_if_needed()
    page.touchscreen.tap(*cell(page, 3, 4, len(record().tokens)))
    expect(page.locator(".heat .tip")).to_contain_text("in its row")
    expect(page).to_have_url(re.compile("query=3&key=4"))


def test_where_nothing_would_be_left_it_is_said_and_can_be_undone(open_page, wait_idle):
    page = open_page("/?model=tiny-gpt2&text=a&no_first=1")
    expect(page.get_by_text("Nothing would be left").first).to_be_visible()
    page.get_by_role("checkbox", name="No first").uncheck()
    wait_idle(page)
    expect(page.locator(".heat[data-painted]")).to_be_visible()
    expect(page.locator("[data-testid=stAlertContentError]")).to_have_count(0)


def test_messages_that_no_workbench_sends_change_nothing(open_page, wait_idle):
    page = open_page(LINK)
    for sent in (
        None,
        5,
        {"id": 7, "view": "x"},
        {"id": "a", "view": {"layer": "9", "head": "-1"}},
        {"id": "b", "view": {"text": "mine", "model": "../../etc", "sort": "<b>"}},
    ):
        page.evaluate(
            """(sent) => {
              const benches = globalThis[Symbol.for("mha_viz.benches")];
              benches.get("bench").send(sent);
            }""",
            sent,
        )
        wait_idle(page)
        assert page.get_by_test_id("stException").count() == 0
        assert page.locator("[data-testid=stAlertContentError]").count() == 0, sent
    expect(page.get_by_label("Sentence", exact=True)).to_have_value(TEXT)
    assert query(page)["text"] == TEXT


def test_tokens_chosen_with_control_sort_the_heads_by_the_weight_among_them(open_page, wait_idle):
    page = open_page(LINK)
    places = [2, 3, 7]
    for place in places:
        word(page, place).click(modifiers=["Control"])
    among = record().pattern[:, :, places][..., places].sum(-1).mean(-1).flatten()
    layer, head = divmod(int(among.argmax()), 8)
    expect(page.locator(".head-grid .caption b").first).to_have_text(f"L{layer} H{head}")
    expect(page.get_by_text("3 chosen tokens look at each other")).to_contain_text(
        f"with {format_weight(among[10])} of their weight"
    )
    wait_idle(page)
    assert {"tokens": "2.3,7.7", "sort": "among"}.items() <= query(page).items()
