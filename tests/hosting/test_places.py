"""What other hosts read: a Space's folder, the lists of packages, the dev container, Binder."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hosting import space
from hosting.dockerfile import read_stages
from mha_viz.errors import ArgumentError

ROOT = Path(__file__).parents[2]
LISTS = (ROOT / "hosting/streamlit_cloud/requirements.txt", ROOT / "binder/requirements.txt")


def pins(path: Path) -> dict[str, str]:
    """Package -> version, of a list of exact versions."""
    return dict(re.findall(r"^([\w-]+)==([\w.]+)", path.read_text("utf-8"), re.M))


def test_a_space_has_a_card_that_the_hub_can_read(tmp_path: Path) -> None:
    folder = tmp_path / "space"
    n_files = space.lay_out(folder)
    assert n_files == sum(path.is_file() for path in folder.rglob("*"))
    _, front, page = (folder / "README.md").read_text("utf-8").split("---\n", 2)
    card = yaml.safe_load(front)
    exposed = read_stages((folder / "Dockerfile").read_text("utf-8"))[-1].last("EXPOSE").text
    assert (card["sdk"], card["app_port"]) == ("docker", int(exposed))
    assert len(card["short_description"]) <= 60  # the Hub takes no longer one
    assert page.strip().startswith("# ")
    assert (folder / "models/tiny-bert/model.safetensors").stat().st_size > 1_000_000
    assert not (folder / "tests").exists() and not (folder / ".git").exists()


def test_a_folder_that_holds_something_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(ArgumentError, match="new or empty folder"):
        space.lay_out(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "hosting.space", tmp_path], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: Expected") and done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_every_list_has_the_torch_of_the_requirements_for_every_python() -> None:
    version = pins(ROOT / "requirements.txt")["torch"]
    lines = re.findall(r"^torch @ .*$", (ROOT / "hosting/torch-cpu.txt").read_text("utf-8"), re.M)
    for minor, line in zip((11, 12, 13, 14), lines, strict=True):
        assert f"/cpu/torch-{version}%2Bcpu-cp3{minor}-cp3{minor}-" in line
        assert line.endswith(f'; python_version == "3.{minor}"')
    for path in LISTS:
        read = re.findall(r"^-r (.+)$", path.read_text("utf-8"), re.M)
        names = {(path.parent / name).resolve().relative_to(ROOT).as_posix() for name in read}
        assert names == {"hosting/torch-cpu.txt", "requirements.txt"}


def test_the_cloud_starts_the_whole_app_in_public_under_its_names() -> None:
    code = """
import os
from pathlib import Path
from streamlit import config
from streamlit.web.server.app_discovery import discover_asgi_app
entry = Path("hosting/streamlit_cloud/streamlit_app.py").resolve()
assert discover_asgi_app(entry).app_name == "app"
import runpy
found = runpy.run_path(str(entry))["app"]
import app as whole
assert found is whole.app
from mha_viz.ui.server.gate import refusal
assert not refusal(["some-name.streamlit.app"], ["https://some-name.streamlit.app"])
assert not refusal(["localhost:8501"], [])
assert refusal(["elsewhere.example"], [])
print(os.environ["MHA_VIZ_PUBLIC"])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.stdout == "1\n", done.stderr
