"""What Streamlit does with a component when its data change twice in a moment."""

import pytest
from playwright.sync_api import Browser

from mha_viz.web.browser import script

SWITCHES = {
    "layers": 2,
    "heads": 3,
    "off": [],
    "value": None,
    "name": "",
    "heard": None,
    "stale": False,
    "selected": None,
}
DATA = {
    "head_grid": {"error": "first"},
    "head_switches": SWITCHES,
    "workbench": {"part": "both", "name": "test", "error": "first"},
    "number_table": {"tables": [], "across": None, "clickable": False},
    "figure_download": {"figure": "{}", "plotly": None, "name": "a"},
}
CALL = """async ([source, data]) => {
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const { default: component } = await import(url);
  const parentElement = document.createElement("div");
  document.body.append(parentElement);
  const call = () => component({ parentElement, data, setTriggerValue() {} });
  const [overtaken, latest] = [call(), call()];
  const drawn = () => parentElement.childElementCount;
  const counts = [drawn()];
  for (const end of [overtaken, latest]) { end(); counts.push(drawn()); }
  call();
  return [...counts, drawn()];
}"""


@pytest.mark.parametrize("name", DATA)
def test_the_end_of_an_overtaken_call_leaves_the_picture(browser: Browser, name: str) -> None:
    page = browser.new_page()
    assert page.evaluate(CALL, [script(name), DATA[name]]) == [1, 1, 0, 1]
    page.close()
