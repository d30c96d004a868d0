"""Studies of several models over one source: sizes, seeds, or the checkpoints of a training run."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from mha_viz.checkpoints.loading import load
from mha_viz.core.metrics import LABELS
from mha_viz.core.record import display
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.run.study_builder import study
from mha_viz.corpus.treebank.split_half import wilson
from mha_viz.errors import ArgumentError
from mha_viz.reports.induction import induction_scores
from mha_viz.reports.induction_scores import InductionScores

_STEP = "step-"
_STEP_COLUMNS = "step layer head name mean low high holds".split()
LABEL = "label_"  # before the name of a label, whose key may be that of a metric


class StudySet(NamedTuple):
    """Finished studies of several models over one source, by name and in order.

    Tables are those of each study one below the other, with a column `model` in front, and of a
    training run `step`, a number, too. `induction` has the scores of the induction probe, which
    depends on no text, of the models that it can be run with.

    Args:
        studies: by the name of the model.
        induction: scores (layer, head), by the name of the model.

    >>> import tempfile, mha_viz as mv
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     both = mv.studies(["tiny-bert", "tiny-gpt2"], ["The cat sat.", "It slept."], folder)
    ...     list(both.studies), both.studies["tiny-gpt2"].n_texts
    (['tiny-bert', 'tiny-gpt2'], 2)
    """

    studies: Mapping[str, Study]
    induction: Mapping[str, InductionScores]

    @property
    def heads(self) -> pd.DataFrame:
        """The means of every head by metric: `Study.heads`."""
        return self._together({name: study.heads for name, study in self.studies.items()})

    @property
    def labels(self) -> pd.DataFrame:
        """The labels that hold over the texts: `Study.labels`."""
        return self._together({name: study.labels for name, study in self.studies.items()})

    def best_heads(self, by: str = "relations") -> pd.DataFrame:
        """Rank the heads of each model: the rows of its `Study.best_heads`, its name in front.

        Args:
            by: as of `Study.best_heads`.

        Raises:
            ArgumentError: no such question. StudyError: studies without gold trees.

        Example:
            mv.studies(["tiny-bert", "tiny-gpt2"], "ewt-test.conllu", "both").best_heads("trees")
        """
        return self._together({name: study.best_heads(by) for name, study in self.studies.items()})

    def over_steps(self) -> pd.DataFrame:
        """Make one table of a training run: every head's metrics and labels at each checkpoint.

        Returns:
            A row per step, layer, head and name: mean, low and high (95 %). The name is a metric's
            key or, of a label, `LABEL` and its key: then mean is the share of texts on which the
            head would get it. `holds` tells whether the head has the label of that name, or of
            induction whether its interval reaches the label's threshold.

        Raises:
            ArgumentError: the models are no checkpoints of one run.

        Example:
            steps = mv.studies("checkpoints", "texts.txt", "training").over_steps()
            steps[steps["name"] == "induction"]
        """
        parts = []
        for model, of_model in self.studies.items():
            step = _step(model)
            if step is None:
                raise ArgumentError(f"Expected checkpoints named {_STEP}0 and so on, got {model}.")
            metrics = of_model.heads.rename(columns={"metric": "name"})
            labels = of_model.sql("SELECT * FROM labels")
            low, high = wilson(
                labels["share_of_texts"] * of_model.n_texts, np.full(len(labels), of_model.n_texts)
            )
            labels = labels.assign(mean=labels["share_of_texts"], low=low, high=high)
            labels = labels.assign(name=LABEL + labels["label"], holds=labels["earned"])
            for table in (metrics, labels, *self._induction(model)):
                parts.append(table.assign(step=step).reindex(columns=_STEP_COLUMNS))
        together = pd.concat(parts, ignore_index=True)
        together["holds"] = together["holds"].eq(True)
        return together.astype(dict.fromkeys(("mean", "low", "high"), np.float32))

    def _induction(self, model: str) -> Iterator[pd.DataFrame]:
        if (scores := self.induction.get(model)) is not None:
            layer, head = (axis.ravel() for axis in np.indices(scores.mean.shape))
            ends = {end: getattr(scores, end).numpy().ravel() for end in ("mean", "low", "high")}
            least = max(LABELS["induction"].threshold, scores.uniform, scores.offset)
            named = {"name": "induction", "holds": ends["low"] >= least}
            yield pd.DataFrame({"layer": layer, "head": head, **ends, **named})

    def figure(self, name: str, head: tuple[int, int] | None = None) -> Any:
        """Draw a name of `over_steps` over the steps, for the heads in which it changes most.

        Args:
            name: a metric's key, or that of a label after `LABEL`.
            head: drawn too, whatever it does.

        Returns:
            `paper.figures.StudyFigure`, with `table`, `draw()` and `save("steps.pdf")`.

        Raises:
            ArgumentError: the models are no checkpoints of one run; no such name.

        Example:
            mv.studies("checkpoints", "texts.txt", "training").figure("entropy").save("e.pdf")
        """
        first = next(iter(self.studies.values()))
        paper = display.installed(display.study_paper)()
        about = paper.source_line(first), head, first.layer_numbers
        return paper.over_steps(self.over_steps(), name, *about)

    def _together(self, tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
        table = pd.concat(tables, names=["model"]).reset_index("model").reset_index(drop=True)
        if all(_step(name) is not None for name in tables):
            table.insert(1, "step", table["model"].map(_step))
        return table


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
        models: names, folders or Hub ids, as `load` takes them, those of a training run's
            revisions too ("EleutherAI/pythia-70m@step512"); or the folder of a training run, whose
            checkpoints are folders named step-0, step-100 and so on.
        source: as for `study`.
        out: a folder, in which each study gets one of its model's name.
        device: as for `load`.
        dtype: likewise.
        options: what else `study` takes.

    Returns:
        StudySet, the finished studies in the order of the models.

    Raises:
        ArgumentError: no model, two of one name, or a folder without checkpoints; and what `load`
            and `study` raise.

    Source: as of `study`.

    >>> import tempfile, mha_viz as mv
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     study_set = mv.studies(["tiny-bert"], ["The cat sat.", "It slept."], folder)
    ...     len(study_set.heads.query("metric == 'entropy'"))
    32
    """
    named = checkpoints(models) if isinstance(models, str | Path) else list(map(str, models))
    names = [PurePath(name).name for name in named]
    if not names or len(set(names)) < len(names):
        raise ArgumentError(
            f"Expected models of different names, got {', '.join(names) or 'none'}."
        )
    finished, induction = {}, {}
    for name, path in zip(names, named, strict=True):
        model = load(path, device=device, dtype=dtype)
        finished[name] = study(model, source, Path(out) / name, **options)
        with suppress(ArgumentError):  # the probe cannot be run: too few positions or tokens
            induction[name] = induction_scores(model)
    return StudySet(finished, induction)


