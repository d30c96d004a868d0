"""A component whose script travels to the browser once, not with each change of its data."""

from __future__ import annotations

from typing import Any

import streamlit as st

from mha_viz.web.browser import carrier_script, late_script, style


class LateComponent:
    """A component of Streamlit in two elements: one brings its script, the other has its data.

    Streamlit sends a component's script again with each message about it, but leaves out a message
    that has not changed.

    Args:
        name: of the script and the style in `mha_viz.web.browser`.
    """

    def __init__(self, name: str) -> None:
        self._carrier = st.components.v2.component(
            f"mha_viz.{name}_script", js=carrier_script(name)
        )
        self._component = st.components.v2.component(
            f"mha_viz.{name}", css=style(name), js=late_script(name)
        )

    def bring(self, key: str) -> None:
        """Bring the script: once on a page, before or after what it draws.

        Args:
            key: unique in the app.
        """
        self._carrier(key=key)

    def __call__(self, *, key: str, data: Any, **on_change: Any) -> Any:
        """Draw it; nothing is seen before its script is there.

        Args:
            key: unique in the app.
            data: what it draws.
            on_change: as of any component of Streamlit.
        """
        return self._component(key=key, data=data, **on_change)
