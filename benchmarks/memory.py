"""The memory of a trace and of a long day of tracing, each in a process of its own."""

from __future__ import annotations

import argparse
import gc
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measure import Result, Skipped

MIB = 2**20
ROOT = Path(__file__).parents[1]
TITLE = "Memory"
ABOUT = """Resident memory of a fresh process. "Peak above the model" is the highest resident memory
while one text of 512 tokens is traced in a network of BERT-base size, less what the process holds
once that is loaded and has traced a short text; the 144 attention matrices alone are 144 MiB. Of
the app it is likewise what Heads takes, with labels, nearest heads and one visitor, in a network
of Qwen2-0.5B's size; all attention matrices of 2,000 tokens are 5,127 MiB."""
_WORDS = (
    "the old dog slept while young cats watched a bird of many colours over their house".split()
)


def measure() -> list[Result]:
    if not Path("/proc/self/status").exists():
        raise Skipped("no /proc: resident memory is read there")
    peak = _child("peak")
    grown = _child("grown")
    cached = _child("cached")
    page = _child("page", 2000)
    few, many = _child("study", 1000), _child("study", 10_000)
    return [
        Result("peak above the model, 512 tokens", f"{peak:,.0f} MiB", "144 MiB of weights kept"),
        Result(
            "peak of the app above the model, 2,000 tokens",
            f"{page:,.0f} MiB",
            aim="at most 1 GB",
            met=page * MIB <= 1e9,
        ),
        Result(
            "growth over 1,000 different texts, tiny-bert",
            f"{grown:,.1f} MiB",
            aim="under 200 MiB",
            met=grown < 200,
        ),
        Result(
            "the same, each put into the app's cache",
            f"{cached:,.1f} MiB",
            aim="under 200 MiB",
            met=cached < 200,
        ),
        Result(
            "peak of a study of 10,000 texts beyond one of 1,000, tiny-bert",
            f"{many - few:,.0f} MiB",
            f"{few:,.0f} MiB for 1,000",
            aim="within 100 MB",
            met=(many - few) * MIB < 100e6,
        ),
    ]


def _child(what: str, n_texts: int = 0) -> float:
    # one thread: small texts, on a machine others use
    quiet = {} if what == "page" else {"OMP_NUM_THREADS": "1"}
    return mib_by("benchmarks.memory", what, str(n_texts), **quiet)


def mib_by(*command: str, **environment: str) -> float:
    """MiB that a module prints as bytes, last of all, in a process of its own."""
    line = [sys.executable, "-m", *command]
    whole = os.environ | environment
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=whole)
    if done.returncode:
        raise RuntimeError(f"measuring {' '.join(command)!r} failed:\n{done.stderr[-2000:]}")
    return float(done.stdout.split()[-1]) / MIB


def peak_of(way: Callable[[], Any]) -> int:
    """Bytes of resident memory that a call takes at its highest, above what the process holds."""
    gc.collect()
    forget_peak()
    before = status("VmRSS")
    found = way()
    del found
    return status("VmHWM") - before


def peak() -> int:
    from benchmarks.trace import text, traced_model

    model = traced_model()
    model.trace(text(16), keep=("pattern",))
    return peak_of(lambda: model.trace(text(512), keep=("pattern",)).pattern)


def page(n_tokens: int) -> int:
    """All that one visit of Heads computes of a long text, in this process."""
    from copy import deepcopy

    from streamlit.testing.v1 import AppTest

    import mha_viz as mv
    from benchmarks.long import QWEN, network
    from mha_viz.ui.state import selection

    config, tokenizer = deepcopy(QWEN), mv.load("tiny-gpt2").tokenizer
    config.vocab_size, tokenizer.model_max_length = len(tokenizer), config.max_position_embeddings
    dice = random.Random(0)
    text = " ".join(dice.choices(_WORDS, k=n_tokens))  # each word is one token or more
    text = tokenizer.decode(tokenizer(text).input_ids[:n_tokens])
    with tempfile.TemporaryDirectory() as folder:
        network(config, "eager").save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        selection.folders().add(folder)
        app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=3000)
        app.query_params.update(model=folder, text=text[:80])
        app.run()
        gc.collect()
        forget_peak()
        before = status("VmRSS")
        app.text_area(key="ask_text").set_value(text).run()
        said = [part.value for part in app.caption]
        if app.exception or not any(f"{n_tokens:,} tokens" in one for one in said):
            raise RuntimeError(f"{said} {[part.value for part in app.error]}")
        return status("VmHWM") - before


def grown(cached: bool = False) -> int:
    import mha_viz as mv
    from mha_viz.ui.run.cache import Cache

    model, cache = mv.load("tiny-bert"), Cache()
    dice = random.Random(0)
    before = 0
    for i in range(1050):
        if i == 50:  # allocators and caches have reached their working size
            gc.collect()
            before = status("VmRSS")
        words = dice.choices(_WORDS, k=dice.randint(5, 60))
        record = model.trace(f"{i} {' '.join(words)}", keep=("pattern", "z"))
        if cached:
            size = 4 * (record.pattern.numel() + record.require("z").numel())
            cache.get(i, partial(_same, record), partial(_same, size))
    gc.collect()
    return status("VmRSS") - before


def study(n_texts: int) -> int:
    """All of a study, its summaries and its index of edges among it."""
    import mha_viz as mv

    dice = random.Random(0)
    texts = (f"{i} {' '.join(dice.choices(_WORDS, k=dice.randint(5, 12)))}" for i in range(n_texts))
    with tempfile.TemporaryDirectory() as folder:
        assert mv.study(mv.load("tiny-bert"), texts, folder).n_texts == n_texts
        return status("VmHWM")


def _same(thing: Any, *_: Any) -> Any:
    return thing


def status(name: str, process: int | str = "self") -> int:
    """A number of /proc/PROCESS/status, in bytes."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise Skipped(f"no {name} in /proc/self/status")


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM begins again at what is held now


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("peak", "page", "grown", "cached", "study"))
    parser.add_argument("n_texts", type=int, nargs="?", default=0)
    given = parser.parse_args()
    if given.what == "study":
        print(study(given.n_texts))
    elif given.what == "page":
        print(page(given.n_texts))
    else:
        print(peak() if given.what == "peak" else grown(cached=given.what == "cached"))
