"""Queries and keys as maps: time of a frame in Chromium, and of making the maps of a model."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import numpy as np
import torch

from benchmarks.browser import VIEWPORT, chromium, until_painted
from benchmarks.grid import served
from benchmarks.measure import Result, at_most, spread
from mha_viz.core.attention.scoring import Scoring, Sight
from mha_viz.core.compare.query_key_map import map_of_records
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.core.record.fields import Token
from mha_viz.core.record.patterns import ComputedPatterns
from mha_viz.web.browser import script, style
from mha_viz.web.payload import map_payload, unpack

LAYERS, HEADS, D_HEAD = 12, 12, 64
TEXTS, TOKENS = 100, 50
N = TEXTS * TOKENS  # tokens, of which each is a query and a key
FRAMES, ROUNDS = 30, 3
WITHIN = 0.05  # seconds a frame, the aim
TITLE = "Queries and keys"
ABOUT = f"""{LAYERS} x {HEADS} heads with {2 * N:,} points each, random numbers, in a Chromium of
1280 x 900 without a graphics card. A frame is the time from one frame to the next while each paints
what its line says: all small maps and the large one; the large one of another head; what follows
a pointer, which is the nearest point, its lines and what is told of it. Making the maps begins
with queries and keys of {TEXTS} texts of {TOKENS} tokens and d_head {D_HEAD}, and ends with the
payload."""
PAINTS = {
    "all maps": "view.grid.painted = view.large.painted = ''; view.grid.draw();",
    "another head": "view.grid.selected = i % 144; view.grid.frame();",
    "a pointer that moves": """view.large.marks.dispatchEvent(new PointerEvent("pointermove", {
        clientX: box.left + (0.2 + 0.02 * (i % 30)) * box.width,
        clientY: box.top + box.height / 2 }));""",
}


def measure() -> list[Result]:
    begin = time.perf_counter()
    found = map_of_records(records())
    payload = map_payload(found)
    made = time.perf_counter() - begin
    results = [
        Result("making the maps", f"{made:,.1f} s"),
        Result("bytes of the payload", f"{len(payload) / 1e6:,.1f} MB"),
    ]
    with chromium() as browser, served(_page(payload).encode()) as url:
        page = browser.new_page(viewport=VIEWPORT)
        page.goto(url)
        until_painted(page, "() => document.querySelector('[data-painted]')")
        for name, paint in PAINTS.items():
            times = [_frame(page, paint) for _ in range(ROUNDS)]
            met = at_most(float(np.median(times)), WITHIN)
            aim = f"{WITHIN * 1e3:.0f} ms"
            results.append(Result(f"a frame: {name}", spread(times, 1e3, " ms"), aim=aim, met=met))
    return results


def records() -> list[AttentionRecord]:
    """Texts of random queries and keys, causal."""
    generator = torch.Generator().manual_seed(1)
    scoring = (Scoring(D_HEAD**-0.5, sight=Sight(after=0)),) * LAYERS
    tokens = tuple(Token(f"t{i}", i) for i in range(TOKENS))
    shape = LAYERS, HEADS, TOKENS, D_HEAD
    found = []
    for _ in range(TEXTS):
        query, key = (torch.randn(shape, generator=generator) for _ in range(2))
        patterns = ComputedPatterns(tuple(query), tuple(key), scoring)
        vectors = dict(query=query, key=key, scale=(D_HEAD**-0.5,) * LAYERS)
        found.append(AttentionRecord(patterns=patterns, tokens=tokens, causal=True, **vectors))
    return found


def _page(payload: bytes) -> str:
    settings = {"payload": unpack(payload)[0]["id"], "selected": [0, 0], "heard": None}
    return f"""<!doctype html><meta charset="utf-8"><style>{style("query_key_map")}</style>
<div id="map"></div><script type="module">
{script("query_key_map").replace("export default ", "")}
putPayload(bytesOf("{base64.b64encode(payload).decode()}"));
const parentElement = document.getElementById("map");
queryKeyMap({{ parentElement, data: {json.dumps(settings)}, setTriggerValue() {{}} }});
globalThis.view = parentElement.mhaViews.queryKeyMap;
</script>"""


def _frame(page: Any, paint: str) -> float:
    """Seconds from one frame to the next while each of them paints."""
    return float(
        page.evaluate(f"""() => new Promise((done) => {{
      const box = view.large.marks.getBoundingClientRect(), began = performance.now();
      let i = 0;
      const next = () => {{
        if (i === {FRAMES}) return done((performance.now() - began) / {FRAMES} / 1000);
        {paint}
        i++;
        requestAnimationFrame(next);
      }};
      next();
    }})""")
    )
