"""The frame of every HTML document that we write."""

from __future__ import annotations

from mha_viz.web.labels import html_text


def document(title: str, style: str, body: str, *, policy: str) -> str:
    """Return an HTML document that asks the network for nothing.

    `title` is escaped here, `body` is safe HTML already, `policy` is the Content-Security-Policy.
    """
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{html_text(title)}</title>
<style>{style}</style>
</head>
<body>
{body}
</body>
</html>
"""
