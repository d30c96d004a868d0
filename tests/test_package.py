"""The wheel stands alone: library, command, models and app work without the source tree.

And what make installs into .venv is the source tree itself, from wherever it is used.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import hatch_build
from tests.declared import PROJECT, SETTINGS, of_extra
from tests.hosting.ignored import copied_files

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
REQUIRED = [*PROJECT["dependencies"], *of_extra("app")]
MODELS = ("tiny-bert", "tiny-gpt2", "tiny-llama")


def run(*command: str | Path, cwd: Path) -> str:
    """The command's output; its complaints are the failure's text."""
    env = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{command[0]} failed:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(ROOT, tmp_path_factory.mktemp("wheel"))


def built(source: Path, folder: Path) -> Path:
    """Build the wheel of a source tree or an sdist into the folder."""
    pip = (sys.executable, "-m", "pip", "wheel", "--no-index", "--no-deps", "--no-build-isolation")
    run(*pip, "--wheel-dir", folder, source, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


def lay_out_sdist(folder: Path) -> Path:
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder, cwd=ROOT)
    (sdist,) = folder.glob("*.tar.gz")
    return sdist


def lay_out_image(folder: Path) -> Path:
    """Copy the files that an engine sends to the Dockerfile's `COPY . .`."""
    for path in copied_files():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, folder / path)
    return folder


@pytest.fixture(scope="module")
def scripts(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts of an environment that has the wheel itself, and our own's dependencies."""
    return installed(wheel, tmp_path_factory.mktemp("installed"))


def installed(wheel: Path, folder: Path) -> Path:
    env = folder / "env"
    venv.create(env, with_pip=False, symlinks=True)
    python = env / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps")
    run(*pip, wheel, cwd=env)
    (site,) = env.glob("lib/python*/site-packages")
    paths = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (site / "dependencies.pth").write_text("\n".join(paths))
    return python.parent


def test_the_wheel_holds_all_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    package = ROOT / "mha_viz"
    source = {
        path.relative_to(ROOT).as_posix()
        for pattern in ("*.py", "*.pyi", "*.js", "*.css", "*.html", "*.png", "*.toml")
        for path in package.rglob(pattern)
    }
    assert source <= names
    assert {"mha_viz/webapp/app.py", "mha_viz/webapp/.streamlit/config.toml"} <= names
    for model in MODELS:
        for file in ("config.json", "model.safetensors", "tokenizer.json", "README.md"):
            assert f"mha_viz/shipped_models/{model}/{file}" in names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"mha_viz"}
    assert not [name for name in names if name.endswith(".pyc")]
    assert wheel.stat().st_size <= 31_100_000  # docs/releasing.md says what takes how much


@pytest.mark.parametrize("lay_out", [lay_out_sdist, lay_out_image])
def test_each_set_of_files_builds_the_same_wheel(
    lay_out: Callable[[Path], Path], wheel: Path, tmp_path: Path
) -> None:
    (tmp_path / "source").mkdir()
    other = built(lay_out(tmp_path / "source"), tmp_path)
    assert checksums(other) == checksums(wheel)


def checksums(wheel: Path) -> dict[str, int]:
    """Return the CRC of each file in a wheel, those that describe the wheel itself left out."""
    files = zipfile.ZipFile(wheel).infolist()
    return {file.filename: file.CRC for file in files if ".dist-info/" not in file.filename}


def test_the_library_traces_and_the_app_draws_its_first_page(scripts: Path, tmp_path: Path) -> None:
    code = """
import pathlib, sys, mha_viz as mv
from streamlit.testing.v1 import AppTest
print(mv.__file__)
for name in sys.argv[1:]:
    record = mv.load(name).trace("The cat sat on the mat.")
    sums = record.pattern.sum(-1)
    assert abs(sums - 1).max() < 1e-4, sums
app = pathlib.Path(mv.__file__).parent / "webapp" / "app.py"
page = AppTest.from_file(app, default_timeout=300).run()
assert not page.exception, page.exception
"""
    where = run(scripts / "python", "-I", "-c", code, *MODELS, cwd=tmp_path)
    assert Path(where.splitlines()[0]).is_relative_to(scripts.parent)


def test_every_requirement_is_one_exact_version() -> None:
    for file in ("requirements.txt", "requirements-dev.txt", "requirements-docs.txt"):
        for line in (ROOT / file).read_text().splitlines():
            if line and not line.startswith(("#", "-r ")):
                assert re.fullmatch(r"[a-z0-9-]+==[0-9a-z.]+(; .*)?", line), f"{file}: {line}"


@pytest.mark.parametrize(
    ("file", "wanted"),
    [
        ("requirements.txt", REQUIRED),
        ("requirements-dev.txt", of_extra("dev")),
        ("requirements-docs.txt", of_extra("docs")),
        ("requirements.txt", SETTINGS["build-system"]["requires"]),
    ],
)
def test_the_pins_lie_within_the_declared_ranges(file: str, wanted: list[str]) -> None:
    pinned = pins(file)
    for requirement in map(Requirement, wanted):
        assert pinned[canonicalize_name(requirement.name)] in requirement.specifier


@pytest.mark.parametrize(
    ("file", "wanted"),
    [("requirements.txt", REQUIRED), ("requirements-dev.txt", of_extra("dev"))],
)
def test_what_they_pull_in_is_pinned_too(file: str, wanted: list[str]) -> None:
    """Follow requirement after requirement, as what is installed here names them."""
    wanting = [("mha-viz", requirement) for requirement in map(Requirement, wanted)]
    seen = set()
    while wanting:
        source, requirement = wanting.pop()
        name = canonicalize_name(requirement.name)
        if source == "torch" and name not in pins(file):
            continue  # what a build for GPUs needs, which others have not
        assert name in pins(file), f"{file} does not pin {name}, which {source} needs"
        if name not in seen:
            seen.add(name)
            wanting += [(name, other) for other in required_by(name)]


def required_by(package: str) -> list[Requirement]:
    """Return the requirements of a package on this machine, without those of its extras."""
    named = map(Requirement, metadata.requires(package) or [])
    return [need for need in named if not need.marker or need.marker.evaluate({"extra": ""})]


def pins(file: str) -> dict[str, str]:
    """The packages of a list, and of the list that it includes, each with its version."""
    text = (ROOT / file).read_text()
    found = dict(re.findall(r"^([a-z0-9-]+)==([^\s;]+)", text, re.MULTILINE))
    for other in re.findall(r"^-r (\S+)$", text, re.MULTILINE):
        found |= pins(other)
    return found


def test_every_range_has_a_lower_end() -> None:
    for requirement in map(Requirement, REQUIRED):
        assert ">=" in {bound.operator for bound in requirement.specifier}, requirement


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("https://host.example/owner/name.github.io/", "https://host.example/owner/name.github.io"),
        ("https://x-token:secret@host.example/a/b/c.git", "https://host.example/a/b/c"),
        ("git@code.host.example:owner/name.git", "https://code.host.example/owner/name"),
        ("file:///srv/git/owner/name.git", ""),
        ("https://127.0.0.1/owner/name", ""),
        ("git@host:owner/name.git", ""),
        ("https://host.example/owner/name?x=](", ""),
        ("", ""),
    ],
)
def test_a_remote_at_a_public_host_is_an_address_without_its_secrets(
    remote: str, address: str
) -> None:
    assert hatch_build.public_address(remote) == address
