"""OpenTelemetry: the trace of a producer goes on in the handler.

    from holdfast.otel import instrument

    instrument(queue)

Promises: `enqueue` is a span of kind PRODUCER, each run of a handler one of kind CONSUMER that is its child,
in this process or in another, directly or through a gateway. Spans that a handler makes are children of its
run, in the event loop, in threads and in processes. An error of a handler is recorded with its traceback.
A queue that is not instrumented pays nothing. Never: chooses an SDK, a sampler or an exporter: the
application does. Needs the extra: pip install 'holdfast[otel]'.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from holdfast import __version__
from holdfast.core.failure import message_of
from holdfast.engine.blocking_context import BlockingContext
from holdfast.engine.context import Context
from holdfast.errors import BadConfig, MissingExtra
from holdfast.queue.queue import Queue
from holdfast.tracing import TraceContext, parse_trace, using

if TYPE_CHECKING:
    from opentelemetry.context import Context as OtelContext
    from opentelemetry.trace import Span, Tracer, TracerProvider

__all__ = ["instrument"]

SYSTEM: Final = "holdfast"
TYPE: Final = "holdfast.task.type"


def instrument(
    queue: Queue, *, tracer_provider: TracerProvider | None = None, links: bool = False
) -> None:
    """Traces the tasks of a queue. Call it once, before the workers start. `tracer_provider`: by default the
    one of the application (`opentelemetry.trace.set_tracer_provider`). `links`: each run is a trace apart,
    with a link to its producer, for tasks that run long after they were enqueued."""
    if importlib.util.find_spec("opentelemetry") is None:
        raise MissingExtra("instrument() needs OpenTelemetry: pip install 'holdfast[otel]'")
    from opentelemetry import trace

    around = queue.definitions.handlers.around
    if around.enqueuing is not None:
        raise BadConfig("the queue is instrumented already: call instrument() once")
    traces = _Traces(trace.get_tracer(SYSTEM, __version__, tracer_provider), links=links)
    around.enqueuing = traces.enqueuing
    around.in_loop = (traces.running, *around.in_loop)
    around.in_place = (in_process, *around.in_place)


def in_process(ctx: BlockingContext, call_next: Callable[[], Any]) -> Any:
    """Goes on with the trace in the process of a handler. A thread has it already."""
    found = getattr(ctx, "trace", None)
    if found is None:
        return call_next()
    from opentelemetry import context

    token = context.attach(_extracted(found))
    try:
        return call_next()
    finally:
        context.detach(token)


class _Traces:
    """The spans of one queue."""

    def __init__(self, tracer: Tracer, *, links: bool) -> None:
        self._tracer = tracer
        self._links = links

    @contextmanager
    def enqueuing(self, type: str, count: int) -> Iterator[Callable[[str], None]]:
        """Around an enqueue. Yields what takes the id of the new task."""
        from opentelemetry.trace import SpanKind

        attributes = {**_said("send"), TYPE: type, "messaging.batch.message_count": count}
        with (
            self._tracer.start_as_current_span(
                f"enqueue {type}", kind=SpanKind.PRODUCER, attributes=attributes
            ) as span,
            using(_injected()),
        ):
            yield lambda task_id: span.set_attribute("messaging.message.id", task_id)

    async def running(self, ctx: Context, call_next: Callable[[], Awaitable[Any]]) -> Any:
        """Around a handler."""
        from opentelemetry.context import Context as OtelContext
        from opentelemetry.trace import Link, SpanKind, get_current_span

        # Never the context in which the workers were started.
        parent, origin = OtelContext(), ctx.task.options.trace
        links: list[Link] = []
        if origin is not None:
            producer = _extracted(origin)
            if self._links:
                links.append(Link(get_current_span(producer).get_span_context()))
            else:
                parent = producer
        with self._tracer.start_as_current_span(
            f"run {ctx.task.type}",
            context=parent,
            kind=SpanKind.CONSUMER,
            attributes=_described(ctx),
            links=links,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            ctx.trace = _injected()
            try:
                return await call_next()
            except Exception as error:
                _failed(span, error)
                raise


def _failed(span: Span, error: Exception) -> None:
    from opentelemetry.trace import Status, StatusCode

    text = message_of(error)
    with suppress(Exception):  # An error that cannot be read stays the outcome of the handler.
        span.record_exception(error)
    span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {text}"))


def _said(operation: str) -> dict[str, Any]:
    """By the semantic conventions of messaging systems."""
    return {"messaging.system": SYSTEM, "messaging.operation.type": operation}


def _described(ctx: Context) -> dict[str, Any]:
    task = ctx.task
    return {
        **_said("process"),
        "messaging.destination.name": task.queue,
        "messaging.message.id": task.id,
        TYPE: task.type,
        "holdfast.task.attempt": task.attempts,
    }


def _injected() -> TraceContext | None:
    """The current span, as it travels."""
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers)
    return parse_trace(headers.get("traceparent"), headers.get("tracestate"))


def _extracted(trace: TraceContext) -> OtelContext:
    from opentelemetry.context import Context as OtelContext
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    headers = {"traceparent": trace.traceparent}
    if trace.tracestate:
        headers["tracestate"] = trace.tracestate
    return TraceContextTextMapPropagator().extract(headers, OtelContext())
