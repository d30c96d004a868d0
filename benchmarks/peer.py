"""Peers, kept in a cache folder outside the checkout: BertViz, and TransformerLens.

BertViz comes with the scripts that it asks a CDN for.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.measure import Skipped

CACHE = Path(os.environ.get("MHA_VIZ_BENCH_CACHE", Path.home() / ".cache" / "mha_viz_benchmarks"))
# What BertViz' page asks for, by the end of the address: the npm package and the file in it.
# jQuery 2.0.0 is not on npm; 2.2.4 is the last of that line.
SCRIPTS = {
    "require.min.js": ("requirejs@2.3.6", "package/require.js"),
    "d3.min.js": ("d3@5.7.0", "package/dist/d3.min.js"),
    "jquery.min.js": ("jquery@2.2.4", "package/dist/jquery.min.js"),
}


# TransformerLens by itself, as what it needs would bring a second torch; of the rest it imports
# these, which the project does not have.
LENS = (
    "transformer-lens==4.3.0",
    "einops",
    "fancy-einsum",
    "transformers-stream-generator",
    "accelerate",
    "datasets",
    "dill",
    "multiprocess",
    "xxhash",
    "wandb",
    "sentencepiece",
    "aiohttp",
    "aiosignal",
    "aiohappyeyeballs",
    "frozenlist",
    "multidict",
    "yarl",
    "propcache",
    "attrs",
    "click",
    "platformdirs",
    "protobuf",
    "gitpython",
    "gitdb",
    "smmap",
    "sentry-sdk",
    "pydantic",
    "pydantic-core",
    "annotated-types",
    "typing-inspection",
    "psutil",
)


def fetch() -> None:
    """Download the peers and the scripts; the project's own environment stays as it is."""
    CACHE.mkdir(parents=True, exist_ok=True)
    lens = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(CACHE / "lens")]
    subprocess.run([*lens, "--no-deps", *LENS], check=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(CACHE / "site")]
    subprocess.run([*pip, "ipython"], check=True)
    subprocess.run([*pip, "--no-deps", "bertviz==1.4.1"], check=True)
    for name, (package, inside) in SCRIPTS.items():
        packed = ["npm", "pack", "--silent", package]
        done = subprocess.run(packed, cwd=CACHE, check=True, capture_output=True, text=True)
        with tarfile.open(CACHE / done.stdout.split()[-1]) as archive:
            script = archive.extractfile(inside)
            assert script is not None
            (CACHE / name).write_bytes(script.read())


def model_view() -> Callable[..., Any]:
    """BertViz' `model_view`, or `Skipped` where it or its scripts are not there."""
    if any(not (CACHE / name).is_file() for name in SCRIPTS):
        raise Skipped("peer not available: run python -m benchmarks --fetch grid")
    if str(CACHE / "site") not in sys.path:
        sys.path.append(str(CACHE / "site"))  # at the end: our own packages come first
    try:
        found: Callable[..., Any] = import_module("bertviz").model_view
    except ImportError as error:
        raise Skipped(f"peer not available: {error}") from error
    return found


def transformer_bridge() -> Any:
    """TransformerLens' `TransformerBridge`, or `Skipped` where it is not there."""
    if not (CACHE / "lens").is_dir():
        raise Skipped("peer not available: run python -m benchmarks --fetch importance")
    if str(CACHE / "lens") not in sys.path:
        sys.path.append(str(CACHE / "lens"))
    try:
        return import_module("transformer_lens.model_bridge").TransformerBridge
    except ImportError as error:
        raise Skipped(f"peer not available: {error}") from error


def serve_scripts(page: Any) -> None:
    """Answer what the page asks the CDN for from the cache folder."""

    def answer(route: Any) -> None:
        name = route.request.url.rsplit("/", 1)[-1]
        if name in SCRIPTS:
            route.fulfill(path=CACHE / name, content_type="text/javascript")
        else:
            route.abort()

    page.route("https://cdnjs.cloudflare.com/**", answer)
