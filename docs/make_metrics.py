"""Write docs/metrics.md from the table of metrics in the code: `python -m docs.make_metrics`.

tests/test_docs.py fails when the written file and the table no longer agree.
"""

import tomllib
from pathlib import Path

import torch

from mha_viz.core.metrics import LABELS, METRICS, Label, Metric, TokenFacts, head_table, table
from mha_viz.core.output_file import write_file

PATH = Path(__file__).with_name("metrics.md")
TEXT = Path(__file__).with_name("metrics_text.txt")  # with <PLACES> for what the table gives

# What a metric asks of a text before it means something; "causal", "allowed" and "rows" ask for
# nothing.
NEEDS = {
    "self": "self-attention",
    "neighbours": "self-attention on two tokens or more",
    "special": "to be told which tokens are special",
    "ids": "a token that occurs twice",
    "repeats": "a token that occurs again where it may be seen",
    "period": "a text that is repeated once",
    "sink": "a model whose heads have learned a sink",
    "outputs": "what heads write (z and W_O)",
}

KINDS = {  # what has such a number -> heading, and a sentence below it
    "head": ("Of one head", "From its weights, or from what it writes into the residual stream."),
    "pair": (
        "Between two heads, on a text",
        "`mha_viz.head_similarity(record, key)` gives them for all heads of all layers at once.",
    ),
    "parameters": (
        "Between two heads, by their weights",
        '`mha_viz.parameter_similarity(model, "W_Q")`; they do not depend on a text.',
    ),
    "layer": ("Of a layer", "What its heads do together, beside what each does alone."),
    "flow": ("Attention rollout", "How much of an input token reaches another through the model."),
}

PERIOD = 8  # tokens in one copy of the text that the baselines are measured on


def render() -> str:
    """The whole page."""
    metrics, page = list(METRICS.values()), TEXT.read_text("utf-8")
    said = [page, *(metric.source for metric in metrics)]
    papers = references()
    cited = sorted(key for key in papers if any(key in text for text in said))
    parts = {
        "PERIOD": str(PERIOD),
        "ROWS": "\n".join(_row(metric) for metric in metrics if metric.of == "head"),
        "LABELS": "\n".join(map(_label, LABELS.values())),
        "SECTIONS": "\n".join(_kind(kind, metrics) for kind in KINDS),
        "SOURCES": "\n".join(f"- {papers[key]}" for key in cited),
    }
    for name, text in parts.items():
        page = page.replace(f"<{name}>", text)
    return page


def references() -> dict[str, str]:
    """The papers in full, by what a metric's source calls them."""
    path = Path(table.__file__).with_name("metrics.toml")
    papers: dict[str, str] = tomllib.loads(path.read_text("utf-8"))["references"]
    return papers


def _row(metric: Metric) -> str:
    low, high = metric.limits
    span = f"from {low:g}" if high is None else f"{low:g} to {high:g}"
    # Rounded twice: a last bit that differs between machines must not turn 0.9375 into 0.937.
    values = [
        f"{round(found[metric.key], 6):.3g}" if metric.key in found else "–"
        for found in map(baseline, (False, True))
    ]
    name = f"[`{metric.key}`](#{metric.key})"
    return f"| {' | '.join([name, metric.unit or '–', span, *values])} |"


def baseline(causal: bool) -> dict[str, float]:
    """Every metric of a head that spreads its weight evenly over the tokens it may see."""
    n = 2 * PERIOD
    sees = torch.ones(n, n, dtype=torch.float64)
    sees = sees.tril() if causal else sees
    pattern = (sees / sees.sum(-1, keepdim=True))[None, None]
    ids = torch.arange(PERIOD).repeat(2)
    special = torch.arange(n) % (n - 1) == 0
    table = head_table(pattern, TokenFacts(ids, special, causal, period=PERIOD))
    return {key: float(values) for key, values in table.items()}


def _label(label: Label) -> str:
    sign = "at least" if label.at_least else "at most"
    times = " × uniform attention’s" if label.relative else ""
    metric = f"[`{label.metric}`](#{label.metric})"
    return f"| {label.title} | {metric} | {sign} {label.threshold:g}{times} | {label.meaning} |"


def _kind(kind: str, metrics: list[Metric]) -> str:
    title, about = KINDS[kind]
    sections = "\n".join(_section(metric) for metric in metrics if metric.of == kind)
    return f"### {title}\n\n{about}\n\n{sections}"


def _section(metric: Metric) -> str:
    needs = [text for need, text in NEEDS.items() if need in metric.needs]
    asks = f" It needs {' and '.join(needs)}, and is left out elsewhere." if needs else ""
    name = f"{metric.function.__module__}.{metric.function.__name__}"
    unit = f"{metric.unit}; " if metric.unit else ""
    return f"""\
#### {metric.key}

**{metric.title}** ({unit}{metric.direction}). {metric.meaning}{asks}

```math
{metric.formula}
```

Source: {metric.source}. In code: `{name}`.
"""


if __name__ == "__main__":
    write_file(PATH, render().encode())
    print(f"wrote {PATH}")
