"""The trace that a new task belongs to, in the form of W3C Trace Context (`traceparent`, `tracestate`).

Promises: an enqueue inside `using(context)` stores that context with the tasks; a gateway does so for the
headers of a request, and a handler goes on with the context of its task. It is no part of the request:
idempotency keys, ids and unique windows do not compare it, and a repeat leaves the first one in place. What
is not valid is ignored, as W3C asks. Never: imports OpenTelemetry (`holdfast.otel` does). An internal module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import msgspec

STATE_CHARS_MAX: Final = 512
_PARENT: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)
_STATE: Final = re.compile(r"[\x20-\x7e\t]*")


class TraceContext(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The span that has enqueued a task."""

    traceparent: str
    tracestate: str = ""


CURRENT: Final[ContextVar[TraceContext | None]] = ContextVar("holdfast_trace", default=None)


def parse_trace(traceparent: str | None, tracestate: str | None = None) -> TraceContext | None:
    """The context of two headers. None if there is none, or one of another form."""
    if traceparent is None or _PARENT.fullmatch(traceparent) is None:
        return None
    state = tracestate or ""
    if len(state) > STATE_CHARS_MAX or _STATE.fullmatch(state) is None:
        state = ""
    return TraceContext(traceparent, state)


@contextmanager
def using(trace: TraceContext | None) -> Iterator[None]:
    """Tasks that are enqueued inside belong to this trace."""
    token = CURRENT.set(trace)
    try:
        yield
    finally:
        CURRENT.reset(token)
