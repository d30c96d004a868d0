"""The tiny checkpoints on disk, and the models loaded from them or shipped: for all rooms.

Nothing of mha_viz is imported before a test asks: shapes are checked in what is imported later.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.making.checkpoints import bert, save

    return save(bert(), tmp_path_factory.mktemp("checkpoints") / "bert")


@pytest.fixture(scope="module")
def folders(folder: Path) -> dict[str, Path]:
    from tests.making.checkpoints import gpt2, save

    return {"bert": folder, "gpt2": save(gpt2(), folder.with_name("gpt2"), pairs=False)}


@pytest.fixture(scope="module")
def models(folders: dict[str, Path]) -> dict[str, Any]:
    import mha_viz as mv

    return {name: mv.load(str(folder)) for name, folder in folders.items()}


@pytest.fixture(scope="module")
def gpt() -> Any:
    """The shipped causal model."""
    import mha_viz as mv

    return mv.load("tiny-gpt2")


@pytest.fixture(scope="module")
def masked() -> Any:
    """The shipped masked model."""
    import mha_viz as mv

    return mv.load("tiny-bert")


@pytest.fixture
def served(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A Hub that the library asks, an empty cache, and no patience."""
    from huggingface_hub import constants

    from tests.making.fake_hub import FakeHub

    server = FakeHub(folder)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", server.endpoint)
    monkeypatch.setattr(
        constants,
        "HUGGINGFACE_CO_URL_TEMPLATE",
        server.endpoint + "/{repo_id}/resolve/{revision}/{filename}",
    )
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda seconds: None)
    yield server
    server.close()
