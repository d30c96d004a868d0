"""The time and memory of a study that grows, and the end of one of ten million texts."""

from __future__ import annotations

import gc
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.measure import Result, at_most
from benchmarks.memory import forget_peak, status
from mha_viz.corpus.sources.source import SHARD_TEXTS

TITLE = "Size of a study"
ABOUT = (
    "Short texts through tiny-bert, each study in a process of its own with one thread; seconds "
    "are of the processor, so that what else runs disturbs them little. A study of ten million "
    "texts is simulated: one part of 256 texts is written many times and added up."
)
FEW = 1_000
SIMULATED = 10_000_000  # texts
AIM = 15 * 60  # seconds
_WORDS = (
    "the old dog slept while young cats watched a bird of many colours over their house".split()
)


def measure(n_texts: int = 100_000, n_shards: int = 600) -> list[Result]:
    few, many = _child("made", FEW), _child("made", n_texts)
    per_text = many["fill"] / n_texts / (few["fill"] / FEW)
    peak = (many["peak"] - few["peak"]) / 1e6
    end = _child("added", n_shards)
    whole = SIMULATED / SHARD_TEXTS
    return [
        Result(
            f"processor time a text, {n_texts:,} short texts",
            f"{1000 * many['fill'] / n_texts:.2f} ms",
            f"{1000 * few['fill'] / FEW:.2f} ms of {FEW:,}",
            f"{per_text:.2f}",
            "within 10 %",
            at_most(per_text, 1.1),
        ),
        Result(
            f"peak memory of {n_texts:,} texts",
            f"{many['peak'] / 1e6:,.0f} MB",
            f"{few['peak'] / 1e6:,.0f} MB of {FEW:,}",
            f"{peak:+,.0f} MB",
            "within 100 MB",
            peak < 100,
        ),
        Result(
            "the end of it: scores added up, summaries written",
            f"{many['end']:.1f} s",
            f"{1e6 * many['end'] / many['edges']:.2f} us an edge, {many['edges']:,} edges",
        ),
        Result(
            f"sums of {SIMULATED:,} texts added, simulated",
            f"{end['added'] * whole:,.0f} s",
            f"{1000 * end['added']:.1f} ms a part, {n_shards:,} measured",
            aim=f"under {AIM:,} s",
            met=end["added"] * whole < AIM,
        ),
        Result(
            f"peak memory beyond the model and a part, {n_shards * SHARD_TEXTS:,} texts written",
            f"{end['peak'] / 1e6:,.0f} MB",
            aim="at most 100 MB",
            met=at_most(end["peak"], 100e6),
        ),
        Result(
            "a part written: rows, sums, edges",
            f"{1000 * end['written']:.0f} ms",
            "256 texts",
            f"{end['later'] / end['sooner']:.2f} second half by first",
        ),
    ]


def _child(what: str, n: int) -> Any:
    command = [sys.executable, "-m", "benchmarks.study_size", what, str(n)]
    quiet = {**os.environ, "OMP_NUM_THREADS": "1"}  # small texts, on a machine others use
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=quiet)
    return json.loads(done.stdout.splitlines()[-1])


def made(n_texts: int) -> dict[str, float]:
    """A study of short texts: processor seconds of its measuring and of its end, and its peak."""
    import mha_viz as mv
    from mha_viz.corpus.run.study_builder import _StudyBuilder

    dice = random.Random(0)
    texts = (f"{i} {' '.join(dice.choices(_WORDS, k=dice.randint(5, 12)))}" for i in range(n_texts))
    model, finish, begun_end = mv.load("tiny-bert"), _StudyBuilder.finish, 0.0

    def finishing(*given: Any) -> None:
        nonlocal begun_end
        begun_end = time.process_time()
        finish(*given)

    _StudyBuilder.finish = finishing
    with tempfile.TemporaryDirectory() as folder:
        begun = time.process_time()
        study = mv.study(model, texts, folder)
        ended, peak = time.process_time(), status("VmHWM")
        n_edges = int(study.sql("SELECT count(*) AS n FROM edges")["n"][0])
    return {"fill": begun_end - begun, "end": ended - begun_end, "peak": peak, "edges": n_edges}


def added(n_shards: int) -> dict[str, float]:
    """Processor seconds a part of a long study whose parts are all the same."""
    import mha_viz as mv
    from mha_viz.corpus.measure.shard import Settings, measure_shard
    from mha_viz.corpus.run.summary import summarise
    from mha_viz.corpus.sources.source import open_source, shards
    from mha_viz.corpus.statistics.totals import Totals
    from mha_viz.corpus.store.study_file import SHARDS_AT_ONCE, open_study

    dice = random.Random(0)
    texts = [f"{i} {' '.join(dice.choices(_WORDS, k=8))}" for i in range(SHARD_TEXTS)]
    ((_, items),) = shards(open_source(texts))
    shard = measure_shard(mv.load("tiny-bert"), items, Settings())
    assert shard.tables  # made before memory is looked at
    gc.collect()
    forget_peak()
    before = status("VmRSS")
    about = {"model": {}, "source": {}, "settings": {"keep_texts": True}}
    with tempfile.TemporaryDirectory() as name, open_study(Path(name), about) as file:
        clock = [time.process_time()]
        for number in range(n_shards):
            file.add(shard.tables, shard.counts, [])
            if file.n_shards % SHARDS_AT_ONCE == 0:
                file.checkpoint()
            if number + 1 in (n_shards // 2, n_shards):
                clock.append(time.process_time())
        totals = Totals.of(file, 4, 8)
        added = time.process_time() - clock[-1]
        summarise(file, totals)
        peak = status("VmHWM") - before
    sooner, later = clock[1] - clock[0], clock[2] - clock[1]
    return {
        "written": (sooner + later) / n_shards,
        "sooner": sooner,
        "later": later,
        "added": added / n_shards,
        "peak": peak,
    }


if __name__ == "__main__":
    print(json.dumps({"made": made, "added": added}[sys.argv[1]](int(sys.argv[2]))))
