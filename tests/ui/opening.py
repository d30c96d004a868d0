"""Pages opened under a link, as apps of their own."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from streamlit.testing.v1 import AppTest

APP = Path(__file__).parents[2] / "app.py"


def _named(place: str) -> None:
    """Runs as an app, so it imports what it needs."""
    from pkgutil import resolve_name

    resolve_name(place)()


def opened(
    page: Callable[..., None] | str | Path,
    /,
    *args: object,
    session: Mapping[str, object] | None = None,
    **params: Any,
) -> AppTest:
    """Run a page, by its function, its place or its file, under a link and with these keys set."""
    if isinstance(page, Path):
        app = AppTest.from_file(page, default_timeout=300)
    elif isinstance(page, str):
        app = AppTest.from_function(_named, args=(page,), default_timeout=300)
    else:
        app = AppTest.from_function(page, args=args, default_timeout=300)
    for key, value in (session or {}).items():
        app.session_state[key] = value
    for name, value in params.items():
        app.query_params[name] = value
    return app.run()


def components(app: AppTest, name: str) -> list[Any]:
    """Return what the components of that name on the page get."""
    protos = [part.proto for part in app.get("bidi_component")]
    return [proto for proto in protos if proto.component_name == f"mha_viz.{name}"]


def open_tables(*figures: str) -> dict[str, object]:
    """Return the keys of a session where the tables of these figures are open."""
    return dict.fromkeys((f"{figure}-table" for figure in figures), True)
