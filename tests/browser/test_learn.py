"""The Learn section as a whole, in a real Chromium; each lab has a file of its own beside it."""

from playwright.sync_api import expect


def test_the_menu_and_the_list_lead_to_a_lab(open_page, wait_idle):
    page = open_page()
    page.get_by_role("button", name="Learn").click()
    page.get_by_text("All labs", exact=True).click()
    expect(page.get_by_role("heading", name="Learn multi-head attention")).to_be_visible()
    page.get_by_role("link", name="1. Attention as soft lookup").last.click()
    expect(page.get_by_role("heading", name="1. Attention as soft lookup")).to_be_visible()
    wait_idle(page)
    assert page.url.endswith("/lab-soft-lookup")


def test_the_projector_enlarges_type_and_stays_on(open_page, wait_idle):
    page = open_page("/lab-soft-lookup")
    title = page.get_by_text("Every number of softmax").first
    before = title.evaluate("e => parseFloat(getComputedStyle(e).fontSize)")
    figure = page.locator(".js-plotly-plot .gtitle").first
    small = figure.evaluate("e => parseFloat(getComputedStyle(e).fontSize)")
    page.get_by_text("Projector").click()
    wait_idle(page)
    assert title.evaluate("e => parseFloat(getComputedStyle(e).fontSize)") > 1.2 * before
    assert figure.evaluate("e => parseFloat(getComputedStyle(e).fontSize)") > 1.2 * small
    page.get_by_role("link", name="All labs").last.click()
    expect(page.get_by_role("heading", name="Learn multi-head attention")).to_be_visible()
    expect(page.get_by_role("switch", name="Projector")).to_be_checked()
