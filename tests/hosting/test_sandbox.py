"""What a Dockerfile says is carried out, in a file system of its own, without rights."""

import subprocess
from pathlib import Path

import pytest

from hosting import image, sandbox
from mha_viz.errors import ArgumentError

pytestmark = pytest.mark.slow

DOCKERFILE = """\
FROM python:3.11.14-slim-bookworm AS made
ARG WORD=none
ENV PLACE=/made
WORKDIR $PLACE
COPY words/ first.txt ./
RUN python -c "open('word', 'w').write('$WORD')" && test "$(id -u)" = 0
FROM python:3.11.14-slim-bookworm
COPY --from=made /made /opt/made
COPY first.txt /opt/renamed.txt
ENV GREETING="good day" HOME=/tmp
USER 1000:1000
EXPOSE 7000
CMD ["python", "-c", "import os; print(os.environ['GREETING'], open('/opt/made/word').read())"]
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> image.Built:
    """The image of the Dockerfile above, with one value given for ARG."""
    try:
        sandbox.check_possible()
    except ArgumentError as error:
        # Only Linux's root can change what the root of a process is: the steps of an image need it.
        pytest.skip(str(error))
    # A container often keeps its root from namespaces, without which no step stays apart; the image
    # is then tried by `make image-try` elsewhere.
    if subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"]).returncode != 0:
        pytest.skip("this machine lets not even root make namespaces")
    root = tmp_path_factory.mktemp("context")
    (root / "Dockerfile").write_text(DOCKERFILE)
    (root / ".dockerignore").write_text("secret\n")
    (root / "words/deep").mkdir(parents=True)
    for name in ("first.txt", "secret", "words/deep/last.txt"):
        (root / name).write_text(name)
    return image.build(root, {"WORD": "given"}, tmp_path_factory.mktemp("work"))


def output(built: image.Built, command: list[str]) -> tuple[int, str]:
    """Status and words of a program that runs as the image says."""
    started = built.sandbox.start(
        command, built.variables, user=built.user, read_only=True, stdout=subprocess.PIPE
    )
    said, _ = started.communicate(timeout=300)
    return started.returncode, said.decode()


def test_stages_files_and_variables_are_as_the_dockerfile_says(built: image.Built) -> None:
    assert output(built, built.command) == (0, "good day given\n")
    found = {path.name for path in built.sandbox.inside("/opt/made").rglob("*") if path.is_file()}
    assert found == {"first.txt", "last.txt", "word"}
    assert built.sandbox.inside("/opt/renamed.txt").read_text() == "first.txt"
    assert (built.ports, "PLACE" in built.variables, "WORD" in built.variables) == (
        [7000],
        False,
        False,
    )


def test_a_program_has_no_rights_and_writes_to_tmp_alone(built: image.Built) -> None:
    code = """
import os
for place in ("/opt/made/new", "/etc/passwd", "/usr/local/new", "/new", "/tmp/new"):
    try:
        open(place, "a").close()
    except OSError as error:
        print(place, error.strerror)
said = dict(line.split(":\\t") for line in open("/proc/self/status") if ":\\t" in line)
print(os.getuid(), os.getgid(), os.getgroups(), int(said["CapBnd"], 16), said["NoNewPrivs"].strip())
print(sorted(os.listdir("/tmp")), os.path.exists("/root/.bashrc"))
"""
    status, said = output(built, ["python", "-c", code])
    *refused, rights, seen = said.splitlines()
    assert status == 0
    assert [line.split()[0] for line in refused] == [
        "/opt/made/new",
        "/etc/passwd",
        "/usr/local/new",
        "/new",
    ]
    assert rights == "1000 1000 [] 0 1"
    assert seen == "['new'] False"
    assert not Path("/tmp/new").exists() and not built.sandbox.inside("/tmp/new").exists()


def test_a_step_that_fails_is_named_by_its_line(built: image.Built) -> None:
    run = image.Instruction(7, "RUN", {}, "exit 3")
    with pytest.raises(ArgumentError, match="Line 7 of the Dockerfile ended with status 3"):
        image._Builder(Path(), [], {})._run(built, run)
