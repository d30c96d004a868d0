"""Write docs/metrics.md from the table of metrics in the code: `python -m docs.make_metrics`.

tests/test_docs.py fails when the written file and the table no longer agree.
"""

from pathlib import Path

import torch

from mha_viz.core.metrics import METRICS, Metric, head_table

PATH = Path(__file__).with_name("metrics.md")

# What a metric asks of a text before it means something; "causal" and "rows" ask for nothing.
NEEDS = {
    "self": "self-attention",
    "neighbours": "self-attention on two tokens or more",
    "special": "to be told which tokens are special",
    "ids": "a token that occurs twice",
    "period": "a text said twice",
}

REFERENCES = {
    "Clark et al. 2019": "K. Clark, U. Khandelwal, O. Levy, C. D. Manning. *What Does BERT Look "
    "At? An Analysis of BERT's Attention.* BlackboxNLP 2019. "
    "[arXiv:1906.04341](https://arxiv.org/abs/1906.04341)",
    "Holtzman et al. 2020": "A. Holtzman, J. Buys, L. Du, M. Forbes, Y. Choi. *The Curious Case "
    "of Neural Text Degeneration.* ICLR 2020. "
    "[arXiv:1904.09751](https://arxiv.org/abs/1904.09751)",
    "Lin 1991": "J. Lin. *Divergence Measures Based on the Shannon Entropy.* IEEE Transactions on "
    "Information Theory 37(1), 145–151.",
    "Olsson et al. 2022": "C. Olsson, N. Elhage, N. Nanda and others. *In-context Learning and "
    "Induction Heads.* Transformer Circuits Thread. "
    "[arXiv:2209.11895](https://arxiv.org/abs/2209.11895)",
    "Shannon 1948": "C. E. Shannon. *A Mathematical Theory of Communication.* Bell System "
    "Technical Journal 27, 379–423 and 623–656.",
    "Vig and Belinkov 2019": "J. Vig, Y. Belinkov. *Analyzing the Structure of Attention in a "
    "Transformer Language Model.* BlackboxNLP 2019. "
    "[arXiv:1906.04284](https://arxiv.org/abs/1906.04284)",
    "Voita et al. 2019": "E. Voita, D. Talbot, F. Moiseev, R. Sennrich, I. Titov. *Analyzing "
    "Multi-Head Self-Attention: Specialized Heads Do the Heavy Lifting, the Rest Can Be Pruned.* "
    "ACL 2019. [arXiv:1905.09418](https://arxiv.org/abs/1905.09418)",
    "Wang et al. 2022": "K. Wang, A. Variengien, A. Conmy, B. Shlegeris, J. Steinhardt. "
    "*Interpretability in the Wild: a Circuit for Indirect Object Identification in GPT-2 small.* "
    "[arXiv:2211.00593](https://arxiv.org/abs/2211.00593)",
    "Xiao et al. 2024": "G. Xiao, Y. Tian, B. Chen, S. Han, M. Lewis. *Efficient Streaming "
    "Language Models with Attention Sinks.* ICLR 2024. "
    "[arXiv:2309.17453](https://arxiv.org/abs/2309.17453)",
}

HEAD = """\
# The metrics of a head

<!-- Written by docs/make_metrics.py from mha_viz/core/metrics. Change those, not this. -->

A metric turns the attention weights of one head on one text into one number. Where you meet them:

- in the app: beside the chosen head, in the table of all heads, and as an order for the grid;
- `mha-viz trace` names the strongest head by each metric that is a share of the weight;
- in Python: `mha_viz.METRICS[key].function(record.pattern)` gives a tensor `(layer, head)`, and
  `mha_viz.core.metrics.head_table(record.pattern)` all that apply.

The app measures a record as the model left it, before sub-words are merged or tokens left out. A
metric describes one text: another text gives another number. What an attention weight says and
what it does not is told in [how-to.md](how-to.md#what-the-numbers-do-not-say).

## All of them

The last two columns are a baseline: a head that looks at all tokens it may see alike, without and
with the future hidden, on a text of <PERIOD> tokens said twice whose first and last token count as
special. Read a head's number by its distance from its baseline, not from 0; most baselines change
with the length of the text.

| Key | Unit | Range | Uniform | Uniform, causal |
|---|---|---|---|---|
<ROWS>

## One by one

$A_{qk}$ is the weight that query token $q$ gives to key token $k$, and $A_q$ the row of all weights
of $q$, which sums to 1. $n$ is the number of tokens; positions count from 0. $H$ is the entropy.
$m_q$ is how many tokens row $q$ may see. $t_k$ is the token at position $k$, and $R$ the positions
whose token occurs more than once. $p$ is the number of tokens in one copy of a text said twice.
Logarithms are natural, so entropies are in nats.

<SECTIONS>
## Sources

<SOURCES>
"""

PERIOD = 8  # tokens in one copy of the text that the baselines are measured on


def render() -> str:
    """The whole page."""
    metrics = list(METRICS.values())
    cited = sorted(key for key in REFERENCES if any(key in metric.source for metric in metrics))
    parts = {
        "PERIOD": str(PERIOD),
        "ROWS": "\n".join(map(_row, metrics)),
        "SECTIONS": "\n".join(map(_section, metrics)),
        "SOURCES": "\n".join(f"- {REFERENCES[key]}" for key in cited),
    }
    page = HEAD
    for name, text in parts.items():
        page = page.replace(f"<{name}>", text)
    return page


def _row(metric: Metric) -> str:
    low, high = metric.range
    span = f"from {low:g}" if high is None else f"{low:g} to {high:g}"
    # Rounded twice: a last bit that differs between machines must not turn 0.9375 into 0.937.
    values = [f"{round(baseline(causal)[metric.key], 6):.3g}" for causal in (False, True)]
    return f"| [`{metric.key}`](#{metric.key}) | {metric.unit} | {span} | {' | '.join(values)} |"


def baseline(causal: bool) -> dict[str, float]:
    """Every metric of a head that spreads its weight evenly over the tokens it may see."""
    n = 2 * PERIOD
    sees = torch.ones(n, n, dtype=torch.float64)
    sees = sees.tril() if causal else sees
    pattern = (sees / sees.sum(-1, keepdim=True))[None, None]
    ids = torch.arange(PERIOD).repeat(2)
    special = torch.arange(n) % (n - 1) == 0
    table = head_table(pattern, ids=ids, is_special=special, causal=causal, period=PERIOD)
    return {key: float(values) for key, values in table.items()}


def _section(metric: Metric) -> str:
    needs = [text for need, text in NEEDS.items() if need in metric.needs]
    asks = f" It needs {' and '.join(needs)}, and is left out elsewhere." if needs else ""
    name = f"{metric.function.__module__}.{metric.function.__name__}"
    return f"""\
### {metric.key}

**{metric.title}** ({metric.unit}; {metric.direction}). {metric.meaning}{asks}

```math
{metric.formula}
```

Source: {metric.source}. In code: `{name}`.
"""


if __name__ == "__main__":
    PATH.write_text(render(), encoding="utf-8")
    print(f"wrote {PATH}")
