"""Tracing: spans sent by OTLP over HTTP when the operator wants them, nothing at all otherwise.

``setup_tracing`` is called once, by the command that starts; what it returns flushes and stops the exporter.
While tracing is off a span costs one comparison: rooms may put one around a page, a batch or a request,
though not around a commit. The provider is ours and is not made global: libraries that trace by themselves
stay silent.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span

__all__ = ["Attribute", "setup_tracing", "span", "traces_url"]

Attribute = str | int | float | bool

_MAX_ATTRIBUTE_CHARACTERS = 500
_FLUSH_MILLISECONDS = 3_000
_NOTHING: "nullcontext[Span | None]" = nullcontext(None)

_provider: "TracerProvider | None" = None


def setup_tracing(
    *,
    enabled: bool,
    endpoint: str,
    service: str = "concrnt-indexer",
    version: str = "",
    exporter: "SpanExporter | None" = None,
) -> Callable[[], None]:
    """Start tracing when ``enabled``; returns the function that ends it (bounded to a few seconds).

    ``endpoint`` is a URL, or ``host:port`` as the Go crawler's settings have it; empty leaves the choice to
    the ``OTEL_EXPORTER_OTLP_*`` variables. ``exporter`` replaces OTLP, for tests.
    """
    global _provider  # noqa: PLW0603 - one process, one place that spans go to
    if not enabled:
        _provider = None
        return _end
    # Imported only when wanted: together they take longer to load than the rest of a short command.
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import SpanLimits, TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    _provider = TracerProvider(
        resource=Resource.create({"service.name": service, "service.version": version}),
        span_limits=SpanLimits(max_span_attribute_length=_MAX_ATTRIBUTE_CHARACTERS),
        shutdown_on_exit=False,
    )
    target = exporter if exporter is not None else OTLPSpanExporter(endpoint=traces_url(endpoint))
    _provider.add_span_processor(BatchSpanProcessor(target))
    return _end


def span(name: str, **attributes: Attribute) -> "AbstractContextManager[Span | None]":
    """A span around a block, child of the one that surrounds it; yields None while tracing is off."""
    if _provider is None:
        return _NOTHING
    return _provider.get_tracer("indexer").start_as_current_span(name, attributes=attributes)


def traces_url(endpoint: str) -> str | None:
    """The URL that spans are posted to; None for an empty endpoint."""
    if not endpoint:
        return None
    url = endpoint if "://" in endpoint else f"http://{endpoint}"
    scheme, _, rest = url.partition("://")
    return url if "/" in rest.rstrip("/") else f"{scheme}://{rest.rstrip('/')}/v1/traces"


def _end() -> None:
    """Send what is left, within bounds, and stop."""
    global _provider
    provider, _provider = _provider, None
    if provider is not None:
        provider.force_flush(_FLUSH_MILLISECONDS)
        provider.shutdown()
