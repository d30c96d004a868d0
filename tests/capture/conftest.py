"""The tiny checkpoints on disk, and the models loaded from them."""

from pathlib import Path

import pytest

import mha_viz as mv
from mha_viz.capture.model import AttentionModel
from tests.capture.checkpoints import bert, gpt2, save


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(bert(), tmp_path_factory.mktemp("checkpoints") / "bert")


@pytest.fixture(scope="module")
def folders(folder: Path) -> dict[str, Path]:
    return {"bert": folder, "gpt2": save(gpt2(), folder.with_name("gpt2"), pairs=False)}


@pytest.fixture(scope="module")
def models(folders: dict[str, Path]) -> dict[str, AttentionModel]:
    return {name: mv.load(str(folder)) for name, folder in folders.items()}
