"""Tables for a paper or a page: LaTeX with booktabs and siunitx, and Markdown."""

import math
import re
from typing import Any, cast

import numpy as np
import pandas as pd

from mha_viz.web.labels import drawable

_MARKUP = re.compile(r"[\\`*_{}\[\]()<>#|~$&:@!]|(?<=www)\.")  # GitHub links addresses, too
_TEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
)


def table_latex(table: pd.DataFrame, caption: str) -> str:
    r"""Return a table in LaTeX: rules by booktabs, numbers aligned by siunitx.

    Numbers have three decimals, or two significant digits where that would leave none.

    >>> table = pd.DataFrame({"head": ["L0 H3"], "p_q": [2e-7], "n": [97]})
    >>> print(table_latex(table, "50 % of\nthem").split("{lSS}")[1].split("\\end")[0])
    <BLANKLINE>
    \toprule
    {head} & {p\_q} & {n} \\
    \midrule
    L0 H3 & 2.0e-07 & 97 \\
    \bottomrule
    <BLANKLINE>
    """
    written = table.reset_index(drop=isinstance(table.index, pd.RangeIndex))
    names = [_tex(name) for name in written]
    written.columns = pd.RangeIndex(len(names))  # two columns may have the same name
    styled = written.map(_cell).style.hide(axis="index").format(_decimals, na_rep="{--}")
    tabular = styled.format_index(lambda i: names[cast(int, i)], axis="columns").to_latex(
        hrules=True, siunitx=True, caption=_tex(caption), position="t"
    )
    return f"% \\usepackage{{booktabs, siunitx}}\n{tabular}"


def table_markdown(table: pd.DataFrame, caption: str = "") -> str:
    r"""Return a table in GitHub's Markdown, below its caption; texts are shown as they are.

    >>> print(table_markdown(pd.DataFrame({"token": ["a|b"], "weight": [0.51234]})))
    | token | weight |
    | :-- | --: |
    | a\|b | 0.512 |
    <BLANKLINE>
    """
    rows = table.reset_index(drop=isinstance(table.index, pd.RangeIndex))
    ways = ["--:" if pd.api.types.is_numeric_dtype(dtype) else ":--" for dtype in rows.dtypes]
    cells = [[markdown(_decimals(value)) for value in row] for row in rows.itertuples(index=False)]
    lines = [[markdown(name) for name in rows], ways, *cells]
    told = f"{markdown(caption)}\n\n" if caption else ""
    return told + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def markdown(text: object) -> str:
    """Return any text for one line of Markdown, where it is shown as it is."""
    return _MARKUP.sub(r"\\\g<0>", _line(text))


def _line(text: object) -> str:
    return " ".join(drawable(str(text)).split())


def _tex(text: object) -> str:
    return _line(text).translate(_TEX)


def _cell(value: Any) -> Any:
    return _tex(value) if isinstance(value, str | bool) else value


def _decimals(value: Any) -> str:
    if not isinstance(value, float | np.floating):
        return str(value)
    value = float(value)
    if math.isnan(value):
        return "–"
    return f"{value:.3f}" if value == 0 or not abs(value) < 1e-3 else f"{value:.1e}"
