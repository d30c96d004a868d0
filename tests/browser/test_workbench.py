"""The workbench of the Explore page: what is chosen is drawn in the browser, and then told."""

import re

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import mha_viz as mv
from mha_viz.web.theme import format_weight
from tests.browser.canvas import pixels
from tests.browser.compare_page import query
from tests.browser.workbench_page import (
    cell,
    chosen_head,
    click_head,
    menu_of,
    name_of,
    top_pairs,
    word,
)

TEXT = "The old dog slept while the young cat watched the birds."
LINK = f"/?text={TEXT}&layer=1&head=2"


def record() -> mv.AttentionRecord:
    return mv.load("tiny-bert").trace(TEXT)


@pytest.fixture
def cut_off():
    """`cut_off(page)`: from now on nothing that the page says reaches the server."""

    def cut_off(page: Page) -> None:
        page.evaluate("() => { WebSocket.prototype.send = () => {}; }")

    return cut_off


@pytest.mark.journey
def test_a_head_is_painted_without_the_server(open_page, cut_off):
    page = open_page(LINK)
    before = pixels(page, ".heat-cells")
    cut_off(page)
    for layer, number in ((3, 7), (0, 3)):
        click_head(page, layer, number)
        expect(name_of(page)).to_have_text(f"L{layer} H{number}")
        expect(page.locator(".heat")).to_have_attribute("data-painted", f"L{layer} H{number}")
        expect(page.locator(".head-grid")).to_have_attribute("data-selected", f"L{layer} H{number}")
        after = pixels(page, ".heat-cells")
        assert (after != before).any()
        before = after
        weights = record().head(layer, number)
        row, column = divmod(int(weights.argmax()), weights.shape[1])
        page.mouse.move(*cell(page, row, column, len(weights)))
        tip = page.locator(".heat .tip")
        expect(tip.locator(".weight")).to_have_text(format_weight(weights[row, column]))
        expect(tip).to_contain_text(f"largest of {len(weights)} in its row")
    page.locator(".head-grid .cells").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(name_of(page)).to_have_text("L0 H4")
    expect(page.locator(".heat")).to_have_attribute("data-painted", "L0 H4")
    assert query(page)["layer"] == "1"  # the server has heard nothing


def test_pictures_scales_order_and_axes_change_without_the_server(open_page, cut_off):
    page = open_page(LINK)
    cut_off(page)
    page.get_by_role("radio", name="Token lines").click()
    expect(page.locator(".token-lines[data-painted]")).to_be_visible()
    page.get_by_role("radio", name="Top pairs").click()
    expect(page.locator(".pairs tr").nth(1)).to_be_visible()
    page.get_by_role("radio", name="Heatmap").click()
    before = pixels(page, ".heat-cells"), pixels(page, ".head-grid .cells")
    page.get_by_role("radio", name="Log").click()
    after = pixels(page, ".heat-cells"), pixels(page, ".head-grid .cells")
    assert all((one != other).any() for one, other in zip(before, after, strict=True))
    menu_of(page, "Sort").select_option("entropy")
    entropy = mv.head_report(record())["entropy"].to_numpy()
    names = page.locator(".head-grid .caption b").all_text_contents()
    assert names == [f"L{i // 8} H{i % 8}" for i in np.argsort(-entropy, kind="stable")]
    page.get_by_role("spinbutton", name="at least").fill("99")
    page.keyboard.press("Tab")
    expect(page.locator(".grid-view .message").first).to_contain_text(
        f"No head reaches 99 in Entropy: the largest is {entropy.max():.4g}"
    )
    page.get_by_role("checkbox", name="No special").check()
    n = sum(not token.is_special for token in record().tokens)
    expect(page.locator(".head-view .word")).to_have_count(n)


