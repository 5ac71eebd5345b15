"""The live feed as server-sent events, for networks that let no WebSocket pass.

Promises: the same frames as by WebSocket, in order. `send` of a subscription opens the stream that it asks
for; a stream that has ended raises `StreamEnded`. Never: resumes by itself; the watcher does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, Final

import httpx2
import msgspec

from holdfast.client.calls import path_of
from holdfast.client.http import Http
from holdfast.client.problems import problem
from holdfast.client.unanswered import unanswered
from holdfast.core.address import shown_url
from holdfast.errors import HoldfastError

EVENT_BYTES_MAX: Final = 16 * 1024 * 1024
READ_SECONDS: Final = 40.0
"""A stream that is silent for so long is dead: the server sends a comment every 15 s."""
STREAM: Final = "text/event-stream"


class StreamEnded(Exception):
    """The stream is over, or did not start."""


class NoStream(Exception):
    """There is no feed at this address."""


class EventStream:
    """One subscription at a gateway."""

    def __init__(self, http: Http, url: str) -> None:
        self._http = http
        self._url = url
        self._stack = AsyncExitStack()
        self._frames: AsyncIterator[bytes] | None = None

    async def send(self, message: str) -> None:
        """Opens the stream of a `subscribe` frame. Raises NoStream, or the error of the answer."""
        await self.close()
        request = self._http.stream(
            self._url + path_of("stream"), query_of(msgspec.json.decode(message)), READ_SECONDS
        )
        try:
            answer = await self._stack.enter_async_context(request)
            if answer.status_code != 200:
                await answer.aread()
        except httpx2.TransportError as error:
            raise StreamEnded(str(unanswered(shown_url(self._url), error))) from None
        kind = answer.headers.get("content-type", "").partition(";")[0]
        if answer.status_code == 200 and kind == STREAM:
            self._frames = _frames(answer)
        elif kind.endswith("json"):
            raise refusal(answer)
        elif answer.status_code >= 500:
            raise StreamEnded(f"the gateway answered {answer.status_code}")
        else:
            raise NoStream

    async def recv(self) -> bytes:
        """The next frame."""
        assert self._frames is not None
        try:
            return await anext(self._frames)
        except StopAsyncIteration:
            raise StreamEnded("the stream has ended") from None
        except httpx2.TransportError as error:
            raise StreamEnded(f"the stream was cut: {error!r}") from None

    async def close(self) -> None:
        self._frames = None
        await self._stack.aclose()


def query_of(frame: dict[str, Any]) -> dict[str, str]:
    query = {"topic": str(frame["channel"])}  # in `topics` a comma ends a name
    if "position" in frame:
        query["after"] = str(frame["position"])
    if "kinds" in frame:
        query["kinds"] = ",".join(frame["kinds"])
    return query


def refusal(answer: httpx2.Response) -> HoldfastError:
    try:
        body = msgspec.json.decode(answer.content)
    except msgspec.DecodeError:
        body = answer.text
    return problem(answer.status_code, body)


async def _frames(answer: httpx2.Response) -> AsyncIterator[bytes]:
    """The data of each event. An event that was cut off is dropped: it comes again after a resume."""
    rest = b""
    async for chunk in answer.aiter_bytes():
        *events, rest = (rest + chunk).split(b"\n\n")
        if len(rest) > EVENT_BYTES_MAX:
            raise StreamEnded("an event is too large")
        for event in events:
            for line in event.split(b"\n"):
                if line.startswith(b"data: "):
                    yield line.removeprefix(b"data: ")
