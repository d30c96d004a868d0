"""The Dockerfile says what can be tried without Docker, and copies what is there."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from hosting.dockerfile import copied_files, read_stages

ROOT = Path(__file__).parents[2]
STAGES = read_stages((ROOT / "Dockerfile").read_text("utf-8"))
IGNORE = (ROOT / ".dockerignore").read_text("utf-8")
COPIED = {path.as_posix() for path in copied_files(ROOT, IGNORE)}


def test_the_image_gets_the_app_with_its_models_and_nothing_of_the_workshop() -> None:
    assert {"app.py", ".streamlit/config.toml", "models/tiny-gpt2/model.safetensors"} <= COPIED
    for instruction in (each for stage in STAGES for each in stage.instructions):
        if instruction.name == "COPY" and "from" not in instruction.flags:
            *sources, _ = instruction.words({})
            assert all(
                any(Path(path).is_relative_to(source) for path in COPIED) for source in sources
            )
    assert {"mha_viz/cli/main.py", "mha_viz/learn/frame/contents.py"} <= COPIED
    tops = {path.split("/")[0] for path in COPIED}
    assert not tops & {".git", ".venv", ".github", "benchmarks", "docs", "tests"}
    assert not [path for path in COPIED if "__pycache__" in path]


def test_it_runs_as_nobody_in_particular_and_checks_its_health() -> None:
    final = STAGES[-1]
    assert final.last("USER").text == "1000:1000"
    assert final.last("CMD").text.startswith("[")  # no shell between the engine and the server
    variables = dict(word.split("=", 1) for word in final.last("ENV").words({}))
    assert variables["PORT"] == final.last("EXPOSE").text
    assert variables["MHA_VIZ_PUBLIC"] == "1"
    assert final.last("HEALTHCHECK").command()[0] == "python"


def test_compose_gives_no_rights_and_the_same_port_and_check() -> None:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))["services"]
    for each in services.values():
        assert each["read_only"] and each["cap_drop"] == ["ALL"] and each["mem_limit"]
        assert each["security_opt"] == ["no-new-privileges:true"]
    service = services["app"]
    assert any(place.startswith("/tmp") for place in service["tmpfs"])
    apps = services["proxy"]["environment"]["SITE_APPS"]
    assert apps == f"dynamic a app {STAGES[-1].last('EXPOSE').text}"
    assert service["healthcheck"]["test"] == ["CMD", *STAGES[-1].last("HEALTHCHECK").command()]


@pytest.mark.parametrize(
    ("given", "allowed"),
    [
        ({}, None),
        ({"SPACE_HOST": "me-it.hf.space"}, "me-it.hf.space localhost"),
        (
            {"STREAMLIT_SERVER_ALLOWED_HOSTS": "a.example b.example"},
            "a.example b.example localhost",
        ),
    ],
)
def test_the_server_starts_with_its_port_and_goes_by_its_names(
    tmp_path: Path, given: dict[str, str], allowed: str | None
) -> None:
    command = tmp_path / "mha-viz"  # in its place: says what it was started with
    command.write_text('#!/bin/sh\nenv\necho "arguments=$*"\n')
    command.chmod(0o755)
    env = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "PORT": "7999", **given}
    done = subprocess.run(
        ["/bin/sh", ROOT / "hosting/start.sh"], env=env, capture_output=True, text=True, check=True
    )
    said = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert said["arguments"] == "app --host 0.0.0.0 --port 7999"
    assert said.get("STREAMLIT_SERVER_ALLOWED_HOSTS") == allowed
    in_a_frame = said.get("STREAMLIT_SERVER_XSRF_COOKIE_SAME_SITE") == "none"
    assert in_a_frame == ("SPACE_HOST" in given)
