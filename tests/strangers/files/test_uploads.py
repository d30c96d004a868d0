"""Files of texts as strangers may upload them to the page Corpus."""

import gzip

import pytest

from mha_viz.errors import ArgumentError
from mha_viz.ui.session.studies import SUFFIXES, Studies


@pytest.mark.parametrize("name", [f"texts{suffix}" for suffix in SUFFIXES])
def test_what_is_packed_is_refused_whatever_its_name(name: str) -> None:
    bomb = gzip.compress(b"text\n" + b"A cat.\n" * 10_000)
    studies = Studies()
    with pytest.raises(ArgumentError, match="packed by gzip"):
        studies.give(bomb, name)
    assert not studies.own()
