"""The Corpus page as a person uses it, in a real Chromium."""

from playwright.sync_api import expect

from tests.browser.test_accessibility import nothing_in_light_and_dark

MADE = 120_000  # milliseconds: the study of the sample, on a busy machine


def opened(open_page, wait_idle, link, **options):
    page = open_page(link, **options)
    expect(page.get_by_role("heading", name="Search")).to_be_visible(timeout=MADE)
    wait_idle(page)
    return page


def test_from_the_menu_to_a_head_and_an_example_of_it_in_explore(open_page, wait_idle):
    page = open_page("/")
    page.get_by_role("link", name="Corpus", exact=True).click()
    expect(page.get_by_role("heading", name="Search")).to_be_visible(timeout=MADE)
    wait_idle(page)
    page.get_by_label("Token that looks").fill("because")
    page.get_by_label("Token that looks").press("Enter")
    expect(page.get_by_text("because →").first).to_be_visible()
    wait_idle(page)
    assert "from_word=because" in page.url
    with page.context.expect_page() as tab:
        page.get_by_role("link", name="Open in Explore").last.click()
    other = tab.value
    assert "text=" in other.url and "query=" in other.url
    other.close()


def test_nothing_for_axe_to_find_in_light_and_in_dark(open_page, wait_idle):
    link = "/corpus?from_word=because&any_head=1"
    page = opened(open_page, wait_idle, link, color_scheme="light")
    nothing_in_light_and_dark(page, wait_idle)
