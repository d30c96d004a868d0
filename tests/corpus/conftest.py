"""A study of seven sentences, made once."""

from typing import Any

import pytest

import mha_viz as mv
from mha_viz.corpus.query.study import Study
from tests.corpus.plain_study import plain_study


@pytest.fixture(scope="session")
def bert() -> Any:
    return mv.load("tiny-bert")


@pytest.fixture(scope="session")
def made(bert: Any, tmp_path_factory: pytest.TempPathFactory) -> Study:
    return plain_study(bert, tmp_path_factory.mktemp("studies") / "plain")
