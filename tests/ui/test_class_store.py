"""The store of classes: votes are counted once each, bounded, and gone when a class is over."""

import contextlib
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mha_viz.errors import SettingsError
from mha_viz.ui.jobs.turns import turns
from mha_viz.ui.state import class_answers, class_database
from mha_viz.ui.state.class_answers import Classes, classes
from tests.waiting import wait_for


def test_the_last_answer_of_a_page_counts_and_others_beside_it():
    found = Classes()
    code, other = found.open("t"), found.open("t")
    for page, option in (("a", 0), ("b", 2), ("a", 2), ("c", 1)):
        found.vote(code, "why", page, option)
    assert found.counts(code, "why", 3) == (0, 1, 2)
    for page in "cd":  # one has voted, the other looks first
        found.see(code, "why", page)
        found.vote(code, "why", page, 0)
    assert found.counts(code, "why", 3) == (0, 1, 2)
    assert found.counts(other, "why", 3) == found.counts(code, "how", 3) == (0, 0, 0)
    found.close(code)
    assert code not in found and found.counts(code, "why", 3) == (0, 0, 0)
    found.vote(code, "why", "a", 0)
    assert code not in found


def test_memory_is_bounded(monkeypatch):
    for name in ("MAX_CLASSES", "MAX_QUESTIONS", "MAX_PUPILS"):
        monkeypatch.setattr(class_answers, name, 3)
    found = Classes()
    used, unused = found.open("t"), found.open("t")
    for number in range(9):
        for page in "abcdef":
            found.vote(used, number, page, 0)
    assert [found.counts(used, number, 1)[0] for number in range(5)] == [3, 3, 3, 0, 0]
    found.open("t"), found.open("t")
    assert used in found and unused not in found


def test_a_browser_is_in_the_last_class_it_came_to_and_leads_its_own(monkeypatch):
    monkeypatch.setattr(class_answers, "MAX_BROWSERS", 3)
    found = Classes()
    code, other = found.open("anna"), found.open("ben")
    assert (found.of("anna"), found.of("ben"), found.of("carl")) == (code, other, None)
    assert found.leads(code, "anna") and not found.leads(code, "ben")
    found.join(other, "anna")
    assert found.of("anna") == other and found.leads(code, "anna")
    for name in "xyz":
        found.join(code, name)
    assert found.of("anna") is None and found.of("z") == code
    found.close(code)
    assert found.of("z") is None and not found.leads(code, "anna")


def test_servers_that_share_a_folder_have_the_same_classes(tmp_path):
    """Look also after all of them have ended."""
    first, second = (Classes(tmp_path / class_answers.FILE) for _ in "ab")
    code, leader = first.first("anna")
    assert second.first("ben") == (code, "anna") == (code, leader)
    second.join(code, "carl")
    first.vote(code, "why", "carl", 1)
    second.vote(code, "why", "dora", 1)
    second.bring(code, 3)
    for each in (first, second, Classes(tmp_path / class_answers.FILE)):
        assert each.counts(code, "why", 2) == (0, 2) and each.size(code) == 1
        assert (
            each.position(code) == (3, 1) and each.of("carl") == code and each.leads(code, leader)
        )
    second.bring(code, 3), second.join(code, "carl")
    assert first.position(code) == (3, 2) and first.size(code) == 1
    assert first.position("zzzzz") == (0, 0)
    first.close(code)
    assert code not in second and second.counts(code, "why", 2) == (0, 0)
    assert Classes(tmp_path / class_answers.FILE).first("ben") == (code, "anna") and code in second


def test_votes_of_many_threads_are_all_counted(tmp_path):
    """Vote in a file of two servers, and in the memory of one."""
    both = [Classes(tmp_path / class_answers.FILE) for _ in "ab"]
    for first, second in (both, [Classes()] * 2):
        code = first.open("t")
        with ThreadPoolExecutor(class_answers.MAX_PUPILS) as threads:
            for number in range(class_answers.MAX_PUPILS):
                server = (first, second)[number % 2]
                threads.submit(server.vote, code, "why", f"p{number}", number % 3)
        assert first.counts(code, "why", 3) == (67, 67, 66)


@pytest.fixture
def shared(tmp_path, operated, monkeypatch):
    """The folder of a server that shares its classes; it waits shortly for those of others."""
    operated(shared=tmp_path / "shared")
    monkeypatch.setattr(class_database, "PATIENCE", 0.2)
    classes.cache_clear()
    yield tmp_path / "shared"
    for kept in (classes, class_answers.first_class):
        kept.cache_clear()


@contextlib.contextmanager
def held(folder: Path):
    """Classes whose file another process holds."""
    file = folder / class_answers.FILE
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("begin exclusive")
        yield
        other.rollback()


def test_a_run_that_waits_for_the_class_lets_others_run(shared, monkeypatch):
    code = classes().open("teacher")
    monkeypatch.setattr(class_database, "PATIENCE", 30.0)

    def run() -> tuple[bool, int]:
        with turns.run():
            return code in classes(), turns.short.running

    with ThreadPoolExecutor(1) as thread, held(shared):
        answer = thread.submit(run)
        wait_for(lambda: turns.under_way == 0 and turns.short.figures()["turns"] > 0, "no turn")
        assert turns.short.running == 0 and not answer.done()
    assert answer.result() == (True, 1)


def test_a_damaged_file_of_classes_is_an_error_of_ours(shared):
    classes().open("teacher")
    file = shared / class_answers.FILE
    sound = file.read_bytes()
    file.write_bytes(sound[:2000] + bytes(len(sound) - 2000))
    with pytest.raises(SettingsError, match="damaged"):
        classes.__wrapped__()
