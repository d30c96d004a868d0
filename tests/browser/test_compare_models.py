"""Two models in Compare as a person uses it: matched heads, and the untrained copy."""

import re
from urllib.parse import urlsplit

from playwright.sync_api import expect

from tests.browser.compare_page import heading, plot, query
from tests.ui.compare_app import TEXT
from tests.ui.test_compare_models import matched

LINK = f"/compare?text={TEXT}&section=models&model=tiny-gpt2&model_b="


def test_a_click_on_the_map_opens_a_head_and_its_counterpart(open_page, wait_idle):
    page = open_page(f"{LINK}tiny-llama&layer=0&head=0")
    found = matched("tiny-gpt2", "tiny-llama", "hellinger")
    area = plot(page).locator(".nsewdrag").first
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    area.click(position={"x": box["width"] * 6.5 / 8, "y": box["height"] * 2.5 / 4})
    other = found.b[list(found.a).index(2 * 8 + 6)]
    expect(heading(page, f"L2 H6 and L{other // 8} H{other % 8}")).to_be_visible()
    expect(page).to_have_url(re.compile("layer=2&head=6"))
    wait_idle(page)
    again = open_page("/compare?" + urlsplit(page.url).query)
    expect(heading(again, f"L2 H6 and L{other // 8} H{other % 8}")).to_be_visible()


def test_the_untrained_copy_is_chosen_like_another_model(open_page, wait_idle):
    page = open_page(f"{LINK}tiny-llama&layer=1&head=2")
    plot(page)
    page.get_by_role("combobox", name="Other model").click()
    page.get_by_role("option", name="The same with random weights").click()
    expect(page.get_by_text("B is tiny-gpt2 (random weights).")).to_be_visible()
    wait_idle(page)
    assert query(page)["model_b"] == "untrained"
    page.get_by_role("radio", name="Side by side").click()
    expect(heading(page, "L1 H2 and L1 H2")).to_be_visible()
    expect(page.get_by_text("B is tiny-gpt2 (random weights) on")).to_be_visible()
    wait_idle(page)
    assert page.get_by_test_id("stAlert").count() == 0
