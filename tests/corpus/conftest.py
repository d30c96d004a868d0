"""A study of seven sentences, made once; and studies in small shards."""

from collections.abc import Iterator
from typing import Any

import pytest

import mha_viz as mv
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.sources import source
from tests.corpus.random_moments import PER_SHARD
from tests.corpus.small_studies import TEXTS, study_in_shards


@pytest.fixture(scope="session")
def bert() -> Any:
    return mv.load("tiny-bert")


@pytest.fixture(scope="session")
def made(bert: Any, tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Return a study that was measured in three shards."""
    return study_in_shards(3, bert, TEXTS, tmp_path_factory.mktemp("made") / "study")


@pytest.fixture(scope="module")
def small_shards() -> Iterator[None]:
    """Put few texts into a shard, so that a small study has several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "SHARD_TEXTS", PER_SHARD)
        yield


@pytest.fixture(scope="module")
def whole(
    bert: Any,
    small_shards: None,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Study:
    """Return the study of a module's LINES that one process makes and nothing interrupts."""
    out = tmp_path_factory.mktemp("whole") / "study"
    return mv.study(bert, request.module.LINES, out)
