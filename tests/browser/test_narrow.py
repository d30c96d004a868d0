"""Every page on a phone."""

from urllib.parse import urlencode

import pytest

from mha_viz.learn.frame.contents import LABS
from mha_viz.ui.state.views import SECTIONS
from tests.browser.compare_page import fits
from tests.browser.workbench_page import PHONE, TEXT
from tests.ui.why_app import LINKS

WHY = {"model": "tiny-gpt2", "text": TEXT}
PATHS = (
    *(f"/compare?text={TEXT}&section={section}" for section in SECTIONS),
    *(f"/why?{urlencode(WHY | link)}" for link in LINKS),
    *("/?off=0.1&how=mean", "/many_texts", "/learn", "/start", "/glossary", "/teach", "/class"),
    *(f"/{lab.address}" for lab in LABS),
)


@pytest.mark.parametrize("path", PATHS)
def test_a_page_is_no_wider_than_a_phone(open_page, path) -> None:
    assert fits(open_page(path, **PHONE))
