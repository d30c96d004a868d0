"""The table of all heads: every column for programs, the main ones where it shows itself."""

from __future__ import annotations

import pandas as pd

from mha_viz.core.showing import table_html

_MAIN = (
    "layer head labels entropy distance previous_token self_token first_token induction "
    "output_share twin"
).split()


class HeadReport(pd.DataFrame):
    """A DataFrame that shows its main columns; what is made of it is a plain DataFrame."""

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return pd.DataFrame

    @property
    def _main(self) -> pd.DataFrame:
        return pd.DataFrame(self[[name for name in _MAIN if name in self]])

    @property
    def _line(self) -> str:
        return f"{len(self)} heads, {self.shape[1]} columns; shown are {self._main.shape[1]}."

    def __repr__(self) -> str:
        return f"{self._main.to_string(index=False, max_rows=60)}\n{self._line}"

    def _repr_html_(self) -> str:
        notes = " ".join(["All are in .columns.", *map(str, self.attrs.get("notes", ()))])
        return table_html(self._line, self._main, notes)
