"""A graph in Mermaid's notation, as a forge draws it, as a small SVG for the site.

Reads what docs/architecture.md uses: `graph LR`, `a --> b`, `a -. words .-> b`, `a[words]`.
"""

import re
from html import escape

EDGE = re.compile(r"^\s*(\w+)(?:\[(.+?)\])?\s*(?:-->|-\.\s*(.*?)\s*\.->)\s*(\w+)(?:\[(.+?)\])?\s*$")
WIDTH, HEIGHT, GAP_X, GAP_Y = 112, 30, 34, 22


def svg(source: str) -> str:
    """The graph from left to right: every node stands right of all that lead to it.

    Raises:
        ValueError: a line is not in the notation above, or nodes lead to each other in a circle.
    """
    lines = [line for line in source.splitlines() if line.strip()]
    if lines[0].strip() != "graph LR":
        raise ValueError(f"Expected a graph that begins with 'graph LR', got {lines[0]!r}.")
    edges, titles = [], {}
    for line in lines[1:]:
        found = EDGE.match(line)
        if found is None:
            raise ValueError(f"Expected a line such as 'a --> b' in a graph, got {line!r}.")
        start, start_title, words, end, end_title = found.groups()
        edges.append((start, end, words))
        for name, title in ((start, start_title), (end, end_title)):
            titles[name] = title or titles.get(name, name)
    return _drawn(edges, titles, _columns(edges, list(titles)))


def _columns(edges: list[tuple[str, str, str | None]], names: list[str]) -> dict[str, int]:
    column = dict.fromkeys(names, 0)
    for _ in names:  # a path has fewer steps than there are nodes
        for start, end, _words in edges:
            column[end] = max(column[end], column[start] + 1)
    if max(column.values()) >= len(names):
        raise ValueError("The graph leads in a circle; a picture from left to right has no place.")
    return column


def _drawn(
    edges: list[tuple[str, str, str | None]], titles: dict[str, str], column: dict[str, int]
) -> str:
    rows: dict[int, int] = {}
    place = {}
    for name in titles:
        row = rows.setdefault(column[name], 0)
        rows[column[name]] += 1
        place[name] = (column[name] * (WIDTH + GAP_X), row * (HEIGHT + GAP_Y))
    arrows, boxes = [], []
    for start, end, words in edges:
        (x, y), (to_x, to_y) = place[start], place[end]
        x, y, to_y, middle = x + WIDTH, y + HEIGHT / 2, to_y + HEIGHT / 2, (x + WIDTH + to_x) / 2
        title = escape(f"{titles[start]} to {titles[end]}")
        dash = ' stroke-dasharray="4 3"' if words else ""
        arrows.append(
            f'<path d="M{x} {y} C{middle} {y} {middle} {to_y} {to_x - 5} {to_y}"{dash} '
            f'marker-end="url(#tip)"><title>{title}</title></path>'
        )
    for name, (x, y) in place.items():
        boxes.append(
            f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="5"/>'
            f'<text x="{x + WIDTH / 2}" y="{y + HEIGHT / 2 + 5}">{escape(titles[name])}</text>'
        )
    right = (max(column.values()) + 1) * (WIDTH + GAP_X) - GAP_X
    bottom = max(rows.values()) * (HEIGHT + GAP_Y) - GAP_Y
    tip = (
        '<marker id="tip" viewBox="0 0 8 8" refX="4" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0 L8 4 L0 8 z"/></marker>'
    )
    return (
        f'<svg class="rooms" role="img" viewBox="-2 -2 {right + 4} {bottom + 4}" '
        f'xmlns="http://www.w3.org/2000/svg"><title>Which room imports which</title>'
        f"<defs>{tip}</defs>{''.join(arrows)}{''.join(boxes)}</svg>"
    )
