"""Two servers with one cache of models and one temporary folder: neither disturbs the other."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.models import in_cache
from tests.faults.visiting import Visit
from tests.ui.serving import served
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

MODEL = "a/model"
# The same texts have the same key on every server.
GIVE = """
from mha_viz.ui.run.studies import studies
texts = b"".join(b"The %d old dogs slept while it rained.\\n" % i for i in range(24))
answer = studies().add_texts(texts, "texts.txt")
"""
MADE = """
from mha_viz.ui.run.studies import studies
made = [one.study for one in studies()._jobs.values() if one.study is not None]
answer = [(study.manifest["model"]["name"], study.n_texts) for study in made]
"""


def files_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def comes(ask: Callable[[str], str], code: str, expected: object) -> None:
    """Wait until the server answers that."""
    wait_for(lambda: ask(code) == str(expected), lambda: f"{expected}; now {ask(code)}")


def shows_the_study(page: Visit, query: str) -> None:
    page.go("many_texts", query)
    page.wait_for(lambda one: "24 texts of your own" in one.markdown.body)


def test_a_model_and_a_study_that_both_open_at_once(tmp_path):
    hub, temporary = tmp_path / "hub", tmp_path / "temporary"
    for name in ("first", "second", "temporary"):
        (tmp_path / name).mkdir()
    in_cache(hub, MODEL)
    cached = files_of(hub)
    env = {"TMPDIR": str(temporary), "HF_HUB_CACHE": str(hub)}
    with contextlib.ExitStack() as second, contextlib.ExitStack() as first:
        both = []
        for stack, name in ((first, "first"), (second, "second")):
            port, ask = stack.enter_context(served(tmp_path / name, **env))
            both.append((stack.enter_context(Visit(port)), ask))
        (query,) = {f"model={MODEL}&corpus={ask(GIVE)}" for _, ask in both}
        for page, _ in both:
            page.go("many_texts", query)
        for page, ask in both:
            comes(ask, MADE, [(MODEL, 24)])
            shows_the_study(page, query)
        assert len(list(temporary.glob("mha*"))) == 2

        first.close()
        (kept,) = temporary.glob("mha*")
        page, ask = both[1]
        assert page.follow("many_texts", query) == []
        assert page.show(model=MODEL, text="Another text that is run.") == []
        shows_the_study(page, f"{query}&layer=1&head=2")
        assert list(kept.rglob("*.duckdb"))
    assert not list(temporary.glob("mha*")) and files_of(hub) == cached
    for name in ("first", "second"):
        log = (tmp_path / name / "app.log").read_text()
        assert "Traceback" not in log and "Error" not in log, log
