"""The first picture: drawn before transformers is imported, and the same as with the model."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mha_viz.checkpoints import device
from mha_viz.ui.run import late_imports, memory
from mha_viz.ui.state.views import DEFAULT

ROOT = Path(__file__).parents[2]
# A process of its own, in which nothing goes on behind the page until it is told to.
PAGE = """
import sys
from dataclasses import replace
from streamlit.testing.v1 import AppTest
from mha_viz.ui.run import late_imports, memory
from tests.ui.compare_app import said
from tests.waiting import wait_for

import_rest, late_imports.import_rest = late_imports.import_rest, lambda more: None
heavy = {"transformers", "tokenizers", "scipy", "matplotlib", "duckdb", "pyarrow.parquet"}

def shown(**link):
    app = AppTest.from_file("app.py", default_timeout=300)
    app.query_params.update(link)
    app.run()
    assert not app.exception and not app.error, app.exception
    grids = [part.proto.bytes for part in app.get("bidi_component")]
    return app, said(app), grids
"""


def run(code: str) -> None:
    subprocess.run([sys.executable, "-c", PAGE + code], check=True, timeout=500, cwd=ROOT)


@pytest.mark.extended
@pytest.mark.slow
def test_it_is_drawn_without_libraries_that_another_sentence_waits_for_and_stays_with_them():
    run("""
app, before, grids = shown(device="cpu")
assert not heavy & set(sys.modules), heavy & set(sys.modules)
assert "precomputed" in before and "computed in" not in before
app.session_state.view = replace(app.session_state.view, layer=2, head=0)
app.run()  # another head takes no model, either
assert not app.exception and app.query_params["layer"] == "2"
assert not heavy & set(sys.modules)

_, text, _ = shown(device="cpu", text="The cat sat on the mat.")
assert "computed in" in text and "precomputed" not in text and "transformers" in sys.modules

import_rest(lambda: None)
wait_for(lambda: late_imports.late_imports().done, "the libraries")
assert late_imports.late_imports().error is None
memory.let_go(everything=True)
_, after, live = shown(device="cpu")
assert "precomputed" not in after and "computed in" in after
assert grids and len(grids) == len(live)
plain = [[line for line in text.splitlines() if "computed" not in line] for text in (before, after)]
assert plain[0] == plain[1]
""")


def test_what_runs_otherwise_is_not_taken_from_the_store(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(late_imports.late_imports(), "done", False)
    assert memory.stored_run(DEFAULT.model, "cpu", "float32") is not None
    assert memory.stored_run(DEFAULT.model, "cpu", "bfloat16") is None
    assert memory.stored_run("tiny-gpt2", "cpu", "float32") is None
    monkeypatch.setattr(device, "device_of", lambda name: torch.device("cuda"))
    assert memory.stored_run(DEFAULT.model, "auto", "float32") is None  # another processor rounds
    monkeypatch.setattr(late_imports.late_imports(), "done", True)  # what can be run at once is run
    assert memory.stored_run(DEFAULT.model, "cpu", "float32") is None


def test_import_of_all_pages_imports_no_torch():
    code = """
import sys
from importlib import import_module
from mha_viz.ui.pages import PAGES
import mha_viz.learn.page
for page in PAGES:
    import_module(f"mha_viz.ui.{page}.page")
assert not {"torch", "transformers", "pandas", "duckdb"} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=500, cwd=ROOT)
