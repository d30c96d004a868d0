"""Ground of every test: no network, no caches of the user, one thread, fixed seeds.

Shapes are checked in all tests and doctests: pytest's options install jaxtyping's import hook.
"""

import os
import random
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Read by huggingface_hub, tokenizers and torch when they are first imported, here and in children.
_home = tempfile.TemporaryDirectory(prefix="mha_viz-tests-")
for _name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_ENDPOINT", "HF_TOKEN"):
    os.environ.pop(_name, None)
os.environ |= {
    "HF_HOME": _home.name,
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "OMP_NUM_THREADS": "1",
}

import numpy as np  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402
from hypothesis import settings  # noqa: E402

from tests.making import shape_checks  # noqa: E402

shape_checks.install()
torch.set_num_threads(1)
pytest_plugins = ["tests.making.fixtures", "tests.reruns"]

settings.register_profile("local", deadline=None, max_examples=50)
settings.register_profile("ci", deadline=None, max_examples=25, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


def _is_local(host: object) -> bool:
    name = host.decode() if isinstance(host, bytes) else host
    return name in (None, "", "localhost", "::1", "0.0.0.0") or str(name).startswith("127.")


def _guarded(method: str) -> Callable[..., Any]:
    original = getattr(socket.socket, method)

    def connect(self: socket.socket, address: Any) -> Any:
        if isinstance(address, tuple) and not _is_local(address[0]):
            pytest.fail(f"a test reached for the network: {address}")
        return original(self, address)

    return connect


_MAIN = sys.modules["__main__"]
_getaddrinfo = socket.getaddrinfo


def _resolve(host: Any, *args: Any, **kwargs: Any) -> Any:
    if not _is_local(host):
        pytest.fail(f"a test reached for the network: {host}")
    return _getaddrinfo(host, *args, **kwargs)


# For the whole run and not in a fixture, so that session fixtures and doctests are held to it too.
socket.socket.connect = _guarded("connect")  # type: ignore[method-assign]
socket.socket.connect_ex = _guarded("connect_ex")  # type: ignore[method-assign]
socket.getaddrinfo = _resolve


# Whole pages, labs that train, and what stands at the top: documentation, notebooks, the package.
_SLOW = [Path(__file__).parent / name for name in ("ui", "labs")]


# What takes long and seldom breaks: training, killed processes, very many odd inputs. So do
# browser tests that are no journeys (browser/conftest.py).
_EXTENDED = [
    Path(__file__).parent / name
    for name in (
        "corpus/test_cluster.py",
        "corpus/test_folding.py",
        "families",
        "faults",
        "hosting",
        "labs/test_how_heads_learn.py",
        "labs/test_what_heads_learn.py",
        "models/test_recipe.py",
        "strangers/files",
        "strangers/test_pages.py",
        "strangers/test_texts.py",
        "test_benchmarks.py",
        "test_docs.py",
        "test_extras.py",
        "test_notebooks.py",
        "test_package.py",
        "test_site.py",
    )
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent or item.path.parent in _SLOW:
            item.add_marker("slow")
        if item.path in _EXTENDED or item.path.parent in _EXTENDED:
            item.add_marker("extended")


@pytest.fixture(autouse=True)
def _main_module() -> None:
    """Undo what Streamlit's AppTest does: processes that a test spawns would run its script."""
    sys.modules["__main__"] = _MAIN


@pytest.fixture(autouse=True)
def _seeds() -> None:
    shape_checks.next_test()
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 (libraries draw from it)
    torch.manual_seed(0)


class _Missing:
    """Finds no package of the extra `app`, and keeps others from finding one."""

    packages = ("streamlit", "starlette")

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name in self.packages:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.fixture
def without_the_app(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide what the extra `app` brings, as where it is not installed."""
    for name in [name for name in sys.modules if name.split(".")[0] in _Missing.packages]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [_Missing(), *sys.meta_path])
