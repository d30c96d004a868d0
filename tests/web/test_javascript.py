"""The browser's modules, run by node: tests/web/javascript.

Those of them that draw find a page of jsdom, which comes from npm.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from mha_viz.web.browser import component_script
from tests.missing import skip_or_fail
from tests.web.from_python import written

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests" / "web" / "javascript"
NODE = shutil.which("node")
OLDEST = 18  # the first with `node:test` and its reports


def _version() -> int:
    """Return the major version of node, 0 where there is none."""
    if NODE is None:
        return 0
    said = subprocess.run([NODE, "--version"], capture_output=True, text=True, timeout=60).stdout
    found = re.match(r"v(\d+)", said)
    return int(found[1]) if found else 0


@pytest.fixture(scope="module")
def from_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the file that python.js reads."""
    file = tmp_path_factory.mktemp("javascript") / "from_python.json"
    file.write_text(json.dumps(written()))
    return file


@pytest.fixture(scope="module")
def node() -> str:
    if NODE is None or _version() < OLDEST:
        skip_or_fail(f"these tests need node {OLDEST} or newer, and none is on PATH")
    return NODE


@pytest.mark.parametrize(
    "name",
    [
        *("atlas", "board", "class_cookie", "decile_texts", "first_sentence", "flow_graph"),
        *("head_grid", "page_address", "payload_carrier", "projector_memory", "sentence_arcs"),
        *("token_spaces", "workbench"),
    ],
)
def test_modules_that_are_joined_declare_no_name_twice(
    name: str, node: str, tmp_path: Path
) -> None:
    module = tmp_path / "joined.mjs"
    module.write_text(text := component_script(name))
    assert not re.search("^import ", text, re.MULTILINE) and "</script" not in text
    assert len(re.findall("^export default ", text, re.MULTILINE)) == text.count("export ") == 1
    parsed = subprocess.run(
        [node, "--check", str(module)], capture_output=True, text=True, timeout=60
    )
    assert parsed.returncode == 0, parsed.stderr


@pytest.mark.parametrize("path", sorted(TESTS.glob("test_*.js")), ids=lambda path: path.stem)
def test_the_browsers_modules_do_what_they_say(path: Path, node: str, from_python: Path) -> None:
    if "./dom.js" in path.read_text() and not (ROOT / "node_modules" / "jsdom").is_dir():
        skip_or_fail("this test needs jsdom, which is not installed (npm ci, or make javascript)")
    done = subprocess.run(
        [node, str(path)],
        env=os.environ | {"FROM_PYTHON": str(from_python)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    ran = re.search(r"^\W*(?:# |ℹ )?pass (\d+)$", done.stdout, re.MULTILINE)
    assert ran and int(ran[1]) > 0, done.stdout


def test_npm_installs_exact_versions_from_whatever_registry_is_set() -> None:
    wanted = json.loads((ROOT / "package.json").read_text())
    locked = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    assert locked[""]["devDependencies"] == wanted["devDependencies"]
    for name, version in wanted["devDependencies"].items():
        assert locked[f"node_modules/{name}"]["version"] == version
    installed = [package for name, package in locked.items() if name]
    assert all(package["integrity"].startswith("sha512-") for package in installed)
    assert not [package for package in installed if "resolved" in package]
