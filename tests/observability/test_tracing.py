"""Tracing: nothing when off, spans with bounds when on."""

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from indexer.observability import tracing
from indexer.observability.tracing import setup_tracing, span, traces_url


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    end = setup_tracing(enabled=True, endpoint="", version="1", exporter=exporter)
    yield exporter
    end()


def test_off_means_nothing_happens() -> None:
    """Without tracing a span yields None, and is the same object every time."""
    setup_tracing(enabled=False, endpoint="collector:4318")
    with span("page", server="alpha.example") as current:
        assert current is None
    assert span("a") is span("b")


def test_spans_nest_and_carry_bounded_attributes(exporter: InMemorySpanExporter) -> None:
    """A span is the child of the one around it; long attributes are cut."""
    with span("outer"), span("inner", key="x" * 10_000, rows=3):
        pass
    assert tracing._provider is not None
    tracing._provider.force_flush()
    inner, outer = exporter.get_finished_spans()
    assert inner.parent is not None
    assert outer.context is not None
    assert inner.parent.span_id == outer.context.span_id
    assert inner.attributes is not None
    assert inner.attributes["rows"] == 3
    assert len(str(inner.attributes["key"])) == 500


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("", None),
        ("collector:4318", "http://collector:4318/v1/traces"),
        ("http://collector:4318/", "http://collector:4318/v1/traces"),
        ("https://collector.example/otlp/traces", "https://collector.example/otlp/traces"),
    ],
)
def test_endpoints(endpoint: str, url: str | None) -> None:
    """host:port, as the Go crawler has it, and URLs are both understood."""
    assert traces_url(endpoint) == url
