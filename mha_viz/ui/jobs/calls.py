"""Calls that go to another process: our functions, their arguments, and names of models."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

OURS = ("mha_viz.",)  # modules whose functions may be called


class Checkpoint(NamedTuple):
    """A model among the arguments of a call, by its name: each process loads it for itself."""

    # `name`, `device`, `dtype`: as of `mha_viz.load`, which checks it in that process, too
    name: str
    device: str
    dtype: str
    max_record: int  # bytes that one text may leave behind; longer ones are cut
    random: bool = False  # the same architecture with random weights
    max_tokens: int | None = None  # that a text may have; None is as many as the model takes


@dataclass(frozen=True)
class Call:
    """A function with its arguments, as another process runs it."""

    work: partial[Any]  # the function, with all its arguments but one
    progress_argument: str | None = None  # the name of that one: it is called with the progress
    threads: int = 1  # of torch

    def __post_init__(self) -> None:
        module = self.work.func.__module__
        if not f"{module}.".startswith(OURS):
            raise ValueError(f"{module} is no module whose functions may be called.")

    def with_models(self, given: Callable[[Checkpoint], Any]) -> partial[Any]:
        """Return the function with models in place of their names."""
        args = (given(one) if isinstance(one, Checkpoint) else one for one in self.work.args)
        return partial(self.work.func, *args, **self.work.keywords)

    @property
    def models(self) -> list[Checkpoint]:
        """Models among its arguments."""
        return [one for one in self.work.args if isinstance(one, Checkpoint)]

    def imports(self) -> "Call":
        """Return a call that only imports what this one needs."""
        loading = ["mha_viz.checkpoints.loading"] if self.models else []
        return Call(partial(import_modules, self.work.func.__module__, *loading))


def import_modules(*modules: str) -> None:
    """Import modules."""
    for module in modules:
        import_module(module)
