"""Every page, in light and in dark, has nothing that axe-core finds fault with."""

from collections.abc import Callable
from importlib.resources import files
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from mha_viz.learn.frame.contents import LABS
from mha_viz.ui.state.link_values import Pin, written
from mha_viz.ui.state.views import CIRCUITS, SECTIONS
from tests.browser.idle import wait_until

TEXT = "The old dog slept while the young cat watched the birds."
PINS = Pin("tiny-bert", TEXT, "", "self", 0, 2), Pin("tiny-gpt2", TEXT, "", "self", 1, 3)
AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
PATHS = (
    f"/?text={TEXT}",
    *(f"/compare?text={TEXT}&section={section}" for section in SECTIONS),
    f"/compare?text={TEXT}&section=sides&text_b=The old cat slept.",
    f"/compare?text={TEXT}&section=pins&pins={written(PINS)}",
    *(f"/circuits?model=tiny-gpt2&text={TEXT}&circuit={section}" for section in CIRCUITS),
    f"/intervene?text={TEXT}&off=0.1",
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
    found = page.evaluate("(options) => axe.run(document, options)", options)
    return [
        f"{fault['id']}: {node['html'][:200]}\n    {node['target']}\n    {node['failureSummary']}"
        for fault in found["violations"]
        for node in fault["nodes"]
    ]


def nothing_in_light_and_dark(page: Page, wait_idle: Callable[[Page], None]) -> None:
    """axe finds nothing of ours on a page that is open in light, nor in its colours in dark."""
    page.evaluate(AXE)
    assert not (found := faults(page)), "\n".join(found)
    page.emulate_media(color_scheme="dark")
    app = "document.querySelector('[data-testid=stApp]')"
    wait_until(page, f"() => getComputedStyle({app}).colorScheme === 'dark'")
    wait_idle(page)
    assert not (found := faults(page, "color-contrast")), "\n".join(found)


@pytest.mark.parametrize("path", PATHS)
def test_a_page_in_light_and_in_dark(open_page, wait_idle, path):
    page = open_page(path, color_scheme="light")
    nothing_in_light_and_dark(page, wait_idle)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "path", [f"/{page}?text={TEXT}" for page in ("", "compare", "circuits", "intervene")]
)
def test_a_page_with_its_menus_open(open_page, wait_idle, path, scheme):
    page = open_page(f"{path}&model=tiny-gpt2", color_scheme=scheme)
    page.evaluate(AXE)
    opens = page.locator("[role=listbox][data-rac], [data-testid=stPopoverBody]")
    menus = page.locator("[role=combobox]").element_handles()[:3]  # what is open hides the others
    menus += page.get_by_test_id("stPopover").get_by_role("button").element_handles()[:3]
    opened = 0
    for menu in menus:
        if not menu.is_enabled():
            continue
        menu.click()
        opens.first.wait_for()
        wait_idle(page)
        assert not (found := faults(page)), "\n".join(found)
        page.keyboard.press("Escape")
        expect(opens).to_have_count(0)
        opened += 1
    assert opened >= 4


def test_axe_finds_what_is_wrong(open_page):
    page = open_page("/glossary")
    page.evaluate(AXE)
    page.evaluate("""document.querySelector("h1").insertAdjacentHTML("afterend",
        '<h5>Too deep</h5><p style="color: #999; background: #fff">Too faint</p>')""")
    found = faults(page)
    assert {fault.split(":")[0] for fault in found} == {"heading-order", "color-contrast"}