def test_what_was_chosen_meanwhile_reaches_the_address_once(open_page, wait_idle):
    page = open_page(LINK)
    steps, asked = page.evaluate("[history.length, talk.asked]")
    page.locator(".head-grid .cells").focus()
    for key in ("Control+Home", "ArrowDown", "Enter", "ArrowDown", "Enter", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    page.get_by_role("radio", name="Log").click()
    expect(page).to_have_url(re.compile("scale=log"))  # what came last is told last
    wait_idle(page)
    assert {"layer": "2", "head": "1", "scale": "log"}.items() <= query(page).items()
    assert page.evaluate("history.length") - steps <= 3
    assert page.evaluate("talk.asked") > asked


@pytest.mark.journey
def test_choices_while_the_server_is_busy_are_all_heard(open_page, wait_idle):
    """Of messages that wait, the server reads the last one only."""
    page = open_page(LINK)
    page.get_by_text("All heads as a table").click()  # a run that takes a while
    for layer, number in ((3, 7), (2, 5)):
        click_head(page, layer, number)
        page.wait_for_timeout(200)
    page.get_by_role("radio", name="Linear").click()
    page.wait_for_timeout(200)
    page.get_by_role("checkbox", name="No special").check()
    wait_idle(page)
    expect(name_of(page)).to_have_text("L2 H5")
    chosen = {"layer": "2", "head": "5", "scale": "linear", "no_special": "1"}
    assert chosen.items() <= query(page).items()


@pytest.mark.journey
def test_a_pair_of_words_is_marked_everywhere_and_survives_a_change_of_head(open_page, wait_idle):
    page = open_page(LINK)
    labels = record().labels
    dog, cat = labels.index("dog"), labels.index("cat")
    word(page, cat).click()
    expect(page.get_by_text(f"Tinted by how much “{labels[cat]}” looks at each")).to_be_visible()
    tints = [word(page, place).evaluate("e => e.style.background") for place in range(len(labels))]
    row = record().head(1, 2)[cat]
    brightness = [sum(map(int, re.findall(r"\d+", tint)[:3])) for tint in tints]
    assert int(np.argmin(brightness)) == int(row.argmax())
    word(page, dog).click()
    expect(page.get_by_text(f"“{labels[cat]}” looks at “{labels[dog]}”")).to_be_visible()
    expect(word(page, cat)).to_have_class(re.compile("looks"))
    expect(word(page, dog)).to_have_class(re.compile("looked"))
    expect(page.locator(".head-grid .marks")).to_be_visible()
    marks = pixels(page, ".head-grid .marks")[..., 3] > 0
    assert marks.any()
    expect(page).to_have_url(re.compile(f"query={cat}&key={dog}"))
    click_head(page, 3, 6)
    wait_idle(page)
    assert {"query": str(cat), "key": str(dog), "layer": "3"}.items() <= query(page).items()
    expect(word(page, cat)).to_have_class(re.compile("looks"))
    for show in ("Token lines", "Query · key"):
        page.get_by_role("radio", name=show).click()
        wait_idle(page)
    for label, place in (("Looks (query)", cat), ("Looked at (key)", dog)):
        menu = page.get_by_test_id("stSelectbox").filter(has=page.get_by_text(label, exact=True))
        expect(menu.locator("input")).to_have_value(f"{place} · {labels[place]}")
    page.get_by_role("button", name="Let go").click()
    wait_idle(page)
    assert not {"query", "key"} & query(page).keys()


@pytest.mark.journey
def test_heads_are_sorted_by_the_weight_of_the_pair(open_page):
    page = open_page(f"{LINK}&query=8&key=3")
    expect(chosen_head(page)).to_have_attribute("data-exact", "true")
    labels = record().labels
    menu = menu_of(page, "Sort")
    menu.select_option(label=f"Weight “{labels[8]}” → “{labels[3]}”")
    weights = record().pattern[:, :, 8, 3].flatten()
    order = weights.argsort(descending=True, stable=True).tolist()
    names = page.locator(".head-grid .caption b").all_text_contents()
    assert names == [f"L{i // 8} H{i % 8}" for i in order]
    values = [float(v) for v in page.locator(".head-grid .caption span").all_text_contents()]
    assert values == [float(f"{weight:.2g}") for weight in weights[order].tolist()]
    even = format_weight(1 / len(labels))
    expect(page.get_by_text(f"with even weights it would be {even}")).to_be_visible()
    expect(page).to_have_url(re.compile("sort=pair"))


def test_a_cell_is_pinned_and_let_go(open_page, wait_idle):
    page = open_page(LINK)
    n = len(record().tokens)
    page.mouse.click(*cell(page, 5, 2, n))
    expect(page).to_have_url(re.compile("query=5&key=2"))
    expect(word(page, 5)).to_have_class(re.compile("looks"))
    page.mouse.click(*cell(page, 5, 2, n))
    wait_idle(page)
    assert not {"query", "key"} & query(page).keys()


def test_a_pinned_token_of_the_lines_is_in_the_address(open_page):
    page = open_page(f"{LINK}&show=lines")
    page.locator(".token-lines .queries .row").nth(4).click()
    expect(page).to_have_url(re.compile("query=4(?!.*key=)"))
    again = open_page("/?" + page.url.split("?", 1)[1])
    expect(again.locator(".token-lines .queries .row").nth(4)).to_have_class(re.compile("pinned"))


def test_the_heatmap_is_zoomed_by_dragging_and_comes_back(open_page):
    page = open_page(LINK)
    n = len(record().tokens)
    whole = pixels(page, ".heat-cells")
    (x, y), (to_x, to_y) = cell(page, 2, 3, n), cell(page, 5, 6, n)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move((x + to_x) / 2, (y + to_y) / 2)
    page.mouse.move(to_x, to_y)
    page.mouse.up()
    back = page.get_by_role("button", name="Whole picture")
    expect(back).to_be_visible()
    page.mouse.move(*cell(page, 0, 0, 4))  # the first of four by four
    places = page.locator(".heat .tip .position")
    expect(places.first).to_have_text("2")
    expect(places.last).to_have_text("3")
    assert not {"query", "key"} & query(page).keys()  # a drag pins nothing
    back.click()
    expect(back).to_be_hidden()
    page.mouse.move(1, 1)
    assert (pixels(page, ".heat-cells") == whole).all()


@pytest.mark.journey
@pytest.mark.parametrize("wish", ["words", "no_special", "no_first"])
def test_weights_on_other_axes_are_those_of_the_server(open_page, wish):
    text = "Walking homewards, unhappily."
    page = open_page(f"/?text={text}&layer=2&head=1&show=table&{wish}=1")
    expect(chosen_head(page)).to_have_attribute("data-exact", "true")
    made = mv.load("tiny-bert").trace(text)
    made = {
        "words": made.merge_words, "no_special": made.without_special,
        "no_first": made.without_first,
    }[wish]()  # fmt: skip
    weights, labels = made.head(2, 1).numpy(), made.labels
    expect(page.locator(".head-view .word")).to_have_text(list(labels))
    rows = top_pairs(page)
    assert len(rows) == min(40, (weights > 0).sum())
    assert [row[2] for row in rows] == pytest.approx(
        np.sort(weights, axis=None)[::-1][: len(rows)], rel=1e-3, abs=1e-6
    )
    for looks, at, weight in rows[:8]:
        near = np.isclose(weights, weight, rtol=1e-3).nonzero()
        assert (looks, at) in {(labels[i], labels[j]) for i, j in zip(*near, strict=True)}


@pytest.mark.parametrize("size", [(1280, 720), (1440, 900), (2560, 1440)])
def test_all_heads_and_the_chosen_one_are_whole_without_scrolling(open_page, size):
    width, height = size
    page = open_page(LINK, viewport={"width": width, "height": height})
    expect(chosen_head(page)).to_have_attribute("data-exact", "true")
    for part in (
        ".head-grid .cells",
        ".head-grid .legend",
        ".heat-cells",
        ".head-view .numbers",
        "h2.name",
    ):
        box = page.locator(part).bounding_box()
        assert box["x"] >= 0 and box["y"] >= 0, part
        assert box["x"] + box["width"] <= width and box["y"] + box["height"] <= height, part
    grid, heat = (page.locator(part).bounding_box() for part in (".head-grid", ".heat-cells"))
    assert grid["x"] + grid["width"] <= heat["x"]
    assert heat["width"] * heat["height"] > 0.08 * width * height


def test_the_nearest_head_is_a_click_away(open_page):
    page = open_page(LINK)
    apart = mv.head_similarity(record(), "hellinger").clone().fill_diagonal_(9)
    nearest = int(apart[1 * 8 + 2].argmin())
    name = f"L{nearest // 8} H{nearest % 8}"
    page.get_by_role("button", name=f"Nearest: {name}").click()
    expect(name_of(page)).to_have_text(name)


def test_labels_stand_on_the_tiles_and_beside_the_name(open_page):
    page = open_page(LINK)
    model = mv.load("tiny-bert")
    report = mv.head_report(record(), model).set_index(["layer", "head"])
    labelled = report.labels[report.labels != ""]
    expect(page.locator(".head-grid .badge")).to_have_count(len(labelled))
    (layer, number), labels = next(iter(labelled.items()))
    click_head(page, layer, number)
    expect(page.locator(".head-view .labels .label")).to_have_text(labels.split("; "))
    menu_of(page, "Show").select_option(label=labels.split("; ")[0])
    kind = labels.split("; ")[0]
    names = page.locator(".head-grid .caption b").all_text_contents()
    assert names == [f"L{i} H{j}" for (i, j), had in labelled.items() if kind in had.split("; ")]


@pytest.mark.journey
def test_back_leads_to_the_head_before_and_to_the_pair_before(open_page, wait_idle, go_back):
    page = open_page(LINK)
    click_head(page, 3, 3)
    wait_idle(page)
    word(page, 4).click()
    wait_idle(page)
    go_back(page)
    expect(word(page, 4)).to_have_attribute("aria-pressed", "false")
    expect(name_of(page)).to_have_text("L3 H3")
    go_back(page)
    expect(name_of(page)).to_have_text("L1 H2")
    expect(page.locator(".heat")).to_have_attribute("data-painted", "L1 H2")
    page.go_forward()
    expect(name_of(page)).to_have_text("L3 H3")


def test_on_a_phone_the_parts_stand_one_below_the_other(open_page):
    page = open_page(LINK, viewport={"width": 390, "height": 844}, has_touch=True)
    expect(chosen_head(page)).to_have_attribute("data-exact", "true")
    grid, picture = (page.locator(part).bounding_box() for part in (".head-grid", ".heat-cells"))
    assert grid["y"] + grid["height"] <= picture["y"] and picture["width"] <= 390
    page.locator(".heat-over").scroll_into_view_if_needed()
    page.touchscreen.tap(*cell(page, 3, 4, len(record().tokens)))
    expect(page.locator(".heat .tip")).to_contain_text("in its row")
    expect(page).to_have_url(re.compile("query=3&key=4"))


def test_where_nothing_would_be_left_it_is_said_and_can_be_undone(open_page, wait_idle):
    page = open_page("/?model=tiny-gpt2&text=a&no_first=1")
    expect(page.get_by_text("Nothing would be left").first).to_be_visible()
    page.get_by_role("checkbox", name="No first").uncheck()
    wait_idle(page)
    expect(page.locator(".heat[data-painted]")).to_be_visible()
    expect(page.locator("[data-testid=stAlertContentError]")).to_have_count(0)


def test_messages_that_no_workbench_sends_change_nothing(open_page, wait_idle):
    page = open_page(LINK)
    for sent in (
        None,
        5,
        {"id": 7, "view": "x"},
        {"id": "a", "view": {"layer": "9", "head": "-1"}},
        {"id": "b", "view": {"text": "mine", "model": "../../etc", "sort": "<b>"}},
    ):
        page.evaluate(
            """(sent) => {
              const benches = globalThis[Symbol.for("mha_viz.benches")];
              benches.get("bench").ask(sent);
            }""",
            sent,
        )
        wait_idle(page)
        assert page.get_by_test_id("stException").count() == 0
        assert page.locator("[data-testid=stAlertContentError]").count() == 0, sent
    expect(page.get_by_label("Sentence", exact=True)).to_have_value(TEXT)
    assert query(page)["text"] == TEXT
