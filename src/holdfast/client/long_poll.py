"""The live feed by plain requests, for networks that let neither a WebSocket nor a stream pass.

Promises: the same frames as by WebSocket, in order and once: each request asks for what follows the last
frame. Never: resumes after an error by itself; the watcher does.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import httpx2
import msgspec

from holdfast.client.calls import path_of
from holdfast.client.event_stream import EventStream, NoStream, StreamEnded, query_of, refusal
from holdfast.client.http import Http
from holdfast.client.problems import asks_to_retry
from holdfast.client.unanswered import unanswered
from holdfast.core.address import shown_url

WAIT_SECONDS: Final = 25
"""The wait that one request asks for."""
READ_SECONDS: Final = 40.0
PAUSE_SECONDS: Final = 1.0
"""The pause after an answer that came early and has no news: the server does not wait."""


class _Frames(msgspec.Struct, frozen=True):
    frames: list[dict[str, Any]]


_answer: Final = msgspec.json.Decoder(_Frames)


class LongPoll:
    """One subscription at a gateway."""

    def __init__(self, http: Http, url: str) -> None:
        self._http = http
        self._url = url + path_of("poll")
        self._query: dict[str, str] = {}
        self._frames: deque[dict[str, Any]] = deque()

    async def send(self, message: str) -> None:
        """Begins the subscription of a `subscribe` frame. Raises NoStream, or the error of the answer."""
        self._query = query_of(msgspec.json.decode(message))
        self._frames = deque(await self._ask(wait_seconds=0))

    async def recv(self) -> bytes:
        """The next frame."""
        while not self._frames:
            begun = self._http.clock.monotonic()
            frames = await self._ask(wait_seconds=WAIT_SECONDS)
            # The first frame repeats where the answer before has ended.
            self._frames.extend(frame for frame in frames if frame.get("type") != "subscribed")
            is_early = self._http.clock.monotonic() - begun < PAUSE_SECONDS
            if is_early and all(frame.get("type") == "bookmark" for frame in self._frames):
                await self._http.clock.sleep(PAUSE_SECONDS)
        frame = self._frames.popleft()
        if isinstance(frame.get("position"), str):
            self._query["after"] = frame["position"]
        return msgspec.json.encode(frame)

    async def close(self) -> None:
        self._frames.clear()

    async def _ask(self, *, wait_seconds: int) -> list[dict[str, Any]]:
        query = {**self._query, "wait_seconds": str(wait_seconds)}
        try:
            async with self._http.stream(self._url, query, READ_SECONDS) as answer:
                await answer.aread()
        except httpx2.TransportError as error:
            raise StreamEnded(str(unanswered(shown_url(self._url), error))) from None
        if answer.status_code == 200:
            try:
                return _answer.decode(answer.content).frames
            except msgspec.MsgspecError:
                raise NoStream from None
        if not answer.headers.get("content-type", "").partition(";")[0].endswith("json"):
            if answer.status_code >= 500:
                raise StreamEnded(f"the gateway answered {answer.status_code}")
            raise NoStream
        refused = refusal(answer)
        raise StreamEnded(str(refused)) if asks_to_retry(refused) else refused


class PlainFeed:
    """Server-sent events, or the long poll where none pass."""

    def __init__(self, http: Http, url: str, *, polls: bool) -> None:
        self._http = http
        self._url = url
        self._feed: EventStream | LongPoll | None = None
        self._has_frame = False
        self.polls = polls
        """Whether the next subscription goes by long poll. A stream that ended without a frame sets it."""

    async def send(self, message: str) -> None:
        """Begins the subscription. Raises NoStream if there is no feed at this address at all."""
        await self.close()
        if not self.polls:
            self._feed = stream = EventStream(self._http, self._url)
            self._has_frame = False
            try:
                await stream.send(message)
            except NoStream:
                self.polls = True
            else:
                return
        self._feed = LongPoll(self._http, self._url)
        await self._feed.send(message)

    async def recv(self) -> bytes:
        assert self._feed is not None
        try:
            frame = await self._feed.recv()
        except StreamEnded:
            # A proxy that waits for the end of an answer passes no event on.
            self.polls = self.polls or not self._has_frame
            raise
        self._has_frame = True
        return frame

    async def close(self) -> None:
        if self._feed is not None:
            await self._feed.close()
