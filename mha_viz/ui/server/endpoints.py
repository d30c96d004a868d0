"""Addresses for the operator: liveness, readiness, and figures.

They stand before all else, so that they answer under any name and while pages are run. Nothing in
their answers is of a visitor.
"""

import asyncio
import hmac
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from mha_viz.ui.jobs import heavy_queue
from mha_viz.ui.jobs.turns import turns
from mha_viz.ui.operating import descriptors, memory_limit, page_times, refusals, streamlit_run
from mha_viz.ui.operating.settings import settings
from mha_viz.ui.run import memory
from mha_viz.ui.state import class_answers

# What each lane of work tells of itself: numbers by name, among them how many wait.
LANES: dict[str, Callable[[], Mapping[str, float]]] = {
    "short": turns.short.figures,
    "long": turns.long.figures,
    "heavy": heavy_queue.figures,
}


class Endpoints:
    """ASGI middleware that answers /healthz, /readyz and /metrics, and passes on the rest."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        answer = None
        if scope["type"] == "http" and scope["method"] in ("GET", "HEAD"):
            if scope["path"] == "/readyz":
                answer = await _readiness()
            else:
                answer = _answer(scope["path"], Headers(scope=scope).get("authorization", ""))
        await (answer or self.app)(scope, receive, send)


async def _readiness() -> Response:
    # The file of classes may be waited for, and nobody waits in the server's own thread.
    reason = not_ready() or await asyncio.to_thread(class_answers.problem)
    return PlainTextResponse(f"{reason or 'ready'}\n", 503 if reason else 200)


def _answer(path: str, authorization: str) -> Response | None:
    if path == "/healthz":
        return PlainTextResponse("ok\n")
    if path == "/metrics":
        token = settings().metrics_token
        if not token:
            return PlainTextResponse("There are none: the server has no metrics_token.\n", 404)
        if not hmac.compare_digest(authorization.encode(), f"Bearer {token}".encode()):
            return PlainTextResponse("The figures want the server's metrics_token.\n", 401)
        return Response(written(), media_type="text/plain; version=0.0.4; charset=utf-8")
    if path == "/_stcore/metrics" and settings().public:
        return PlainTextResponse("The figures of this server are at /metrics.\n", 404)
    return None


def not_ready() -> str:
    """Say in one sentence why the server should not get more visitors now; "" where it may."""
    if reason := memory.ready():
        return reason
    if memory_limit.is_over():
        return "The server takes more memory than it may: it makes room, and refuses heavy work."
    if descriptors.are_few():
        return "The server has few file descriptors left: its system has to allow it more of them."
    return ""


def written() -> bytes:
    """Write all figures in the format that Prometheus reads."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    registry.register(_Figures())
    return generate_latest(registry)


class _Figures:
    """A collector of figures for the Prometheus library."""

    def collect(self) -> Iterator[Any]:
        """Yield one family after another, as the library needs them."""
        from prometheus_client.core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        for name, about, value in _gauges():
            yield GaugeMetricFamily(f"mha_viz_{name}", about, value)
        refused = CounterMetricFamily("mha_viz_refusals", "What was refused.", labels=["kind"])
        for kind, count in refusals.counted().items():
            refused.add_metric([kind], count)
        yield refused
        runs = HistogramMetricFamily(
            "mha_viz_page_seconds", "How long runs of pages took.", labels=["page"]
        )
        for page, (buckets, seconds) in page_times.runs.table().items():
            shown = [("+Inf" if bound == float("inf") else str(bound), n) for bound, n in buckets]
            runs.add_metric([page], shown, seconds)
        yield runs
        yield from _of_lanes(GaugeMetricFamily)


def _gauges() -> Iterator[tuple[str, str, float]]:
    yield "sessions", "Pages that are open now.", streamlit_run.n_sessions()
    yield "memory_bytes", "Memory of the server and its processes.", memory_limit.used_bytes()
    limit = settings().memory_mb
    if limit is not None:
        yield "memory_ceiling_bytes", "Memory that the server may take.", limit * memory_limit.MB
    if (n_open := descriptors.used()) is not None:
        yield "open_descriptors", "File descriptors that are open.", n_open
    if (most := descriptors.limit()) is not None:
        yield "descriptor_limit", "File descriptors that may be open.", most
    yield "cache_bytes", "What was made of texts and may be wanted again.", memory.cache().n_bytes


def _of_lanes(gauge: Callable[..., Any]) -> Iterator[Any]:
    """Yield the figures of all lanes, one metric family a name."""
    lane_numbers = {lane: dict(tell()) for lane, tell in LANES.items()}
    for name in sorted({name for numbers in lane_numbers.values() for name in numbers}):
        family = gauge(f"mha_viz_lane_{name}", f"Of each lane of work: {name}.", labels=["lane"])
        for lane, numbers in lane_numbers.items():
            if name in numbers:
                family.add_metric([lane], numbers[name])
        yield family
