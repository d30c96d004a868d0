"""Documents of HTML that need neither a server nor the network: for export and for notebooks."""

import base64
import html
import json
from typing import Any

import plotly.graph_objects as go

from mha_viz.web import theme
from mha_viz.web.browser import document_template, script, style
from mha_viz.web.labels import html_text
from mha_viz.web.payload import unpack

# The document may run its own inline script and show its own pictures, but ask the network for
# nothing. Tokens are text in any case; thus the browser holds us to it.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
)


# For pages without any script of their own.
NO_SCRIPT = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def document(title: str, style: str, body: str, *, policy: str) -> str:
    """Return an HTML document that asks the network for nothing.

    `title` is escaped here, `body` is safe HTML already, `policy` is the Content-Security-Policy.
    """
    parts = {"policy": policy, "title": html_text(title), "style": style, "body": body}
    return document_template().substitute(parts)


def grid_html(
    payload: bytes,
    *,
    selected: tuple[int, int] = (0, 0),
    scale: str = "sqrt",
    title: str = "",
    caption: str = "",
    dark: bool | None = None,
) -> str:
    """Return all heads and a chosen one as one HTML document, with the same script as in the app.

    Without a server there are no exact weights: the tooltip shows as many digits as the codes of
    `payload` carry. Title and caption are plain text. `dark` None follows the reader's system.
    Bytes that are no payload and an unknown scale raise ArgumentError.
    """
    settings = bench_settings(payload, selected, scale)
    # Base64 has no "<", and the settings escape it: nothing can end the script element early.
    body = f"""<div id="bench"></div>
<script type="module">
{script("workbench").replace("export default ", "")}
const bytes = bytesOf("{base64.b64encode(payload).decode()}");
const parentElement = document.getElementById("bench");
putPayload(bytes);
workbench({{ parentElement, data: {_json(settings)}, setTriggerValue() {{}} }});
</script>"""
    return _page(body, style("workbench"), title, caption, dark)


def flow_html(
    payload: bytes, *, title: str = "", caption: str = "", dark: bool | None = None
) -> str:
    """Return a flow graph as one HTML document, with the same script as in the app."""
    body = f"""<div id="flow"></div>
<script type="module">
{script("flow_graph").replace("export default ", "")}
const data = bytesOf("{base64.b64encode(payload).decode()}");
flowGraph({{ parentElement: document.getElementById("flow"), data, setTriggerValue() {{}} }});
</script>"""
    return _page(body, style("flow_graph"), title, caption, dark)


def bench_settings(
    payload: bytes, selected: tuple[int, int] = (0, 0), scale: str = "sqrt"
) -> dict[str, Any]:
    """Return the settings of a workbench without a server: what it draws and what sorts heads."""
    header = unpack(payload)[0]
    layer, head = (int(i) for i in selected)
    return {
        "name": header["id"],
        "payload": header["id"],
        "view": {"layer": layer, "head": head, "scale": theme.check_scale(scale)},
        "titles": {title: title for title in header["facts"]},
    }


def figure_html(
    figure: go.Figure, *, title: str = "", caption: str = "", dark: bool = False
) -> str:
    """Return any figure of this package as one HTML document that needs no network."""
    drawn = figure.to_html(
        full_html=False,
        include_plotlyjs=True,
        include_mathjax=False,
        config={"displaylogo": False, "responsive": True, "showSendToCloud": False},
    )
    return _page(drawn, "", title, caption, dark)


def fragment(
    page: str, *, height: int = 480, title: str = "Attention heads", picture: str = ""
) -> str:
    """Return a page inside an <iframe>, for notebooks: styles and ids cannot leak out of it.

    The PNG `picture`, in base64, lies under the frame, and is what remains on paper and where a
    notebook that nobody has trusted loses its frames. `title` is for screen readers.
    """
    frame = (
        f'<iframe srcdoc="{html.escape(page)}" title="{html_text(title)}" '
        f'sandbox="allow-scripts allow-downloads" loading="lazy" class="mha-viz-live" style="'
        f"{'position:absolute;top:0;left:0;' if picture else ''}"
        f'width:100%;height:{int(height)}px;border:0"></iframe>'
    )
    if not picture:
        return frame
    return (
        "<style>@media print { .mha-viz-live { display: none } }</style>"
        f'<div style="position:relative;min-height:{int(height)}px">'
        f'<img src="data:image/png;base64,{picture}" '
        f'alt="{html_text(title)}" style="max-width:100%;max-height:{int(height)}px">{frame}</div>'
    )


def _page(body: str, css: str, title: str, caption: str, dark: bool | None) -> str:
    heading = f"<h1>{html_text(title)}</h1>" if title else ""
    below = f"<p>{html_text(caption)}</p>" if caption else ""
    look = f"""
{theme_rules(dark)}
body {{ margin: 16px; color: var(--st-text-color); background: var(--st-background-color);
  font: 14px/1.5 var(--st-font); }}
h1 {{ font-size: 17px; margin: 0 0 12px; }}
p {{ white-space: pre-wrap; opacity: 0.8; }}
{css}
"""
    around = f"{heading}\n{body}\n{below}"
    return document(title or "Attention heads", look, around, policy=_POLICY)


def variables(dark: bool) -> str:
    """Return the theme that the components know from the app, as declarations of CSS."""
    values = {
        "background-color": theme.paper(dark),
        "text-color": theme.ink(dark),
        "secondary-background-color": "#1f2331" if dark else "#eef0f6",
        "border-color": theme.gridline(dark),
        "primary-color": theme.qualitative(dark)[0],
        "font": theme.FONT,
    }
    text = " ".join(f"--st-{name}: {value};" for name, value in values.items())
    return f"color-scheme: {'dark' if dark else 'light'}; {text}"


def theme_rules(dark: bool | None) -> str:
    """Return that theme for a whole document; None follows the reader's system."""
    light, night = (variables(value) for value in (False, True))
    if dark is None:
        return f":root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {night} }} }}"
    return f":root {{ {night if dark else light} }}"


def _json(value: Any) -> str:
    """Return JSON that may stand inside a script element."""
    return json.dumps(value).replace("<", "\\u003c")
