"""Lab 8: operations, memory and key-value caches of attention, calculated."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from mha_viz.core.amounts import format_share, of_bytes, short
from mha_viz.core.reprs import count
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError, AttentionUnavailableError, NotKeptError, ShapeError
from mha_viz.learn.activations import MATRICES
from mha_viz.learn.frame.contents import read_records

# Twice the longest text that the page takes: it is compared with one twice as long.
MAX_SIZES = dict(n=20_000_000, d_model=1_000_000, n_heads=100_000, n_kv_heads=100_000)
MAX_SIZES |= dict(n_layers=10_000, bytes_each=8, n_read=20_000_000, batch=1_000_000)
LENGTHS = tuple(2**i for i in range(6, 18))  # 64 to 131,072 tokens


@dataclass(frozen=True)
class Sizes:
    """Sizes that the cost of attention depends on.

    Args:
        n: tokens. d_model: width of a token. n_heads: query heads, a divisor of d_model.
        n_kv_heads: key and value heads, a divisor of n_heads; 1 is multi-query attention.
        n_layers: layers. bytes_each: bytes of a number (4: float32, 2: float16, bfloat16).
        n_read: tokens that keys and values come from, in cross attention another text's.
        batch: texts of that length that run at once.

    Raises:
        ArgumentError: a size below 1 or absurdly large. ShapeError: heads that do not divide.

    >>> Sizes(n=128, d_model=768, n_heads=12).d_head
    64
    """

    n: int
    d_model: int
    n_heads: int
    n_kv_heads: int = 0  # 0: as many as n_heads
    n_layers: int = 1
    bytes_each: int = 4
    n_read: int = 0  # 0: as many as n
    batch: int = 1

    def __post_init__(self) -> None:
        if self.n_kv_heads == 0:
            object.__setattr__(self, "n_kv_heads", self.n_heads)
        if self.n_read == 0:
            object.__setattr__(self, "n_read", self.n)
        for name, most in MAX_SIZES.items():
            if not 1 <= getattr(self, name) <= most:
                raise ArgumentError(f"{name} must lie in 1..{most:,}, got {getattr(self, name):,}.")
        if self.d_model % self.n_heads:
            fitting = count(_nearest(self.d_model, self.n_heads), "head")
            raise ShapeError(
                f"{count(self.n_heads, 'head')} do not divide d_model = {self.d_model}: each needs "
                f"the same width. Take {fitting}."
            )
        if self.n_heads % self.n_kv_heads:
            fitting = count(_nearest(self.n_heads, self.n_kv_heads), "key head")
            raise ShapeError(
                f"{count(self.n_heads, 'query head')} cannot share {self.n_kv_heads} key heads "
                f"evenly. Take {fitting}."
            )

    @property
    def d_head(self) -> int:
        """Width of a head: d_model / n_heads."""
        return self.d_model // self.n_heads


def divisors(number: int, most: int = MAX_SIZES["d_model"]) -> list[int]:
    """List the divisors of `number` that are at most `most`.

    >>> divisors(12, 4)
    [1, 2, 3, 4]
    """
    return [i for i in range(1, min(number, most) + 1) if number % i == 0]


def _nearest(number: int, near: int) -> int:
    """Return the divisor of `number` that is nearest to `near`."""
    return min(divisors(number), key=lambda i: (abs(i - near), i))


class Costs(NamedTuple):
    """Costs of `Sizes`. Operations are products of two numbers that are added (2 FLOP each).

    Args:
        projections: of one layer, W_Q, W_K, W_V and W_O on n tokens.
        scores, mixing: of one layer, Q K^T and weights times V.
        head: of one head, its share of what is above; layer: of all heads; total: of all layers.
        parameters: of the four matrices in all layers, biases left out.
        pattern: bytes of all attention weights where they are kept. row_sums: bytes of what a
            fused kernel keeps instead, one float32 for each row of them. activations: bytes of Q,
            K, V and z of all layers. cache: bytes of the keys and values in all layers.
    """

    projections: int
    scores: int
    mixing: int
    head: float
    layer: int
    total: int
    parameters: int
    pattern: int
    row_sums: int
    activations: int
    cache: int

    @property
    def pairs(self) -> int:
        """Operations on pairs of tokens in one layer: Q K^T, and weights times V."""
        return self.scores + self.mixing

    def times(self, factor: float) -> "Costs":
        """Return all of it so many times."""
        return Costs(*(part * factor for part in self))  # type: ignore[arg-type]


def textbook_memory(sizes: Sizes) -> int:
    """Count the numbers that M_total = h (3 n d_k + m d_k + n m) states for one layer.

    It gives three of the matrices Q, K, V and z n rows, and one m. `costs` gives Q and z n rows, K
    and V m; without shared key heads both are the same where m = n.

    >>> textbook_memory(Sizes(n=3, d_model=10, n_heads=2, n_read=7))
    202
    """
    n, m = sizes.batch * sizes.n, sizes.batch * sizes.n_read
    return sizes.n_heads * (3 * n * sizes.d_head + m * sizes.d_head + n * sizes.n_read)


def costs(sizes: Sizes) -> Costs:
    """Count operations, parameters and bytes; softmax, masks and biases are left out.

    With d = d_model and d_k = d / h, and without shared key heads: C_head = 2 n^2 d_k + 4 n d d_k,
    which is O(n^2 d_k + n d d_k), and C_layer = h C_head = 2 n^2 d + 4 n d^2, whatever h is. Where
    keys come from m other tokens, n m pairs take the place of n^2; a batch multiplies all but the
    parameters.

    Source: Vaswani et al. 2017, section 3.2.2 and table 1; shared keys Shazeer 2019; what a fused
    kernel keeps Dao et al. 2022.

    >>> few, many = (costs(Sizes(n=128, d_model=768, n_heads=h)) for h in (1, 12))
    >>> few.layer == many.layer == 2 * 128**2 * 768 + 4 * 128 * 768**2
    True
    """
    d, width = sizes.d_model, sizes.d_head
    n, read = sizes.batch * sizes.n, sizes.batch * sizes.n_read  # tokens of all texts
    q_and_o, k_and_v = 2 * sizes.n_heads, 2 * sizes.n_kv_heads  # in heads
    activations = width * (n * q_and_o + read * k_and_v)
    projections, rows = d * activations, sizes.n_heads * n
    products = rows * sizes.n_read * width
    layer = projections + 2 * products
    each = sizes.n_layers * sizes.bytes_each
    return Costs(
        projections=projections,
        scores=products,
        mixing=products,
        head=layer / sizes.n_heads,
        layer=layer,
        total=sizes.n_layers * layer,
        parameters=sizes.n_layers * d * width * (q_and_o + k_and_v),
        pattern=each * rows * sizes.n_read,
        row_sums=sizes.n_layers * 4 * rows,
        activations=each * activations,
        cache=each * read * k_and_v * width,
    )


def even_length(sizes: Sizes) -> int:
    """Return the n at which projections cost as much as the pairs of tokens of one text.

    4 n d^2 = 2 n^2 d; fewer key heads make the projections cheaper.

    >>> even_length(Sizes(n=1, d_model=768, n_heads=12))
    1536
    """
    return sizes.d_model + sizes.d_head * sizes.n_kv_heads


def by_length(sizes: Sizes, lengths: Iterable[int] = LENGTHS) -> pd.DataFrame:
    """Return the costs of self-attention, a row for each length of the text.

    Columns are n, those of `Costs`, and its `pairs`.

    >>> by_length(Sizes(1, 8, 2), [4, 8]).pairs.tolist()
    [256, 1024]
    """
    return _counted("n", {n: replace(sizes, n=n, n_read=n) for n in lengths})


def by_heads(sizes: Sizes, most: int = 64) -> pd.DataFrame:
    """Return the costs of one d_model in any number of heads that divides it, up to `most`.

    Columns are heads, those of `Costs`, d_k, and `operations` and `weights`: products of a layer
    and bytes of the pattern, each over that of one head.

    >>> by_heads(Sizes(5, 12, 1)).weights.tolist()
    [1.0, 2.0, 3.0, 4.0, 6.0, 12.0]
    """
    heads = divisors(sizes.d_model, most)
    table = _counted("heads", {h: replace(sizes, n_heads=h, n_kv_heads=0) for h in heads})
    first = table.iloc[0]
    operations, weights = table.layer / first.layer, table.pattern / first.pattern
    d_k = sizes.d_model // table.heads
    return table.assign(operations=operations, weights=weights, d_k=d_k)


def _counted(name: str, sizes: Mapping[int, Sizes]) -> pd.DataFrame:
    """Return a row of costs for each size; a count that is too large for 64 bits is a float."""
    counted = {number: costs(size) for number, size in sizes.items()}
    rows = [{name: n, **cost._asdict(), "pairs": cost.pairs} for n, cost in counted.items()]
    table = pd.DataFrame(rows)
    return table.astype(dict.fromkeys(table.select_dtypes(object), float))


# -- published models ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Published:
    """A model's published sizes, from which everything else is computed.

    Args:
        kind: "bert" (token types, a norm behind the embeddings, a pooler) or "gpt2" (a norm at the
            end). d_ff: width of the MLP. n_ctx: learned positions. source: who published them
            (GPT-3: in table 2.1).
    """

    name: str
    kind: str
    n_layers: int
    d_model: int
    n_heads: int
    d_ff: int
    d_vocab: int
    n_ctx: int
    source: str

    @property
    def attention(self) -> int:
        """Parameters of all W_Q, W_K, W_V, W_O and their biases."""
        return self.n_layers * 4 * (self.d_model**2 + self.d_model)

    @property
    def parameters(self) -> int:
        """All parameters: embeddings, attention, MLPs, norms, and BERT's pooler.

        The prediction head shares the token embedding and is not counted again.
        """
        d = self.d_model
        embedding = (self.d_vocab + self.n_ctx) * d
        mlp, norms = 2 * d * self.d_ff + self.d_ff + d, 4 * d
        # BERT: two token types, the norm behind the embeddings, the pooler; GPT-2: the last norm
        ends = 2 * d + 2 * d + d**2 + d if self.kind == "bert" else 2 * d
        return embedding + self.attention + self.n_layers * (mlp + norms) + ends


PUBLISHED = read_records(Published, Path(__file__).with_name("published.toml"), "model")
_COLUMNS = ["name", "n_layers", "d_model", "n_heads", "n_kv_heads", "attention", "parameters"]


def rows(n: int, bytes_each: int, model: AttentionModel | None = None) -> pd.DataFrame:
    """Return a row for each published model, and for the loaded one by its own weights.

    Columns are sizes as in `Sizes`, parameters of attention (None where the family's matrices are
    not known) and in all, bytes of the weights and of the key-value cache at n tokens, and source.

    >>> rows(512, 2)["name"][0]
    'BERT-Base'
    """
    models: list[tuple[object, ...]] = [
        (p.name, p.n_layers, p.d_model, p.n_heads, p.n_heads, p.attention, p.parameters)
        for p in PUBLISHED
    ]
    sources = [published.source for published in PUBLISHED]
    if model is not None:
        n_layers, attention, parameters = _counts(model)
        sizes = n_layers, model.d_model, model.n_heads, model.n_kv_heads
        models.append((model.name, *sizes, attention, parameters))
        sources.append("this checkpoint")
    table = pd.DataFrame(models, columns=_COLUMNS, dtype=object)  # integers beside None
    d_head = table.d_model // table.n_heads
    if model is not None:
        d_head.iloc[-1] = model.d_head  # T5's heads have a width of their own
    table.insert(4, "d_head", d_head)
    cache = table.n_layers * 2 * n * table.pop("n_kv_heads") * d_head * bytes_each
    pattern = table.n_layers * table.n_heads * n**2 * bytes_each
    return table.assign(pattern=pattern, cache=cache, source=sources).infer_objects()


def written(table: pd.DataFrame, undefined: str) -> pd.DataFrame:
    """Write the amounts of `rows` for people, parameters of attention with their share of all."""
    attention = [
        undefined if part is None else f"{short(part)} ({format_share(part / total)})"
        for part, total in zip(table.attention, table.parameters, strict=True)
    ]
    ways = {"parameters": short, "pattern": of_bytes, "cache": of_bytes}
    return table.assign(attention=attention, **table.transform(ways))


def _counts(model: AttentionModel) -> tuple[int, int | None, int]:
    """Count layers, parameters of attention, and all parameters of every stack of a model."""
    try:
        layers = [
            model.attention_weights(layer, part)
            for part in model.parts
            for layer in range(len(model.layers(part)))
        ]
    except (AttentionUnavailableError, NotKeptError):
        layers = []
    # Where layers share their weights (ALBERT), those are counted once.
    distinct = {weights.W_O.data_ptr(): weights for weights in layers}.values()
    matrices = [getattr(weights, name) for weights in distinct for name in MATRICES]
    attention = sum(part.numel() for part in matrices if part is not None) if layers else None
    parameters = sum(part.numel() for part in model.network.parameters())
    return len(layers) or model.n_layers, attention, parameters
