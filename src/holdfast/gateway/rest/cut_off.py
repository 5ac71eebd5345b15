"""Requests that a stop of the server cuts off.

A stop waits for running requests with a bound: a client may never send the rest of a body, or never read its
answer. uvicorn then cancels the request. It logs every exception of an application with a traceback, also
the cancellation that it has caused itself, and answers 500.
Promises: a request that is cut off is answered with 503 if its answer has not begun. An answer that has begun
is broken off. The log has one line about the request and no traceback.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.errors import QueueStopping
from holdfast.gateway.rest.problem import problem_response

log = logging.getLogger("holdfast.gateway")
ANSWER_SECONDS: Final = 1.0
"""How long the answer to a request that is cut off may wait for a client that does not read."""


class CutOff:
    """An application around the one that is served."""

    __slots__ = ("_app", "_request_id")

    def __init__(self, app: ASGIApp, request_id: Callable[[], str]) -> None:
        self._app = app
        self._request_id = request_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            # Only a stop cancels a request, and nothing awaits its task.
            await self._end(scope, receive, send)

    async def _end(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = scope.get("method", "WebSocket")
        log.warning("the stop cut off a request that did not end in time: %s", name)
        if scope["type"] != "http":
            return
        error = QueueStopping(
            "the server stops, and whether the request took effect is unknown: repeat it with its key"
        )
        response = problem_response(error, self._request_id())
        response.headers["connection"] = "close"
        # RuntimeError: the answer has begun. The server closes its connection.
        with suppress(RuntimeError, TimeoutError, asyncio.CancelledError):
            async with asyncio.timeout(ANSWER_SECONDS):
                await response(scope, receive, send)
