"""Fixtures of several files of the core."""

import jaxtyping
import pytest


@pytest.fixture
def as_users_have_it(monkeypatch):
    """Without the types that the tests check in addition: the record's own checks answer."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
