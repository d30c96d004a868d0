"""Write docs/metrics.md from the table of metrics in the code: `python -m docs.make_metrics`.

tests/test_docs.py fails when the written file and the table no longer agree.
"""

from pathlib import Path

import torch

from mha_viz.core.metrics import LABELS, METRICS, Label, Metric, head_table
from mha_viz.core.output_file import write_file

PATH = Path(__file__).with_name("metrics.md")

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

HEAD = """\
# The metrics

<!-- Written by docs/make_metrics.py from mha_viz/core/metrics. Change those, not this. -->

A metric is a number that describes a head, two heads, a layer, or the way through all layers. Most
are made from what happened on one text: another text gives other numbers. Where you meet them:

- in the app: on the card of the chosen head, as an order and a filter of the grid, and on the page
  "Compare";
- in a terminal: `mha-viz report` has those of every head, with baselines, labels and nearest twins;
- in Python: `mha_viz.head_report(record)` gives them for every head as a table, and
  `mha_viz.core.metrics` has each as a function of tensors. `mha_viz.METRICS` is the list that this
  page is made from.

The app measures all tokens as the model left them, whatever is merged or left out on screen.
`head_report` measures the record that it is given: that of `record.merge_words()` is about words.
What an attention weight says, and what it does not, is told in
[how-to.md](how-to.md#what-the-numbers-do-not-say).

## All of one head

The last two columns are a baseline: the score of a head that has learned nothing and attends to
everything alike, to all tokens ("uniform") or, where the future is hidden as in GPT-2, to those up
to its own ("causal"). They belong to one example, <PERIOD> tokens repeated once, the first and last
of which count as special; most baselines change with the length of the text. Read a head's number
by its distance from its baseline, not from 0. The last rows are about what a head writes; that
depends on the model, so they have no baseline here.

| Key | Unit | Range | Uniform | Uniform, causal |
|---|---|---|---|---|
<ROWS>

For the text at hand, the app and `head_report(record, model)` show three baselines beside a score:
uniform attention, a head that always looks at the token before ("offset"), and the same
architecture with random weights ("random"), which
`mha_viz.checkpoints.untrained_copy.untrained_copy` makes.

## Averaged over texts

A [study of a corpus](corpus.md) gives the mean over texts of each number above, every text counting
alike, however long. Three things change:

- A mean has an interval, which shrinks with more texts; the spread over texts does not.
- Texts on which a metric has no meaning are left out of it, so that metrics may be of different
  numbers of texts.
- A baseline is averaged over the same texts, too. Metrics that grow with the length of a text
  (entropy, distance) mix lengths: compare them with their baselines, and two corpora only where
  their texts are of like length.

The profile of weights by offset, position and kind of key is a mean over queries instead: there a
long text counts more.

## Labels

A head gets a label only where its score reaches a threshold and beats a baseline: it lies above
what uniform attention and the best head with random weights reach. A head may have several labels
or none. The thresholds are ours.

On few rows chance scores a good deal. For the labels whose threshold is a share of the weight, the
threshold is therefore raised to what heads that pick one key at random in each row reach in less
than 1 case of 200 (Hoeffding 1963, theorem 1; of repeated tokens, rows are different tokens). Where
even a score of 1 is not beyond that, the text is too short to tell, and the card and the notes of
`head_report` say so.

Rows that look at the same key, or at the same distance, are no independent draws: a random head
with large queries and keys may look at one token throughout, and in one of n cases that is the
first. So that such heads hold no label, the weights of all heads are moved to other keys: in
rotation r of 20, a query that may see m keys gives each weight to the key 1 + floor((r + 1/2)(m -
1) / 20) places further on among them, the last followed by the first. How many heads reach a score
after a rotation, on average, the pattern as it stands counted in, is how many are expected by
chance; a label is given from the score on at which those are at most 5 % of the heads that have it
(a false-discovery rate, estimated as by Tusher, Tibshirani and Chu 2001, with the count of Phipson
and Smyth 2010). Heads that reach a label which is a share of the weight are left out of this
count: where a model has many of them, they would withhold each other's labels. Of random networks
of 26 families with queries and keys 8 times as large, 5 of 9,792 heads hold a label. On four
sentences, a BERT of 12 layers and 12 heads made so has none among 2,304 heads, a GPT-2 has 6 of
2,304, and a Llama 39 of 4,608. Induction has a text of its own, and rotation hardly changes a broad
head: neither is tested so. A study tests its labels by their intervals over texts instead.

Three are different. "Broad" is what nearly every head is before it is trained: it is given only
where random weights are known and no head of theirs is broad. "Local" and "Long-range" are
multiples of the distance that uniform attention has, or that random head which is nearest to the
label, where that is harder; on texts so short that uniform attention looks less than 3 tokens away
they are left out.

| Label | Metric | Threshold | Meaning |
|---|---|---|---|
<LABELS>

## Pairs beyond chance

Of many pairs of heads some are alike by chance, and the nearest of many heads is always near. So
"Compare" tests each pair, and says how many pairs it found beside how many chance gives.

Chance is measured on heads that are as sharp and as large, but pick their tokens at random: each
row of a pattern gets its weights in random order among the keys that it sees; outputs get their
rows in random order, each head in an order of its own (for the redundancies, the columns). That is
repeated 20 times, or fewer times on long texts, but at least five. For a pair at distance $d_{ij}$,
of $N$ chance pairs at distances $d^*_{kl}$,

```math
p_{ij} = \\max\\left( \\frac{1 + \\#\\{d^*_{kl} \\le d_{ij}\\}}{1 + N},
\\frac{1 + \\#\\{d^*_{kl} - \\bar d_{kl} \\le d_{ij} - \\bar d_{ij}\\}}{1 + N} \\right)
```

where $\\bar d_{ij}$ is the mean of that pair over the text and all rounds. Broad heads are near
each other by chance, sharp ones far apart: so a pair has to be near among all pairs, and nearer
than its own mean.

A nearest twin is a minimum over many heads. Its p-value is the second of the two, for a sharp head
may have a twin that is farther away than broad heads are by chance. $d^*$ are minima, too: of each
permuted head the distance from the nearest other one.

In both cases let $p_{(1)}, \\dots, p_{(m)}$ be the $m$ p-values in ascending order. The findings
are those up to the largest $k$ with $p_{(k)} \\le 0.05\\,k / m$ (Benjamini and Hochberg 1995). At
most 5 % of findings are then false on average; where all heads are noise, about one text of 20 has
a finding. With fewer than 20 rounds the smallest possible $p$ is above $0.05 / m$: a lone pair
cannot be found then, several can.

Two heads that look at the same token from everywhere are alike beyond chance. Two heads that look
everywhere alike are not.

"Same attention, different output" are the pairs that are found by attention among those that
outputs do not call alike ($p > 0.05$); the other way round likewise.

The same architecture with random weights is a second baseline of outputs: the page says how many
of its pairs are found in the same way. It is no baseline of attention. Before training a head's
scores are nearly 0, so every row is nearly uniform, and all patterns are nearly the same. On "The
old dog slept while the young cat watched the old dog." the Hellinger distances of pairs in
`tiny-bert` lie from 0.03 to 0.05 before training and from 0.15 to 0.95 after it. The count of
trained pairs nearer than that would be 0, whatever the heads share.

## Differences beyond noise

Two heads never have the same score. `describe_difference` says that they differ in a metric only
where an exchange of their rows hardly ever gives as much (the permutation test of Fisher 1935). If
both heads draw their rows alike, it does not matter which row belongs to which head. So each
query's rows change places between the heads or stay, by the toss of a coin, 1,999 times. The
metric $f$ of both is computed anew from the sums of the exchanged rows; with $d = |f(b) - f(a)|$,
and $d^*$ after an exchange,

```math
p = \\frac{1 + \\#\\{d^* \\ge d\\}}{1 + 1999}
```

The noise beside a difference is what 95 % of the $d^*$ do not exceed. Findings are those of
Benjamini and Hochberg at 5 % over all metrics that are tested, as for pairs. Of a text longer than
64 tokens 64 blocks of consecutive rows are exchanged as a whole. Two texts have no rows in common:
there all rows of both are dealt out anew, and only metrics that are means over rows are tested.
Metrics of what heads write, and induction, are not tested.

With $n$ rows that have a choice of keys, no exchange is rarer than $2^{1 - n}$. Where that is above
0.05 over the number of metrics, the text is called too short to tell: ten metrics take nine rows.

The limits: neighbouring rows are taken as draws of their own, which rows that look at the same
key are not; and it is one text. A difference beyond its noise may be gone on the next text; a study
of a corpus has intervals over texts. Metrics that grow with length differ between texts of unequal
length whatever the head does: the table has what uniform attention gives on either.

Two other numbers stand beside each difference. `spreads` is $f(b) - f(a)$ over the standard
deviation of $f$ over all heads; `unusual` is the share of all pairs of heads that differ less, or,
for one head on two records, the share of heads that changed less. A head's most unusual metric is
the one in which it is furthest from the median of all heads, in median absolute deviations.

## Matched heads of two models

Head numbers agree by chance in models that were trained apart. `mha_viz.match_heads(records_a,
records_b)` and the section "Two models" of "Compare" match the heads by what they do on the same
texts: with $d_{ij}$ the distance of head $i$ of one model from head $j$ of the other, the match is

```math
\\pi = \\mathrm{argmin}_{\\sigma} \\sum_i d_{i \\sigma(i)}
```

over all ways to give each head $i$ of the smaller model a head $\\pi(i)$ of its own in the larger
one, in whatever layer (the assignment problem; Kuhn 1955). $d$ is the Hellinger distance of
attention over all rows of all texts, or 1 - CKA of outputs over the same tokens. Where tokens
differ, words are compared: those that both models read, whatever the case. What a row gives to any
other token counts as weight on one more key.

The best of so many matches is near by chance as well. So the second model's heads are made to pick
their tokens at random, as above, and the match is repeated: 20 times, which gives the mean distance
of a match by chance and the band of 95 %. For a head at distance $d_i$ from its counterpart, whose
counterparts by chance are at distances $d^*_{ir}$,

```math
p_i = \\frac{1 + \\#\\{d^*_{kr} - \\bar d_k \\le d_i - \\bar d_i\\}}{1 + N}
```

with $\\bar d_i$ the mean over the match and all rounds, and $N$ the number of $d^*$. Matches are
beyond chance at a false-discovery rate of 5 %, as above.

Two networks with random weights match at chance level by attention: two copies of `tiny-gpt2` with
different random weights, on eight sentences, at 0.037 with 0.037 by chance. By outputs they do not:
equal tokens have equal embeddings, which alone makes outputs alike (1 - CKA is 0.22 there, 0.99 by
chance, and 0.57 between `tiny-gpt2` and `tiny-llama`). Compare a match by outputs with that of
random weights, which the page shows beside it.

## One by one

$A_{qk}$ is the weight that query token $q$ (the one that looks) gives to key token $k$ (the one
looked at), and $A_q$ the row of all weights of $q$, which sums to 1. Where weight went to a sink
that a head has learned (gpt-oss), the row sums to less: entropies are then of the rest, scaled to
1, and [`sink`](#sink) is the share that went there. $n$ is the number of tokens;
positions count from 0. $H$ is the entropy. $m_q$ is how many tokens row $q$ may see by the mask of
its layer, a sliding window included. $t_k$ is the token at position $k$, and $R$ the positions that
may see their own token at another place (where the future is hidden, at an earlier one); special
tokens are none of them. $p$ is the number of tokens in one copy of a repeated text. Logarithms
are natural, so entropies are in nats.

$z_i$ is what head $i$ makes of the values, for each query a row of $d_{head}$ numbers; $\\bar z_i$
is the same with the mean row taken off. $U_i$ and $V_i$ have orthonormal columns, as many as the
rank $r$: they span what a matrix of weights reads or writes, and those of a product $A_i B_i^\\top$
what its columns and rows span. $h_i = z_i W_{O,i}$ is the head's part of the layer's
output, $A^i$ its pattern, and $n_h$ the number of heads of a layer. Where only one head is meant,
$i$ is left out. $\\bar A_\\ell$ is the mean pattern of the heads of layer $\\ell$.

<SECTIONS>
## Sources

<SOURCES>
"""

PERIOD = 8  # tokens in one copy of the text that the baselines are measured on


def render() -> str:
    """The whole page."""
    metrics = list(METRICS.values())
    said = [HEAD, *(metric.source for metric in metrics)]
    cited = sorted(key for key in REFERENCES if any(key in text for text in said))
    parts = {
        "PERIOD": str(PERIOD),
        "ROWS": "\n".join(_row(metric) for metric in metrics if metric.of == "head"),
        "LABELS": "\n".join(map(_label, LABELS.values())),
        "SECTIONS": "\n".join(_kind(kind, metrics) for kind in KINDS),
        "SOURCES": "\n".join(f"- {REFERENCES[key]}" for key in cited),
    }
    page = HEAD
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
