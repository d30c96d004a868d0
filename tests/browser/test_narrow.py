"""Every page on a phone."""

import pytest

from tests.browser.compare_page import fits
from tests.browser.test_accessibility import PATHS
from tests.browser.workbench_page import PHONE


@pytest.mark.parametrize("path", [*PATHS, "/many_texts"])
def test_a_page_is_no_wider_than_a_phone(open_page, path) -> None:
    assert fits(open_page(path, **PHONE))
