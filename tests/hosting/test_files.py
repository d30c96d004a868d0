"""Dockerfile, compose.yaml, Caddyfile and Binder's list name what is there and agree."""

import json
import os
import re
import shutil
import subprocess

import pytest
import yaml

from mha_viz.ui.operating.settings import read
from tests.hosting.ignored import ROOT, copied_files

DOCKERFILE = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text("utf-8"))
CADDYFILE = ROOT / "Caddyfile"
SERVICES = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))["services"]
SITE = SERVICES["proxy"]["environment"]
ONE_MACHINE = {"SITE_NAME": "heads.example.org", "SITE_APPS": "to 127.0.0.1:8501 127.0.0.1:8502"}


def test_dockerfile_copies_the_app_and_nothing_of_the_workshop() -> None:
    copied = {path.as_posix() for path in copied_files()}
    assert {"app.py", ".streamlit/config.toml", "models/tiny-gpt2/model.safetensors"} <= copied
    assert {"mha_viz/cli/main.py", "mha_viz/learn/frame/contents.py"} <= copied
    assert not {path.split("/")[0] for path in copied} & {".git", ".venv", "docs", "tests"}
    assert not [path for path in copied if "__pycache__" in path]
    instructions = re.findall(r"^COPY (?!--)(.*)", DOCKERFILE, re.M)
    sources = [line.split()[:-1] for line in instructions]
    assert sources == [["requirements.txt"], ["."]]
    assert "requirements.txt" in copied


def test_dockerfile_starts_the_public_app_as_a_user_without_rights() -> None:
    final = DOCKERFILE.rpartition("\nFROM ")[2]
    assert "\nUSER 1000:1000\n" in final and "MHA_VIZ_PUBLIC=1" in final
    assert '\nCMD ["mha-viz", "app"]' in final
    (port,) = re.findall(r"^EXPOSE (\d+)$", final, re.M)
    assert f"STREAMLIT_SERVER_PORT={port}" in final and "STREAMLIT_SERVER_ADDRESS=0.0.0.0" in final
    (check,) = re.findall(r"^HEALTHCHECK .*CMD (\[.*\])$", final, re.M)
    assert f"http://localhost:{port}/healthz" in check
    assert SERVICES["app"]["healthcheck"]["test"] == ["CMD", *json.loads(check)]
    assert SITE["SITE_APPS"] == f"dynamic a app {port}"


def test_compose_gives_no_rights_and_one_folder_to_all_processes() -> None:
    assert set(SERVICES) == {"app", "proxy"}
    for service in SERVICES.values():
        assert service["read_only"] and service["cap_drop"] == ["ALL"] and service["mem_limit"]
        assert service["security_opt"] == ["no-new-privileges:true"]
    app, proxy = SERVICES["app"], SERVICES["proxy"]
    assert "ports" not in app and "container_name" not in app  # else there could be one only
    assert all(port.startswith("${BIND:-127.0.0.1}:") for port in proxy["ports"])
    assert proxy["depends_on"] == {"app": {"condition": "service_healthy"}}
    assert f"./{CADDYFILE.name}:/etc/caddy/Caddyfile:ro" in proxy["volumes"]
    ours = {name: value for name, value in app["environment"].items() if name.startswith("MHA_")}
    settings = read(ours).settings
    assert app["volumes"] == [f"shared:{settings.shared}"] and settings.trusted_proxies


@pytest.mark.parametrize("site", [SITE, ONE_MACHINE], ids=["compose", "own"])
def test_caddy_keeps_a_visitor_at_one_healthy_process(site: dict[str, str]) -> None:
    text = CADDYFILE.read_text("utf-8")
    assert set(site) <= set(re.findall(r"\{\$(\w+)", text))
    assert "lb_policy cookie " in text and "health_uri /healthz" in text
    if not shutil.which("caddy"):
        # Only who hosts several servers has it; what is read of its file is tested without.
        pytest.skip("no caddy on PATH")
    values = {name: re.sub(r"^\$\{\w+:-(.*)\}$", r"\1", value) for name, value in site.items()}
    command = ["caddy", "adapt", "--validate", "--config", CADDYFILE, "--adapter", "caddyfile"]
    done = subprocess.run(command, env=os.environ | values, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    policy = {"name": "mha_viz_process", "policy": "cookie"}
    assert json.dumps({"selection_policy": policy})[1:-1].replace(" ", "") in done.stdout


def test_binder_has_the_torch_of_the_requirements_for_every_python() -> None:
    folder = ROOT / "binder"
    (version,) = re.findall(r"^torch==(\S+)$", (ROOT / "requirements.txt").read_text(), re.M)
    lines = re.findall(r"^torch @ .*$", (folder / "torch-cpu.txt").read_text("utf-8"), re.M)
    for minor, line in zip((11, 12, 13, 14), lines, strict=True):
        assert f"/cpu/torch-{version}%2Bcpu-cp3{minor}-cp3{minor}-" in line
        assert line.endswith(f'; python_version == "3.{minor}"')
    named = re.findall(r"^-r (.+)$", (folder / "requirements.txt").read_text("utf-8"), re.M)
    assert [(folder / name).resolve() for name in named] == [
        folder / "torch-cpu.txt",
        ROOT / "requirements.txt",
    ]
