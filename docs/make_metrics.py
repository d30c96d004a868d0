"""Write docs/metrics.md from the table of metrics in the code: `python -m docs.make_metrics`.

tests/test_docs.py fails when the written file and the table no longer agree.
"""

from pathlib import Path

import torch

from mha_viz.core.metrics import LABELS, METRICS, Label, Metric, head_table
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

REFERENCES = {
    "Abnar and Zuidema 2020": "S. Abnar, W. Zuidema. *Quantifying Attention Flow in Transformers.* "
    "ACL 2020. [arXiv:2005.00928](https://arxiv.org/abs/2005.00928)",
    "Benjamini and Hochberg 1995": "Y. Benjamini, Y. Hochberg. *Controlling the False Discovery "
    "Rate: a Practical and Powerful Approach to Multiple Testing.* Journal of the Royal "
    "Statistical Society B 57(1), 289–300.",
    "Bjorck and Golub 1973": "Å. Björck, G. H. Golub. *Numerical Methods for Computing Angles "
    "Between Linear Subspaces.* Mathematics of Computation 27(123), 579–594.",
    "Clark et al. 2019": "K. Clark, U. Khandelwal, O. Levy, C. D. Manning. *What Does BERT Look "
    "At? An Analysis of BERT's Attention.* BlackboxNLP 2019. "
    "[arXiv:1906.04341](https://arxiv.org/abs/1906.04341)",
    "Cover and Thomas 2006": "T. M. Cover, J. A. Thomas. *Elements of Information Theory.* Second "
    "edition, Wiley.",
    "Elhage et al. 2021": "N. Elhage, N. Nanda, C. Olsson and others. *A Mathematical Framework "
    "for Transformer Circuits.* Transformer Circuits Thread.",
    "Hellinger 1909": "E. Hellinger. *Neue Begründung der Theorie quadratischer Formen von "
    "unendlichvielen Veränderlichen.* Journal für die reine und angewandte Mathematik 136, "
    "210–271.",
    "Hoeffding 1963": "W. Hoeffding. *Probability Inequalities for Sums of Bounded Random "
    "Variables.* Journal of the American Statistical Association 58(301), 13–30.",
    "Holtzman et al. 2020": "A. Holtzman, J. Buys, L. Du, M. Forbes, Y. Choi. *The Curious Case "
    "of Neural Text Degeneration.* ICLR 2020. "
    "[arXiv:1904.09751](https://arxiv.org/abs/1904.09751)",
    "Kobayashi et al. 2020": "G. Kobayashi, T. Kuribayashi, S. Yokoi, K. Inui. *Attention is Not "
    "Only a Weight: Analyzing Transformers with Vector Norms.* EMNLP 2020. "
    "[arXiv:2004.10102](https://arxiv.org/abs/2004.10102)",
    "Kornblith et al. 2019": "S. Kornblith, M. Norouzi, H. Lee, G. Hinton. *Similarity of Neural "
    "Network Representations Revisited.* ICML 2019. "
    "[arXiv:1905.00414](https://arxiv.org/abs/1905.00414)",
    "Kuhn 1955": "H. W. Kuhn. *The Hungarian Method for the Assignment Problem.* Naval Research "
    "Logistics Quarterly 2(1–2), 83–97.",
    "Li et al. 2018": "J. Li, Z. Tu, B. Yang, M. R. Lyu, T. Zhang. *Multi-Head Attention with "
    "Disagreement Regularization.* EMNLP 2018. "
    "[arXiv:1810.10183](https://arxiv.org/abs/1810.10183)",
    "Lin 1991": "J. Lin. *Divergence Measures Based on the Shannon Entropy.* IEEE Transactions on "
    "Information Theory 37(1), 145–151.",
    "Murphy et al. 2024": "A. Murphy, J. Zylberberg, A. Fyshe. *Correcting Biased Centered Kernel "
    "Alignment Measures in Biological and Artificial Neural Networks.* "
    "[arXiv:2405.01012](https://arxiv.org/abs/2405.01012)",
    "Nguyen et al. 2021": "T. Nguyen, M. Raghu, S. Kornblith. *Do Wide and Deep Networks Learn the "
    "Same Things? Uncovering How Neural Network Representations Vary with Width and Depth.* ICLR "
    "2021. [arXiv:2010.15327](https://arxiv.org/abs/2010.15327)",
    "Olsson et al. 2022": "C. Olsson, N. Elhage, N. Nanda and others. *In-context Learning and "
    "Induction Heads.* Transformer Circuits Thread. "
    "[arXiv:2209.11895](https://arxiv.org/abs/2209.11895)",
    "OpenAI 2025": "OpenAI. *gpt-oss-120b & gpt-oss-20b Model Card.* 2025. "
    "[arXiv:2508.10925](https://arxiv.org/abs/2508.10925)",
    "Roy and Vetterli 2007": "O. Roy, M. Vetterli. *The Effective Rank: A Measure of Effective "
    "Dimensionality.* EUSIPCO 2007.",
    "Shannon 1948": "C. E. Shannon. *A Mathematical Theory of Communication.* Bell System "
    "Technical Journal 27, 379–423 and 623–656.",
    "Song et al. 2012": "L. Song, A. Smola, A. Gretton, J. Bedo, K. Borgwardt. *Feature Selection "
    "via Dependence Maximization.* Journal of Machine Learning Research 13, 1393–1434.",
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

PERIOD = 8  # tokens in one copy of the text that the baselines are measured on


def render() -> str:
    """The whole page."""
    metrics, page = list(METRICS.values()), TEXT.read_text("utf-8")
    said = [page, *(metric.source for metric in metrics)]
    cited = sorted(key for key in REFERENCES if any(key in text for text in said))
    parts = {
        "PERIOD": str(PERIOD),
        "ROWS": "\n".join(_row(metric) for metric in metrics if metric.of == "head"),
        "LABELS": "\n".join(map(_label, LABELS.values())),
        "SECTIONS": "\n".join(_kind(kind, metrics) for kind in KINDS),
        "SOURCES": "\n".join(f"- {REFERENCES[key]}" for key in cited),
    }
    for name, text in parts.items():
        page = page.replace(f"<{name}>", text)
    return page


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
    table = head_table(pattern, ids=ids, is_special=special, causal=causal, period=PERIOD)
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
