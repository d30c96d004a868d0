"""The files of the live page: shipped models as ONNX, and the scripts that run them in a browser.

The scripts come from npm (package.json). Where that has not run, the site has no live page.
"""

import copy
import gzip
import io
import re
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import torch
from jaxtyping import Float, Int
from onnx import helper, numpy_helper
from torch import Tensor, nn

import mha_viz as mv
from mha_viz.engine.probe import Probe
from mha_viz.web.browser import script, style
from mha_viz.web.standalone import variables

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "docs" / "in_browser"
NPM = ROOT / "node_modules"
MODELS = ("tiny-bert", "tiny-gpt2")
PLACE = "<!-- live -->"  # in live.md and index.md: on a forge there is no live page
LINK = (
    "**[Try it in the browser](live.md)**: type a sentence and see all heads, without installing.\n"
)
MISSING = "*This copy of the site was built without npm, and so without the workbench.*"
WASM = NPM / "onnxruntime-web" / "dist" / "ort-wasm-simd-threaded.wasm"
LIBRARIES = {
    "onnxruntime.mjs": NPM / "onnxruntime-web" / "dist" / "ort.wasm.bundle.min.mjs",
    "tokenizers.mjs": NPM / "@huggingface" / "tokenizers" / "dist" / "tokenizers.min.mjs",
}
_COMPONENTS = re.compile(r'^import [^;]* from "[./]*/mha_viz/[^"]*";\n', re.MULTILINE)


def is_built() -> bool:
    """Return whether npm has brought what the live page needs."""
    return all(path.is_file() for path in (WASM, *LIBRARIES.values()))


def page_html() -> str:
    """Return the workbench's place in the live page, or a sentence that says why there is none."""
    if not is_built():
        return MISSING
    light, dark = variables(False), variables(True)
    look = f".live {{ {light} }} [data-md-color-scheme=slate] .live {{ {dark} }}"
    return f"<style>{look}</style>\n{(SOURCES / 'live.html').read_text('utf-8')}"


@cache
def site_files() -> dict[str, bytes]:
    """Return the content of each file; made once, however often `mkdocs serve` builds."""
    if not is_built():
        return {}
    files = {name: path.read_bytes() for name, path in LIBRARIES.items()}
    # No ending by which a host would unpack it.
    files["onnxruntime.bin"] = gzip.compress(WASM.read_bytes(), 9, mtime=0)
    files["workbench.css"] = style("workbench").encode()
    files["text_tokens.js"] = (SOURCES / "text_tokens.js").read_bytes()
    files["live_page.js"] = _page_script().encode()
    for name in MODELS:
        files[f"{name}.onnx"] = onnx_file(name)
        for file in ("tokenizer.json", "tokenizer_config.json"):
            files[f"{name}/{file}"] = (ROOT / "models" / name / file).read_bytes()
    return {f"live/{name}": content for name, content in files.items()}


def _page_script() -> str:
    """Return the page's module behind the workbench's, which it imports from."""
    page = _COMPONENTS.sub("", (SOURCES / "live_page.js").read_text("utf-8"))
    return "\n".join([script("workbench").replace("export default ", ""), page])


class PatternNetwork(nn.Module):
    """A network that gives the attention weights of one text, computed by our own function."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(
        self, input_ids: Int[Tensor, "1 token"], *types: Int[Tensor, "1 token"]
    ) -> Float[Tensor, "layer head query key"]:
        """Return the weights of all layers; `types` are the segments that its tokens belong to."""
        probe, mask = Probe(), torch.ones_like(input_ids)
        named = dict(zip(["token_type_ids"], types, strict=False))
        self.network(input_ids, attention_mask=mask, mha_probe=probe, **named)
        return torch.stack(list(probe.tensors["pattern"]))[:, 0]


def onnx_file(name: str) -> bytes:
    """Return a shipped model as ONNX, from the ids of a text to its attention weights."""
    model = mv.load(name)
    # Where gradients are taken, attention writes into no tensor that it was given: the exporter
    # could not follow that.
    network = copy.deepcopy(model.network.base_model).requires_grad_(True)
    inputs = ["input_ids", "token_type_ids"][: 1 + model.accepts_pair]
    ids = torch.arange(7)[None]
    lengths = {"pattern": {2: "token", 3: "token"}} | {key: {1: "token"} for key in inputs}
    file = io.BytesIO()
    with warnings.catch_warnings(action="ignore"):
        torch.onnx.export(
            PatternNetwork(network), (ids, torch.zeros_like(ids))[: len(inputs)], file,
            dynamo=False, opset_version=17, dynamic_axes=lengths,
            input_names=inputs, output_names=["pattern"],
        )  # fmt: skip
    return _halved(onnx.load_from_string(file.getvalue())).SerializeToString()


def _halved(model: onnx.ModelProto) -> onnx.ModelProto:
    """Store weights as float16, as the checkpoint does, and cast them to float32 at the start."""
    for weight in model.graph.initializer:
        values = numpy_helper.to_array(weight)
        half = values.astype(np.float16)
        if values.dtype != np.float32 or not np.array_equal(half.astype(np.float32), values):
            continue
        stored = f"{weight.name} float16"
        cast = helper.make_node("Cast", [stored], [weight.name], to=onnx.TensorProto.FLOAT)
        model.graph.node.insert(0, cast)
        weight.CopyFrom(numpy_helper.from_array(half, stored))
    return model
