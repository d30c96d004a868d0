"""The snippets of "Bring your own model" for other tools: what they hand over are our weights."""

import re
import runpy
from importlib.metadata import version
from pathlib import Path

import pytest
import transformers

import mha_viz as mv
from tests.making.comparing import close
from tests.test_docs import ROOT, blocks

PAGE = ROOT / "docs" / "models.md"
TOOLS = {
    "transformer_lens": "TransformerLens",
    "nnsight": "nnsight",
    "inseq": "Inseq",
    "captum": "Captum",
}


def snippet(title: str) -> tuple[str, str]:
    """The code under a heading, and the version that the page says it was run with."""
    (section,) = re.findall(rf"^### {title}\n(.*?)(?=^##)", PAGE.read_text("utf-8"), re.M | re.S)
    (code,) = re.findall(r"^```py\n(.*?)^```$", section, re.M | re.S)
    (tried,) = re.findall(rf"\({title} ([\d.]+)\)", section)
    return code, tried


def test_each_tool_has_a_snippet_that_is_python() -> None:
    for title in TOOLS.values():
        code, tried = snippet(title)
        compile(code, title, "exec")
        assert "mv.record(" in code and tried


@pytest.mark.extended
@pytest.mark.parametrize("package", TOOLS)
def test_the_weights_that_another_tool_hands_over_are_ours(package: str, tmp_path: Path) -> None:
    pytest.importorskip(package, reason=f"{package} is not installed")
    code, tried = snippet(TOOLS[package])
    (start,) = [block for block in blocks(PAGE, "py") if block.startswith("name = ")]
    shipped = str(ROOT / "models" / "tiny-gpt2")
    start, count = re.subn(r'"openai-community/gpt2"', repr(shipped), start)
    assert count == 1
    script = tmp_path / "snippet.py"  # nnsight reads the source of its block
    script.write_text(start + code, "utf-8")
    scope = runpy.run_path(str(script), {"mv": mv, "transformers": transformers})
    ours = mv.load("tiny-gpt2").trace(scope["text"])
    theirs, n = scope["theirs"], len(scope["theirs"].labels)
    assert n >= len(ours.labels) - 1  # Inseq has no row of the last token
    close(theirs.pattern, ours.pattern[..., :n, :n])
    assert theirs.labels == ours.labels[:n] and theirs.causal
    print(f"{package} {version(package)}, tried with {tried}")
