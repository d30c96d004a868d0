"""Names on controls are seen whole."""

from playwright.sync_api import Locator, expect

TEXT = "The old dog slept while the young cat watched the birds."


def missing(label: Locator) -> int:
    """Pixels of a label that are cut off."""
    return label.evaluate("(element) => element.scrollWidth - element.clientWidth")


def test_the_longest_name_in_the_workbench_and_the_files_of_an_export(open_page):
    page = open_page(f"/?text={TEXT}&sort=keys_for_mass")
    menu = page.locator(".grid-view select").first
    assert menu.evaluate("e => e.selectedOptions[0].text") == "Keys for 90 % of the weight"
    assert missing(menu) <= 0
    page.get_by_role("button", name="Export").first.click()
    names = page.get_by_test_id("stDownloadButton").get_by_test_id("stMarkdownContainer")
    expect(names.filter(has_text="All heads as HTML")).to_be_visible()
    for name in names.all():
        assert missing(name) <= 0, name.inner_text()


def test_the_longest_name_of_a_metric(open_page):
    page = open_page(f"/compare?text={TEXT}&metric=keys_for_mass")
    shown = page.get_by_test_id("stSelectbox").filter(
        has=page.get_by_role("combobox", name="Metric")
    )
    field = shown.get_by_role("combobox")
    assert field.input_value() == "Keys for 90 % of the weight"
    assert missing(field) <= 0


def test_the_sum_over_the_products_on_a_phone(open_page):
    page = open_page(f"/?text={TEXT}&show=pair", viewport={"width": 390, "height": 844})
    words = page.locator(".js-plotly-plot .annotation-text").filter(has_text="softmax")
    expect(words).to_be_visible()
    figure, text = words.locator("xpath=ancestor::*[local-name()='svg']").last, words
    inside, box = figure.bounding_box(), text.bounding_box()
    assert inside["x"] <= box["x"]
    assert box["x"] + box["width"] <= inside["x"] + inside["width"]
