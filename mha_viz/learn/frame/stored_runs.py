"""The stored runs of the labs, and of the page Intervene: what nobody has to wait for."""

from importlib import import_module
from typing import Any

from mha_viz.core.stored_runs import StoredRun as StoredRun
from mha_viz.core.stored_runs import read as read
from mha_viz.core.stored_runs import write as write
from mha_viz.learn.frame.contents import LABS

_BESIDE = "mha_viz.ui.intervene.importance"


def all_runs() -> list[StoredRun[Any]]:
    """List the runs that the labs' `numbers`, and Intervene, declare as STORED, in their order."""
    numbers = [lab.module.removesuffix("page") + "numbers" for lab in LABS]
    modules = map(import_module, [*numbers, _BESIDE])
    return [run for module in modules for run in getattr(module, "STORED", ())]