def checkpoints(run: str | Path) -> list[str]:
    """List the checkpoints of a training run in order of their steps.

    Raises ArgumentError: there is none in this folder.
    """
    by_step = {
        step: path for path in Path(run).glob(f"{_STEP}*") if (step := _step(path.name)) is not None
    }
    if not by_step:
        raise ArgumentError(
            f"Expected folders named {_STEP}0, {_STEP}100 and so on in {run}: there are none. Of "
            "a single model, make a study."
        )
    return [str(by_step[step]) for step in sorted(by_step)]


def formed(steps: pd.DataFrame, name: str) -> pd.Series | None:
    """Return the first row of `StudySet.over_steps` in which a head holds this name; None if none.

    Of several heads at that step it is the one with the highest mean.
    """
    rows = steps[(steps["name"] == name) & steps["holds"]]
    return (
        None if rows.empty else rows.sort_values(["step", "mean"], ascending=[True, False]).iloc[0]
    )


def _step(name: str) -> int | None:
    """Return the step of a checkpoint's name; None where it is no such name.

    >>> _step("step-128"), _step("pythia-70m@step512"), _step("tiny-bert"), _step("step-one")
    (128, 512, None, None)
    """
    match = re.fullmatch(r"(?:.*@)?step-?(\d+)", name)
    return int(match[1]) if match else None
