"""The Intervene page as a person uses it, in a real Chromium."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, Page, expect

import mha_viz as mv
from mha_viz.interventions.ablation import ablate
from mha_viz.web.theme import format_number

TEXT = "Once upon a time there was a little dog who liked to"
GAP = "The old [MASK] slept while the cat watched the birds."
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
LINK = f"/intervene?model=tiny-gpt2&text={TEXT}&layer=0&head=0"


def query(page: Page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def tile(page: Page, layer: int, head: int) -> Locator:
    return page.locator(f'.head-switches .tile[aria-label^="L{layer} H{head},"]')


def button(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=name, exact=True)


def kl(page: Page) -> Locator:
    return page.get_by_test_id("stMetricValue")


def expect_kl(page: Page, heads: list[tuple[int, int]], text: str = TEXT, **options) -> None:
    model = "tiny-bert" if "[MASK]" in text else "tiny-gpt2"
    found = ablate(mv.load(model), text, heads, **options)
    expect(kl(page)).to_have_text(format_number(found.kl))


def whole(page: Page) -> None:
    """All parts of the page are there."""
    for name in ("Which heads matter", "How many heads can be removed?"):
        expect(page.get_by_role("heading", name=name)).to_be_visible()
    expect(page.locator(".head-switches .tile").first).to_be_visible()


def choose(page: Page, label: str, option: str) -> None:
    page.get_by_role("combobox", name=label).click()
    page.get_by_role("option", name=option).click()


def type_in(page: Page, label: str, text: str) -> None:
    box = page.get_by_label(label, exact=True)
    box.fill(text)
    box.press("Enter")


@pytest.mark.journey
def test_switches_change_the_prediction_and_the_link(open_page, wait_idle):
    page = open_page(LINK)
    expect(kl(page)).to_have_count(0)
    tile(page, 0, 3).click()
    expect_kl(page, [(0, 3)])
    tile(page, 1, 2).click()
    expect_kl(page, [(0, 3), (1, 2)])
    wait_idle(page)
    assert query(page)["off"] == "0.3,1.2" and query(page)["text"] == TEXT
    button(page, "Undo").click()
    expect_kl(page, [(0, 3)])
    expect(page.locator(".head-switches .tile.off")).to_have_count(1)
    button(page, "All on").click()
    expect(kl(page)).to_have_count(0)
    expect(page.locator(".head-switches .tile.off")).to_have_count(0)
    expect(page).to_have_url(re.compile("^(?!.*off=).*$"))
    button(page, "Undo").click()
    expect_kl(page, [(0, 3)])
    whole(page)


@pytest.mark.journey
def test_the_keyboard_switches_and_chooses(open_page, wait_idle):
    page = open_page(LINK)
    tile(page, 0, 0).focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    expect_kl(page, [(1, 0)])
    page.keyboard.press("Shift+Space")
    expect_kl(page, [(1, head) for head in range(8)])
    wait_idle(page)
    assert query(page)["off"] == ",".join(f"1.{head}" for head in range(8))
    button(page, "All on").focus()
    page.keyboard.press("Enter")
    expect(kl(page)).to_have_count(0)


def test_groups_and_the_framed_head(open_page, wait_idle):
    page = open_page(LINK)
    choose(page, "Switch off", "all of layer 0")
    expect_kl(page, [(0, head) for head in range(8)])
    choose(page, "Layer", "L2")
    expect(tile(page, 2, 0)).to_have_class(re.compile("selected"))
    wait_idle(page)
    choose(page, "Switch off", "all of layer 2")
    expect_kl(page, [(2, head) for head in range(8)])
    expect(tile(page, 2, 0)).to_have_class(re.compile("selected"))
    wait_idle(page)
    assert query(page)["layer"] == "2"


@pytest.mark.extended
@pytest.mark.journey
def test_a_link_opens_on_one_exact_view_in_a_fresh_browser(open_page, wait_idle):
    source = TEXT.replace("dog", "cat")
    options = "&off=0.3,1.2&how=patch_z&place=7&target=dog&against=time&method=gradient"
    page = open_page(f"{LINK}{options}&source={source}")
    expected = dict(how="patch_z", source=source, position=7)
    expect_kl(page, [(0, 3), (1, 2)], **expected)
    again = open_page("/intervene?" + urlsplit(page.url).query)
    expect_kl(again, [(0, 3), (1, 2)], **expected)
    assert query(again) == query(page)
    assert query(page)["off"] == "0.3,1.2" and query(page)["source"] == source
    expect(again.get_by_label("Token to track")).to_have_value("dog")
    expect(again.get_by_text("less “time”").first).to_be_attached()
    page.goto(f"{LINK}&off=2.2&how=scale&factor=-1.5")
    expect_kl(page, [(2, 2)], how="scale", factor=-1.5)
    expect(page.get_by_label("Factor")).to_have_value("-1.50")


def test_every_way_by_hand(open_page, wait_idle):
    page = open_page(LINK + "&off=1.4")
    for name, options in (
        ("Scaled", {"how": "scale", "factor": 0.5}),
        ("Mean over positions", {"how": "mean"}),
        ("Uniform attention", {"how": "uniform"}),
        ("Off (zero)", {}),
    ):
        choose(page, "Intervention", name)
        expect_kl(page, [(1, 4)], **options)
    choose(page, "Intervention", "Weights of another text")
    expect(page.get_by_text("Type another text of 14 tokens")).to_be_visible()
    type_in(page, "Other text", "too short")
    expect(page.get_by_role("alert").filter(has_text="tokens")).to_be_visible()
    whole(page)
    source = TEXT.replace("dog", "cat")
    type_in(page, "Other text", source)
    expect_kl(page, [(1, 4)], how="patch_pattern", source=source)
    expect(page.get_by_role("alert")).to_have_count(0)


@pytest.mark.extended
@pytest.mark.journey
def test_a_gap_by_a_click_and_by_hand(open_page, wait_idle):
    page = open_page("/intervene?model=tiny-bert&off=2.1&text=The dog saw the dog run.")
    page.get_by_role("radio", name="dog").nth(1).click()
    text = "The dog saw the [MASK] run."
    expect(page.get_by_label("Sentence", exact=True)).to_have_value(text)
    expect_kl(page, [(2, 1)], text)
    wait_idle(page)
    assert query(page)["text"] == text
    type_in(page, "Sentence", "The [MASK] saw the [MASK] run.")
    expect_kl(page, [(2, 1)], "The [MASK] saw the [MASK] run.")
    choose(page, "Prediction at", "5")
    expect_kl(page, [(2, 1)], "The [MASK] saw the [MASK] run.", position=5)
    tile(page, 0, 0).click()
    expect_kl(page, [(0, 0), (2, 1)], "The [MASK] saw the [MASK] run.", position=5)


def test_a_token_of_the_strip_moves_the_place(open_page, wait_idle):
    page = open_page(LINK + "&off=0.3")
    strip = page.locator(".js-plotly-plot").nth(1)
    strip.scroll_into_view_if_needed()
    box = strip.locator(".barlayer .point path").nth(3).bounding_box()
    assert box
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    record = mv.load("tiny-gpt2").trace(TEXT)
    wait_idle(page)
    place = int(query(page)["place"])
    assert 0 <= place < len(record.tokens)
    expect_kl(page, [(0, 3)], position=place)
    expect(page.get_by_role("combobox", name="Prediction after")).to_have_value(
        re.compile(rf"{place} · ")
    )


def test_a_bad_target_hides_nothing(open_page, wait_idle):
    page = open_page(LINK + "&off=0.3")
    type_in(page, "Token to track", "hippopotamuses")
    expect(page.get_by_role("alert").filter(has_text="tokens for this model")).to_be_visible()
    expect_kl(page, [(0, 3)])
    whole(page)
    tile(page, 1, 2).click()
    expect_kl(page, [(0, 3), (1, 2)])
    type_in(page, "Token to track", "play")
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.get_by_text("ln p of “play”")).to_be_visible()


def test_measured_by_both_methods_and_pruned(open_page, wait_idle):
    page = open_page(LINK + "&off=0.3")
    page.get_by_text("Texts to measure on").click()
    page.get_by_label("Texts", exact=True).fill("The cat sat on the mat.\nTom had a red ball.")
    page.get_by_label("Texts", exact=True).press("Control+Enter")
    expect(page.get_by_text("3 texts. Intervals show")).to_be_visible()
    wait_idle(page)
    button(page, "Measure").click()
    expect(page.get_by_text("importance by ablation (nats per token)").first).to_be_attached()
    expect(page.locator(".head-switches .ramp")).to_be_visible()
    page.get_by_text("Gradient of the loss").click()
    expect(page.locator(".head-switches .ramp")).to_have_count(0)
    button(page, "Measure").click()
    expect(page.get_by_text("The two methods rank 32 heads")).to_be_visible()
    expect(page.locator(".head-switches .ramp")).to_be_visible()
    expect_kl(page, [(0, 3)])
    button(page, "Prune").click()
    expect(page.get_by_text("If one head fails, others compensate")).to_be_visible(timeout=400_000)
    wait_idle(page)
    assert query(page)["off"] == "0.3" and page.get_by_role("alert").count() == 0
    # What was measured and typed is there again after another page.
    page.get_by_role("link", name="Explore").click()
    expect(page.get_by_role("heading", name="Every attention head")).to_be_visible()
    page.get_by_role("link", name="Intervene").click()
    expect(page.get_by_text("The two methods rank 32 heads")).to_be_visible()
    expect_kl(page, [(0, 3)])
    page.get_by_text("Texts to measure on").click()
    expect(page.get_by_label("Texts", exact=True)).to_have_value(re.compile("Tom had a red ball"))


@pytest.mark.parametrize(("start", "key"), [("Measure", "measuring"), ("Prune", "pruning")])
def test_what_takes_long_can_be_stopped(open_page, wait_idle, start, key):
    page = open_page(LINK + "&off=0.3")
    page.get_by_text("Texts to measure on").click()
    lines = "\n".join(f"{i} {'the dog ran home and ' * 20}" for i in range(31))
    page.get_by_label("Texts", exact=True).fill(lines)
    page.get_by_label("Texts", exact=True).press("Control+Enter")
    expect(page.get_by_text("32 texts. Intervals show")).to_be_visible()
    wait_idle(page)
    button(page, start).click()
    stop = page.locator(f".st-key-stop_{key} button")
    stop.click()
    expect(stop).to_have_count(0, timeout=400_000)
    wait_idle(page)
    expect(page.get_by_role("progressbar")).to_have_count(0)
    whole(page)
    tile(page, 1, 2).click()
    expect_kl(page, [(0, 3), (1, 2)])
    expect(button(page, start)).to_be_enabled()


def test_going_on(open_page, wait_idle):
    page = open_page(LINK + "&off=0.0,0.1,0.2,0.3,0.4")
    page.get_by_text("Continue the text for 20 tokens").click()
    texts = page.get_by_test_id("stText")
    expect(texts).to_have_count(2)
    both = texts.all_inner_texts()
    assert all(text.startswith(TEXT) for text in both) and both[0] != both[1]
    button(page, "All on").click()
    expect(texts.nth(1)).to_have_text(both[0])


def test_two_people_with_different_heads_off_do_not_mix(open_page, wait_idle):
    one, two = open_page(LINK + "&off=0.3"), open_page(LINK + "&off=2.5")
    tile(one, 1, 1).click()
    tile(two, 3, 3).click()
    expect_kl(one, [(0, 3), (1, 1)])
    expect_kl(two, [(2, 5), (3, 3)])
    button(one, "All on").click()
    expect(kl(one)).to_have_count(0)
    expect_kl(two, [(2, 5), (3, 3)])


def test_switches_and_texts_survive_other_pages(open_page, wait_idle):
    page = open_page(LINK + "&off=0.3,1.2&how=patch_z&source=a+text")
    page.get_by_role("link", name="Compare").click()
    expect(page.get_by_role("heading", name="Every attention head")).to_have_count(0)
    wait_idle(page)
    page.get_by_role("link", name="Intervene").click()
    expect(page.get_by_label("Other text", exact=True)).to_have_value("a text")
    expect(page.locator(".head-switches .tile.off")).to_have_count(2)
    wait_idle(page)
    assert query(page)["off"] == "0.3,1.2" and query(page)["text"] == TEXT


@pytest.mark.parametrize(
    "link",
    [
        LINK + "&off=0.3,1.2",
        f"/intervene?model=tiny-bert&text={GAP}&off=2.1",
        "/intervene?model=tiny-bert&text=the dog ran",
    ],
    ids=["causal", "masked", "no gap"],
)
def test_in_light_dark_and_on_a_phone(open_page, wait_idle, link):
    page = open_page(link, color_scheme="dark")
    fits(page, "dark")
    page.emulate_media(color_scheme="light")  # as a system does in the morning
    wait_idle(page)
    fits(page, "light")
    fits(open_page(link, **PHONE), "light")


def fits(page: Page, theme: str) -> None:
    """All is there in that theme, and nothing is wider than the screen."""
    whole(page)
    expect(page.locator(".head-switches")).to_have_attribute("data-theme", theme)
    overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert overflow <= 0
    for figure in page.locator(".js-plotly-plot").all():
        inside = figure.bounding_box()
        assert inside and inside["width"] > 150 and inside["x"] >= 0
    assert page.get_by_role("alert").count() == 0


def test_each_switch_gives_a_new_number(open_page, wait_idle):
    page = open_page(LINK)
    for head in range(3):
        wait_idle(page)
        before = kl(page).all_inner_texts()  # none while all heads are on
        tile(page, 0, head).click()
        expect(kl(page)).to_have_count(1)
        expect(kl(page)).not_to_have_text("".join(before))
