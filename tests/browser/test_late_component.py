"""What draws a component comes to the browser once."""

import re

from playwright.sync_api import expect

from mha_viz.web.browser import script
from tests.browser.workbench_page import click_head

TEXT = "The old dog slept while the young cat watched the birds."
LINK = f"/?text={TEXT}&layer=1&head=2"


def test_the_script_does_not_travel_with_each_choice(open_page, wait_idle):
    page = open_page(LINK)
    frames: list[int] = []
    devtools = page.context.new_cdp_session(page)
    devtools.on(
        "Network.webSocketFrameReceived",
        lambda event: frames.append(len(event["response"]["payloadData"])),  # in base64
    )
    devtools.send("Network.enable")
    click_head(page, 2, 5)
    expect(page).to_have_url(re.compile("layer=2&head=5"))
    wait_idle(page)
    devtools.detach()
    assert len(frames) > 3 and sum(frames) < len(script("workbench"))
