"""A study of hostile sentences, and its atlas."""

from pathlib import Path
from typing import Any

import pytest

import mha_viz as mv
from tests.making.hostile_study import hostile_model, hostile_study


@pytest.fixture(scope="session")
def model() -> Any:
    return hostile_model()


@pytest.fixture(scope="session")
def study(model: Any, tmp_path_factory: pytest.TempPathFactory) -> mv.Study:
    return hostile_study(model, tmp_path_factory.mktemp("atlas"))


@pytest.fixture(scope="session")
def atlas(model: Any, study: mv.Study, tmp_path_factory: pytest.TempPathFactory) -> Path:
    page = study.atlas(tmp_path_factory.mktemp("site") / "atlas", model)
    assert page.name == "index.html"
    return page.parent
