"""mha_viz: a microscope for attention heads.

>>> import mha_viz as mv
>>> record = mv.load("tiny-bert").trace("The cat sat on the mat")
>>> record.pattern.shape[:2]  # layers, heads
torch.Size([4, 8])
"""

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from mha_viz import errors as errors
from mha_viz.core.record import display
from mha_viz.extras import missing

__version__ = "0.1.0"

# The stub beside this module lists the API, for type checkers and for this module. Each name is
# imported when it is first asked for (PEP 562): torch and transformers take seconds, and the page
# that takes a sentence has to be there before them.
_STUB = ast.parse(Path(__file__).with_suffix(".pyi").read_text("utf-8"))
_IMPORTS = [line for line in _STUB.body if isinstance(line, ast.ImportFrom)]
_HOME = {alias.name: str(line.module) for line in _IMPORTS for alias in line.names}
# Without the extra `study`, asking for one of its names raises what says so; it is listed nowhere,
# so that `from mha_viz import *` and help() work.
_STUDIES = ("mha_viz.corpus.", "mha_viz.paper.") if missing("study") else ()
__all__ = [name for name, home in _HOME.items() if not home.startswith(_STUDIES)]
__all__ += ["__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'mha_viz' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def _late(module: str, name: str) -> Callable[..., Any]:
    """Return a function that is imported when it is first called."""
    return lambda *values, **options: getattr(import_module(module), name)(*values, **options)


display.study_paper = lambda: import_module("mha_viz.paper.report")
display.study_atlas = lambda: import_module("mha_viz.atlas.atlas_files")
display.record_bundle = _late("mha_viz.notebook", "record_bundle")
display.explorer = _late("mha_viz.explorer", "Explorer")
display.head_plotter = _late("mha_viz.notebook", "show_head")
display.query_key_plotter = _late("mha_viz.plots.head_map", "query_key_figure")


def __dir__() -> list[str]:
    return sorted(__all__)
