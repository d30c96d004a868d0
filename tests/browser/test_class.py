"""A lesson in a real Chromium: a teacher and pupils, each in a browser of their own."""

import re
import time

from playwright.sync_api import expect

RIGHT, WRONG = "Weight 1 for the key with the largest score", "Equal weights for all keys"


def test_a_class_votes_sees_its_result_and_survives_a_reload(open_page, wait_idle):
    teacher = open_page("/teach")
    teacher.get_by_role("button", name="Open a class").click()
    handed_out = teacher.get_by_text(re.compile(r"/class\?class=\w{5}$"))
    link = handed_out.inner_text()
    code = link.rpartition("class=")[2]
    pupils = [open_page(f"/lab-soft-lookup?class={code}") for _ in range(2)]
    for page, option in zip(pupils, (RIGHT, WRONG), strict=True):
        expect(page.get_by_text(f"Class {code}")).to_be_visible()
        page.get_by_text(option).first.click()
        wait_idle(page)
        expect(page.get_by_text("Your class:")).to_have_count(0)  # not before the answer
    # The teacher's bars come by themselves, on a page that does not name the class.
    teacher.get_by_role("link", name="1. Attention as soft lookup").first.click()
    expect(teacher.get_by_text("Your class: 2 answers so far").first).to_be_visible()
    assert code not in teacher.url
    # Loaded again, a page is still in the class, and another vote takes the place of the first.
    for page in (teacher, pupils[1]):
        page.reload()
        wait_idle(page)
        expect(page.get_by_text(f"Class {code}")).to_be_visible()
    pupils[1].get_by_text(RIGHT).first.click()
    expect(teacher.get_by_text("Your class: 2 answers so far").first).to_be_visible()
    expect(teacher.get_by_text(f"{RIGHT}: ")).to_have_count(0)  # the class sees this screen, too
    teacher.get_by_role("button", name="Show the answer").first.click()
    expect(teacher.get_by_text(f"{RIGHT}: 2")).to_be_visible()
    pupils[0].get_by_role("button", name="Show the answer").first.click()
    expect(pupils[0].get_by_text(f"{WRONG}: 0")).to_be_visible()
    teacher.goto("/teach")
    wait_idle(teacher)
    expect(teacher.get_by_text(link, exact=True)).to_be_visible()
    teacher.get_by_role("button", name="End the class").click()
    expect(teacher.get_by_role("button", name="Open a class")).to_be_visible()


def test_ten_browsers_follow_their_teacher_and_eight_of_them_vote(open_page, wait_idle):
    teacher = open_page("/teach")
    teacher.get_by_role("button", name="Open a class").click()
    code = teacher.get_by_text(re.compile(r"/class\?class=\w{5}$")).inner_text()[-5:]
    pupils = [open_page("/class") for _ in range(10)]
    for page in pupils:
        page.get_by_label("Code of the class").fill(code)
        page.keyboard.press("Enter")
    board = open_page(f"/class?class={code}")
    expect(board.get_by_text("Browsers in the class: 11.")).to_be_visible()
    seconds = [_bring(teacher, 0, "lab-soft-lookup", [*pupils, board])]
    for number, page in enumerate(pupils[:8]):
        page.get_by_text(RIGHT if number < 5 else WRONG).first.click()
        wait_idle(page)
    for page in pupils:
        page.get_by_role("button", name="Show the answer").first.click()
        expect(page.get_by_text("Your class: 8 answers so far").first).to_be_visible()
        expect(page.get_by_text(f"{RIGHT}: 5")).to_be_visible()
        expect(page.get_by_text(f"{WRONG}: 3")).to_be_visible()
    pupils[0].get_by_role("link", name="All labs").last.click()  # one goes elsewhere
    pupils[0].wait_for_url("**/learn")
    seconds.append(_bring(teacher, 3, "intervene", [*pupils, board]))
    for number, page in enumerate(pupils[2:]):
        page.get_by_text(re.compile(r"^L0 H7$" if number % 2 else "^Both the same$")).first.click()
        wait_idle(page)
    pupils[0].get_by_role("button", name="Show the answer").click()
    expect(pupils[0].get_by_text("L0 H7: 4")).to_be_visible()
    assert teacher.url.endswith("/teach")
    teacher.get_by_role("button", name="End the class").click()
    print(f"followed after {seconds[0]:.1f} s and {seconds[1]:.1f} s")  # docs/benchmarks.md


def _bring(teacher, number, page, pages) -> float:
    """Bring the class to a stop, from 0; return the seconds until the last page is there."""
    begun = time.monotonic()
    teacher.get_by_role("button", name=re.compile("the class here|class is here")).nth(
        number
    ).click()
    for one in pages:
        one.wait_for_url(f"**/{page}*")
        expect(one.get_by_role("button", name="Show the answer").first).to_be_visible()
    return time.monotonic() - begun
