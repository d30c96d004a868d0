"""Records read from TOML are typed, and a wrong entry is named."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from mha_viz.learn.frame.contents import read_records


@dataclass(frozen=True)
class _Page:
    title: str


@dataclass(frozen=True)
class _Entry:
    name: str
    minutes: int = 0
    pages: tuple[_Page, ...] = ()


def _read(tmp_path: Path, text: str) -> tuple[_Entry, ...]:
    path = tmp_path / "some.toml"
    path.write_text(text, "utf-8")
    return read_records(_Entry, path, "entry")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("minutes = 3", "some.toml.*entry 1.*name"),
        ('name = "a"\ngaol = 3', "some.toml.*entry 1.*gaol"),
        ('name = "a"\npages = [{ title = 3 }]', "entry 1.*pages 1.*title.*str"),
    ],
)
def test_read_records_wrong_entry_is_named(tmp_path, entry, message):
    with pytest.raises(ValueError, match=message):
        _read(tmp_path, f"[[entry]]\n{entry}\n")
