"""The first page of Learn, walked through in a real Chromium."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.canvas import pixels

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
LAST = 14
VIEW = "root => root.parentNode.mhaViews.firstSentence"


def place_of(page: Page, kind: str, row: int, col: int) -> tuple[float, float]:
    """Return the place of a number of the followed head in the window."""
    at = page.locator(".first-sentence").evaluate(
        """(root, [kind, row, col]) => {
            const { world, painter, model, canvas } = root.parentNode.mhaViews.firstSentence;
            const block = world.block(kind, ...model.header.author);
            const { left, top } = canvas.getBoundingClientRect();
            const x = block.x + ((col + 0.5) / block.cols) * block.width;
            const y = block.y + ((row + 0.5) / block.rows) * block.height;
            return [left + painter.x(x), top + painter.y(y)];
        }""",
        [kind, row, col],
    )
    return at[0], at[1]


def picture(page: Page) -> bytes:
    return pixels(page, ".first-sentence .picture").tobytes()


def still(page: Page) -> None:
    """Wait until the picture has arrived: what is pointed at while it moves is elsewhere."""
    before = None
    while (now := picture(page)) != before:
        before = now
        page.wait_for_timeout(300)


def test_all_steps_forward_and_back_a_number_and_the_head_that_carries_it(open_page, wait_idle):
    page = open_page("/start")
    title, count = page.locator(".step-title"), page.locator(".first-sentence .count")
    expect(title).to_have_text("What comes next?")
    seen, titles = {picture(page)}, [title.inner_text()]
    for step in range(2, LAST + 1):
        page.locator(".first-sentence .primary").click()
        expect(count).to_have_text(f"{step} of {LAST}")
        page.wait_for_timeout(60)  # a frame
        seen.add(picture(page))
        titles.append(title.inner_text())
    assert len(seen) == len(set(titles)) == LAST
    expect(page.locator(".first-sentence .primary")).to_be_disabled()
    expect(page.locator(".step-text")).to_contain_text("Without L0 H7")
    expect(page.locator(".switch[aria-pressed=true]")).to_have_attribute(
        "aria-label", re.compile("^L0 H7, Previous token")
    )
    words = page.locator(".words")
    expect(words.locator(".word").first).to_contain_text("box0.0098")
    before = picture(page)
    page.locator(".switch").first.click()
    expect(words.locator(".word").first).to_contain_text("box0.43")
    expect(page.locator(".first-sentence .live")).to_contain_text("L0 H0 is off")
    page.wait_for_timeout(60)
    assert picture(page) != before  # other heads' weights
    page.locator(".first-sentence .picture").focus()
    for step in range(LAST - 1, 0, -1):
        page.keyboard.press("ArrowLeft")
        expect(count).to_have_text(f"{step} of {LAST}")
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    expect(title).to_have_text("Scores become weights")
    still(page)
    page.mouse.move(*place_of(page, "weight", 19, 9))
    tip = page.locator(".first-sentence .tip")
    expect(tip).to_contain_text("weight of “box” for “green”")
    expect(tip).to_contain_text(re.compile(r"0\.852 = softmax of 6\.23 among the 20 scores"))
    wait_idle(page)
    assert page.url.endswith("/start")


def test_the_picture_is_wandered_about_in_and_escape_leads_back(open_page):
    page = open_page("/start")
    begun = picture(page)
    box = page.locator(".first-sentence .picture").bounding_box()
    page.mouse.move(box["x"] + 300, box["y"] + 300)
    page.mouse.wheel(0, -400)
    page.wait_for_timeout(60)
    zoomed = picture(page)
    page.mouse.down()
    page.mouse.move(box["x"] + 200, box["y"] + 250, steps=4)
    page.mouse.up()
    page.wait_for_timeout(60)
    assert len({begun, zoomed, picture(page)}) == 3
    page.locator(".first-sentence .picture").focus()
    for key in ("+", "+", "Shift+ArrowDown", "Shift+ArrowDown"):
        page.keyboard.press(key)
    page.keyboard.press("Escape")
    page.mouse.move(5, 5)
    page.wait_for_timeout(100)
    apart = "view => Math.abs(view.view.scale - view.target().scale)"
    assert page.locator(".first-sentence").evaluate(f"root => ({apart})(({VIEW})(root))") < 1e-6


def test_with_motion_the_way_takes_time_and_arrives(open_page):
    page = open_page("/start", reduced_motion="no-preference")
    began, arrived = page.locator(".first-sentence").evaluate(
        """async (root) => {
            const view = root.parentNode.mhaViews.firstSentence;
            root.querySelectorAll(".dot")[7].click();
            const began = view.motion !== null && view.view.scale !== view.target().scale;
            while (view.motion) await new Promise(requestAnimationFrame);
            return [began, Math.abs(view.view.scale - view.target().scale) < 1e-6];
        }"""
    )
    assert began and arrived
    expect(page.locator(".step-title")).to_have_text("The head gathers")


@pytest.mark.extended
@pytest.mark.journey
def test_a_sentence_of_ones_own_is_followed_and_carried_by_the_link(open_page, wait_idle):
    page = open_page("/start")
    box = page.get_by_label("Your sentence")
    box.fill("The cat sat on the <b>mat</b>")
    box.press("Enter")
    expect(page).to_have_url(re.compile("sentence="))
    wait_idle(page)
    expect(page.locator(".step-text")).to_contain_text("<b>mat</b> ___")
    again = open_page(page.url)
    expect(again.get_by_label("Your sentence")).to_have_value("The cat sat on the <b>mat</b>")
    box.fill("cat " * 40)
    box.press("Enter")
    expect(page.get_by_text("leave out some words")).to_be_visible()


def test_on_a_phone_it_fits_and_a_finger_goes_on_and_points(open_page):
    page = open_page("/start", **PHONE)
    main = page.get_by_test_id("stMain")
    assert main.evaluate("e => e.scrollWidth <= e.clientWidth + 1")
    for _ in range(6):
        page.locator(".first-sentence .primary").tap()
    expect(page.locator(".step-title")).to_have_text("Scores become weights")
    for part in (".picture", ".step-text"):
        expect(page.locator(f".first-sentence {part}")).to_be_in_viewport(ratio=0.9)
    still(page)
    page.touchscreen.tap(*place_of(page, "weight", 19, 9))
    expect(page.locator(".first-sentence .tip")).to_contain_text("weight of “box” for “green”")


def test_the_list_of_labs_begins_with_it(open_page, wait_idle):
    page = open_page("/learn")
    card = page.locator(".st-key-start-card")
    expect(card).to_be_in_viewport()
    card.get_by_role("link").click()
    expect(page.locator(".step-title")).to_have_text("What comes next?")
    wait_idle(page)
    assert page.url.endswith("/start")
