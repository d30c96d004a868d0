"""The library without its extras: what works all the same, and what says how to get the rest."""

import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import mha_viz as mv
from mha_viz.errors import MissingPackageError
from mha_viz.extras import MODULES, missing, require
from tests.declared import PROJECT, of_extra

ROOT = Path(__file__).parents[1]

HIDDEN = {*MODULES["app"], *MODULES["notebook"]}
# The interpreter finds what an environment without `app`, `study` and `notebook` has.
ALONE = f"""
import sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        hidden = name.partition(".")[0] in {sorted(HIDDEN)}
        return None if hidden else super().find_spec(name, path, target)

sys.meta_path[:] = [Without if finder is PathFinder else finder for finder in sys.meta_path]
"""


def alone(code: str, *arguments: str, fails: bool = False) -> str:
    """Run code in a process without the extras; return what it prints, errors where it fails."""
    command = [sys.executable, "-c", ALONE + code, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.returncode != 0) == fails, done.stderr
    return done.stderr if fails else done.stdout


def test_the_library_alone_loads_traces_measures_and_plots(tmp_path: Path) -> None:
    code = """
import math
from pathlib import Path
from mha_viz import *
import mha_viz as mv
from mha_viz.plots.figure_file import figure_html
from mha_viz.plots.head_values import importance_map

folder = Path(sys.argv[1])
model = mv.load("tiny-gpt2")
record = model.trace("The cat sat on the mat because the cat")
assert (record.pattern.sum(-1) - 1).abs().max() < 1e-5
record.save(folder / "cat.safetensors")
assert AttentionRecord.load(folder / "cat.safetensors").pattern.equal(record.pattern)

table = head_report(record, model)
first = record.pattern[..., 0].mean(-1)
assert abs(first.flatten().numpy() - table["first_token"].to_numpy()).max() < 1e-6
assert mv.head_similarity(record, "hellinger").shape == (32, 32)
assert math.isfinite(ablate(model, "Once upon a", [(0, 7)]).kl)
assert predict(model, "Once upon a").candidates[0] == "time"
assert "previous token" in str(describe(record, (0, 7)))
assert "1,519 edges" in repr(edge_effects(model, make_task(model, "induction", n_examples=4)))

page = record._repr_mimebundle_()
assert "<iframe" in page["text/html"] and "image/png" not in page
head = show_head(record, 0, 7)
assert head._repr_mimebundle_()["application/vnd.plotly.v1+json"]["data"][0]["type"] == "heatmap"
assert "<script" in figure_html(head, caption="L0 H7")

hidden = {"duckdb", "pyarrow", "conllu", "matplotlib", "streamlit", "fsspec"}
print(sorted(hidden & set(sys.modules)), "study" in globals(), "study" in dir(mv))
"""
    assert alone(code, str(tmp_path)) == "[] False False\n"


def test_each_part_says_in_a_sentence_what_to_install() -> None:
    code = """
import mha_viz as mv
from importlib import import_module
from mha_viz.errors import MissingPackageError
from mha_viz.plots.static import head_image

for name, ask in {
    "study": lambda: mv.study, "set": lambda: mv.StudySet, "report": lambda: mv.circuit_report,
    "image": lambda: head_image(mv.load("tiny-bert").trace("A cat").head(0, 1), (4 * "a", 4 * "b")),
    "explorer": lambda: import_module("mha_viz.explorer"),
}.items():
    try:
        ask()
    except MissingPackageError as error:
        print(f"{name}: {error}")
"""
    said = dict(line.split(": ", 1) for line in alone(code).splitlines())
    extras = ["study", "study", "study", "figures", "notebook"]
    for name, extra in zip(("study", "set", "report", "image", "explorer"), extras, strict=True):
        assert f"pip install 'mha-viz[{extra}]'" in said[name]


def test_an_extra_has_the_modules_of_pyproject() -> None:
    """The table in the code against the lists that pip reads."""
    distributions = packages_distributions()
    for extra, modules in MODULES.items():
        packages = {
            canonicalize_name(name) for module in modules for name in distributions.get(module, ())
        }
        unknown = [module for module in modules if module not in distributions]
        declared = names(of_extra(extra))
        assert packages <= declared
        assert len(declared - packages) == len(unknown), (extra, declared - packages)
    assert not names(PROJECT["dependencies"]) & names(of_extra("app") + of_extra("notebook"))


def names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(one).name) for one in requirements}


def test_what_is_installed_is_not_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing("app") == [] and "study" in mv.__all__
    for name in ("sklearn", "umap"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingPackageError, match=r"\(sklearn, umap\)"):
        require("maps", "A map")
