"""Dockerfile, compose.yaml, Caddyfile and Binder's list name what is there and agree."""

import re

import yaml

from mha_viz.ui.operating.settings import read
from tests.hosting.ignored import ROOT, copied_files

DOCKERFILE = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text("utf-8"))
CADDYFILE = ROOT / "Caddyfile"
SERVICES = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))["services"]


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
