"""Files of texts as strangers may upload them to the page Corpus: studied, or refused in words."""

import gzip
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mha_viz as mv
from mha_viz.errors import ArgumentError, MhaVizError
from mha_viz.ui.run.studies import SUFFIXES, Studies
from tests.making.checkpoints import bounded
from tests.strangers.files.damage import damaged
from tests.strangers.files.uploads import CASES, NAMES, WHOLE
from tests.strangers.fuzzing import fuzzed

pytestmark = pytest.mark.slow
_FOREIGN = re.compile(r"Traceback|Error\b|sys\.|universal-newline|parse_\w+|object at 0x")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> mv.AttentionModel:
    """Load and run once what would count as growth later."""
    model = mv.load("tiny-bert")
    for suffix, content in WHOLE.items():
        path = tmp_path_factory.mktemp("whole") / f"whole{suffix}"
        path.write_bytes(content)
        mv.study(model, path, path.parent / "study", join=joined(path))
    return model


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for all that a server writes down for a while."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def joined(path: Path) -> str | None:
    """Return how sentences of a file are joined: where it has documents, as a page may ask."""
    content = path.read_bytes()
    return "document" if b"# newdoc" in content or b"#begin document" in content else None


def given_to(server: Path, model: mv.AttentionModel, content: bytes, name: str) -> str:
    """The sentence that refuses a file; "" of one that is studied. Nothing of it stays."""
    studies = Studies()
    with bounded(seconds=1):
        try:
            key = studies.add_texts(content, name)
            [path] = server.glob(f"*/{key}/*")
            found = mv.study(model, path, path.parent / "study", sample=2, join=joined(path))
            told = [reason for _, reason in found.manifest["skipped"]]
            assert 1 <= found.n_texts <= 2 and found.heads["mean"].notna().any()
        except MhaVizError as error:
            told = [str(error)]
    said = told[0] if told and not any(server.glob("*/*/study/study.duckdb*")) else ""
    for one in told:
        assert 0 < len(one) < 700 and one.endswith(".") and "\n" not in one, one
        assert not _FOREIGN.search(one) and str(server) not in one, one
    studies.close()
    assert not any(server.iterdir())
    return said


def test_there_is_a_whole_file_of_each_kind(server: Path, model: mv.AttentionModel) -> None:
    assert set(WHOLE) == set(SUFFIXES)
    for suffix, content in WHOLE.items():
        assert not given_to(server, model, content, f"whole{suffix}")


@pytest.mark.parametrize("case", CASES)
def test_odd_files(server: Path, model: mv.AttentionModel, case: str) -> None:
    name, content = CASES[case]
    said = given_to(server, model, content, name)
    if "UTF-" in case:
        assert said == f"{name} is UTF-16 or UTF-32, and UTF-8 is expected: save it as UTF-8."
    if "old Macs" in case:
        assert not said


@pytest.mark.parametrize("suffix", SUFFIXES)
@given(data=st.data())
@fuzzed(daily=3, long=1_000)
def test_damaged_files(
    server: Path, model: mv.AttentionModel, suffix: str, data: st.DataObject
) -> None:
    content = data.draw(damaged(WHOLE[suffix]))
    given_to(server, model, content, f"texts{suffix}")


def kept(server: Path, name: str) -> None:
    """A file of any name lies in the folder of its own, and is called in a few letters."""
    studies = Studies()
    key = studies.add_texts(b"text\nA cat.\n", name)
    [path] = server.glob(f"*/{key}/*")
    assert path.read_bytes() == b"text\nA cat.\n" and len(path.name) < 100
    assert 0 < len(studies.titles()[key]) <= 60
    studies.close()
    assert not any(server.iterdir())


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name[:30]))
def test_odd_names(server: Path, name: str) -> None:
    kept(server, name)


@pytest.mark.parametrize("name", [f"texts{suffix}" for suffix in SUFFIXES])
def test_what_is_packed_is_refused_whatever_its_name(name: str) -> None:
    bomb = gzip.compress(b"text\n" + b"A cat.\n" * 10_000)
    studies = Studies()
    with pytest.raises(ArgumentError, match="packed by gzip"):
        studies.add_texts(bomb, name)
    assert not studies.titles()
