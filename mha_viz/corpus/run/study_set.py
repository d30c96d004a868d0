"""Studies of several models over one source: sizes, seeds, or the checkpoints of a training run."""

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import pandas as pd

from mha_viz.checkpoints.loading import load
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.run.run import study
from mha_viz.errors import ArgumentError

_STEP = "step-"


class StudySet(NamedTuple):
    """Finished studies of several models over one source, by name and in order.

    Tables are those of each study one below the other, with a column `model` in front, and of a
    training run `step`, a number, too.
    """

    studies: Mapping[str, Study]

    @property
    def heads(self) -> pd.DataFrame:
        """The means of every head by metric: `Study.heads`."""
        return self._together({name: one.heads for name, one in self.studies.items()})

    @property
    def labels(self) -> pd.DataFrame:
        """The labels that hold over the texts: `Study.labels`."""
        return self._together({name: one.labels for name, one in self.studies.items()})

    def best_heads(self, by: str = "relations") -> pd.DataFrame:
        """Rank the heads of each model: `Study.best_heads`."""
        return self._together({name: one.best_heads(by) for name, one in self.studies.items()})

    def _together(self, tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
        found = pd.concat(tables, names=["model"]).reset_index("model").reset_index(drop=True)
        if all(_step(name) is not None for name in tables):
            found.insert(1, "step", found["model"].map(_step))
        return found


def studies(
    models: str | Path | Sequence[str | Path],
    source: str | Path | Sequence[str],
    out: str | Path,
    *,
    device: str = "auto",
    dtype: str = "float32",
    **options: Any,
) -> StudySet:
    """Make a study of each of several models over the same texts, one after the other.

    Stopped at any moment, the same call goes on: finished studies are opened, and the one that was
    interrupted goes on after its last complete part. One model is in memory at a time.

    Args:
        models: names, folders or Hub ids, as `load` takes them; or the folder of a training run,
            whose checkpoints are folders named step-0, step-100 and so on.
        source: as for `study`.
        out: a folder, in which each study gets one of its model's name.
        device: as for `load`.
        dtype: likewise.
        options: what else `study` takes.

    Raises:
        ArgumentError: no model, two of one name, or a folder without checkpoints; and what `load`
            and `study` raise.
    """
    named = checkpoints(models) if isinstance(models, str | Path) else list(map(str, models))
    names = [PurePath(name).name for name in named]
    if not names or len(set(names)) < len(names):
        raise ArgumentError(
            f"Expected models of different names, got {', '.join(names) or 'none'}."
        )
    made = {}
    for name, model in zip(names, named, strict=True):
        made[name] = study(
            load(model, device=device, dtype=dtype), source, Path(out) / name, **options
        )
    return StudySet(made)


def checkpoints(run: str | Path) -> list[str]:
    """List the checkpoints of a training run in order of their steps.

    Raises:
        ArgumentError: there is none in this folder.
    """
    found = {
        step: path for path in Path(run).glob(f"{_STEP}*") if (step := _step(path.name)) is not None
    }
    if not found:
        raise ArgumentError(
            f"Expected folders named {_STEP}0, {_STEP}100 and so on in {run}: there are none. Of "
            "a single model, make a study."
        )
    return [str(found[step]) for step in sorted(found)]


def _step(name: str) -> int | None:
    """Return the step of a checkpoint's name; None where it is no such name.

    >>> _step("step-128"), _step("tiny-bert"), _step("step-one")
    (128, None, None)
    """
    number = name.removeprefix(_STEP)
    return int(number) if name.startswith(_STEP) and number.isdecimal() else None
