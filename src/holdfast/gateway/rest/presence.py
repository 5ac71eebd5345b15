"""Work for a client that waits: it ends when the client has gone.

Promises: a request whose client closed its connection does nothing more, so it takes no task and keeps no
place. What was committed before stays, as with an answer that is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

T = TypeVar("T")
GONE = 499
"""The status of an answer that has no reader, for metrics and logs."""


class ClientGone(Exception):
    """The client has closed its connection."""


async def while_present(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of the work. Cancels it and raises ClientGone if the client goes first. The body of the
    request was read, or is not needed."""
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(_left(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientGone
        return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def no_reader() -> Response:
    return Response(status_code=GONE)
