"""The process that builds checkpoints on trial: `python -m mha_viz.checkpoints.trial_process`.

Its first line out says that it is ready; then a line of JSON in names a folder, and a line out says
what came of it. Each folder is built in a child of its own, with limits of time and memory, which
may hang, be killed or crash; this process goes on. It ends with its input.
"""

import json
import os
import re
import signal
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import torch
from transformers import BertConfig

from mha_viz.checkpoints.building import check_size, load_config, load_tokenizer
from mha_viz.checkpoints.child_process import keep_output
from mha_viz.checkpoints.tokenizer_limits import check_built, check_written
from mha_viz.errors import LoadError, UnsafeCheckpointError, is_panic

# Read on trial. A pattern that takes for ever does so on long runs of one kind.
_TEXTS = (
    "A short text, with 12 numbers & signs: naïve, 日本語, עברית, 👩‍👩‍👧!\tTwo\n\nlines…",
    "a" * 200 + "!",
    " " * 100 + "x1" * 50 + "." * 100 + "A" * 60 + "b 0" * 30,
)
_MAX_TOKENS_A_CHARACTER = 64

Answer = dict[str, Any]


def main() -> None:
    """Answer every line of the standard input on the standard output."""
    answers = keep_output()
    # What every network needs is imported once for all children.
    check_size("none", BertConfig(num_hidden_layers=1), 2**20)
    _say(answers, {"ready": True})
    for line in sys.stdin.buffer:
        request = json.loads(line)
        _import_family(request["family"])
        _say(answers, _in_a_child(request) if hasattr(os, "fork") else _answer(request))


def _say(answers: BinaryIO, answer: Answer) -> None:
    answers.write(json.dumps(answer).encode() + b"\n")
    answers.flush()


def _import_family(family: str) -> None:
    """Import transformers' own code for a family here, so that the next child has it already."""
    module = family.replace("-", "_")
    if re.fullmatch(r"\w+", module):
        with suppress(Exception):  # the child says better what is wrong with it
            import_module(f"transformers.models.{module}.modeling_{module}")


def _in_a_child(request: dict[str, Any]) -> Answer:
    """Return what a fork of this process answers, or how it ended without an answer."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reads)
            _limit(request)
            os.write(writes, json.dumps(_answer(request)).encode())
        finally:  # whatever happened, the loop above is the parent's
            os._exit(0)
    os.close(writes)
    with os.fdopen(reads, "rb") as pipe:
        line = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) or not line:
        late = (signal.SIGALRM, signal.SIGXCPU)
        return {"died": "late" if status & 0x7F in late else "crash"}
    return json.loads(line)


def _limit(request: dict[str, Any]) -> None:
    """Hold this process to its time and memory; it can no longer write to any file either."""
    import resource

    signal.setitimer(signal.ITIMER_REAL, request["seconds"])  # without a handler it kills
    seconds = int(request["cpu_seconds"])
    limits = {
        resource.RLIMIT_CPU: (seconds, seconds + 5),
        resource.RLIMIT_AS: (_mapped() + request["bytes"],) * 2,
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_FSIZE: (0, 0),
    }
    for what, (soft, hard) in limits.items():
        with suppress(ValueError, OSError):  # macOS has no limit of memory that holds
            resource.setrlimit(what, (soft, hard))


def _mapped() -> int:
    """Return the bytes that this process has mapped; torch alone maps gigabytes with CUDA."""
    with suppress(OSError, ValueError):
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _answer(request: dict[str, Any]) -> Answer:
    """Return {} where the checkpoint passed, or the error by its class and message."""
    try:
        _build(Path(request["folder"]), request["stored"])
    except LoadError as error:
        return {"error": type(error).__name__, "message": str(error)[:2000]}
    except MemoryError:
        return {"died": "memory"}
    except BaseException as error:
        if isinstance(error, Exception) or is_panic(error):
            return {"died": "crash", "message": f"{type(error).__name__}: {error}"[:200]}
        raise
    return {}


def _build(folder: Path, stored: int) -> None:
    """Build everything that loading makes of untrusted files, except the weights."""
    check_written(folder)
    config = load_config(folder)
    check_size(folder.name, config, stored)
    tokenizer = load_tokenizer(folder, config)
    check_built(folder.name, tokenizer)
    for text in _TEXTS:
        n_tokens = 0
        with suppress(Exception):  # a text it cannot read is reported when somebody types it
            n_tokens = len(tokenizer(text)["input_ids"])
        if n_tokens > _MAX_TOKENS_A_CHARACTER * len(text):
            raise UnsafeCheckpointError(
                f"The tokenizer of {folder.name} makes {n_tokens:,} tokens of {len(text)} "
                "characters; a real one makes a few of each."
            )


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
