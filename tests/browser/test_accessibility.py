"""Every page, in light and in dark, passes axe-core, and fits a phone."""

from importlib.resources import files
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from mha_viz.learn.frame.contents import LABS
from mha_viz.ui.state.link_values import Pin, written
from mha_viz.ui.state.views import SECTIONS
from mha_viz.ui.widgets.controls.lazy_sections import WAIT_TEXT
from tests.browser.compare_page import fits
from tests.browser.ready import PENDING, next_run, wait_ready, wait_until
from tests.browser.workbench_page import PHONE, TEXT
from tests.ui.why_app import LINKS

PINS = Pin("tiny-bert", TEXT, "", "self", 0, 2), Pin("tiny-gpt2", TEXT, "", "self", 1, 3)
AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
WHY = {"model": "tiny-gpt2", "text": TEXT}
PATHS = (
    f"/?text={TEXT}",
    *(f"/compare?text={TEXT}&section={section}" for section in SECTIONS),
    f"/compare?text={TEXT}&section=more&more=flow",
    f"/compare?text={TEXT}&section=sides&text_b=The old cat slept.",
    f"/compare?text={TEXT}&section=pins&pins={written(PINS)}",
    *(f"/why?{urlencode(WHY | link)}" for link in LINKS),
    f"/?text={TEXT}&off=0.1&how=mean",
    "/learn",
    "/start",
    *(f"/{lab.address}" for lab in LABS),
    "/glossary",
    "/teach",
    "/class",
)


def faults(page: Page, *rules: str) -> list[str]:
    """Return what axe finds, by all rules where none is named."""
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = {"type": "rule", "values": list(rules)}
    report = page.evaluate("(options) => axe.run(document, options)", options)
    return [
        f"{fault['id']}: {node['html'][:200]}\n    {node['target']}\n    {node['failureSummary']}"
        for fault in report["violations"]
        for node in fault["nodes"]
    ]


@pytest.mark.parametrize("path", PATHS)
def test_a_page_in_light_and_in_dark_has_no_fault(open_page, path) -> None:
    page = open_page(path)
    page.evaluate(AXE)
    assert not (violations := faults(page)), "\n".join(violations)
    page.emulate_media(color_scheme="dark")
    app = "document.querySelector('[data-testid=stApp]')"
    wait_until(page, f"() => getComputedStyle({app}).colorScheme === 'dark'")
    wait_ready(page)
    assert not (violations := faults(page, "color-contrast")), "\n".join(violations)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["", "compare", "why"])
def test_a_page_with_its_menus_open_has_no_fault(open_page, path, scheme) -> None:
    page = open_page(f"/{path}?text={TEXT}&model=tiny-gpt2", color_scheme=scheme)
    page.evaluate(AXE)
    opens = page.locator("[role=listbox][data-rac], [data-testid=stPopoverBody]")
    menus = page.locator("[role=combobox]").element_handles()[:3]  # what is open hides the others
    menus += page.get_by_test_id("stPopover").get_by_role("button").element_handles()[:3]
    menus = [menu for menu in menus if menu.is_enabled()]
    assert len(menus) >= 4
    for menu in menus:
        menu.click()
        opens.first.wait_for()
        expect(opens.get_by_text(WAIT_TEXT)).to_have_count(0)  # its contents come with a run
        wait_ready(page)
        assert not (violations := faults(page)), "\n".join(violations)
        page.keyboard.press("Escape")
        expect(opens).to_have_count(0)


def test_a_list_that_scrolls_and_a_code_have_no_fault(open_page) -> None:
    page = open_page(f"/?text={TEXT * 4}&show=table", viewport={"width": 1280, "height": 720})
    page.get_by_role("button", name="Link", exact=True).click()
    with next_run(page):
        page.get_by_text("QR code", exact=True).click()
    expect(page.get_by_role("img", name="QR code")).to_be_visible()
    page.evaluate(AXE)
    assert not (violations := faults(page)), "\n".join(violations)


def test_a_page_that_works_has_no_fault(open_page) -> None:
    page = open_page("/glossary")
    page.evaluate(AXE)
    page.evaluate(PENDING, True)
    expect(page.get_by_role("progressbar", name="Page is working")).to_be_visible()
    assert not (violations := faults(page)), "\n".join(violations)


def test_axe_finds_what_is_wrong(open_page) -> None:
    page = open_page("/glossary")
    page.evaluate(AXE)
    page.evaluate("""document.querySelector("h1").insertAdjacentHTML("afterend",
        '<h5>Too deep</h5><p style="color: #999; background: #fff">Too faint</p>')""")
    rules = {fault.split(":")[0] for fault in faults(page)}
    assert rules == {"heading-order", "color-contrast"}


@pytest.mark.parametrize("path", [*PATHS, "/many_texts"])
def test_a_page_is_no_wider_than_a_phone(open_page, path) -> None:
    assert fits(open_page(path, **PHONE))
