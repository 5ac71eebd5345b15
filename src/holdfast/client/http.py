"""Requests to a gateway.

Promises: a request whose answer was lost is repeated, at the next gateway if there are several; a write
carries an `Idempotency-Key`, so it takes effect once. A refusal raises its typed error at once, except one
that asks to retry. Never: sends the token to another host than those given.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import httpx2
import msgspec

from holdfast.client.problems import problem
from holdfast.clock import Clock
from holdfast.core.address import shown_url
from holdfast.core.ids import Ids
from holdfast.core.watching import backoff_seconds
from holdfast.errors import BadConfig, HoldfastError, StoreUnavailable

TRIES: Final = 5
TIMEOUT_SECONDS: Final = 40.0
"""Longer than the longest wait that a request may ask for."""
WRITES: Final = frozenset({"POST", "PATCH", "PUT", "DELETE"})


def fresh_ids() -> Ids:
    """Ids of this process."""
    return Ids(random.SystemRandom())


class GatewayUnavailable(StoreUnavailable):
    """No gateway could be reached."""

    code = "gateway-unavailable"


class Answer(msgspec.Struct, frozen=True):
    """A successful answer."""

    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def position(self) -> str | None:
        """The position of the feed that the answer is at least as new as."""
        return self.headers.get("holdfast-position")


class Http:
    """The connections to the gateways of one store."""

    def __init__(
        self,
        urls: Sequence[str],
        token: str | None,
        clock: Clock,
        ids: Ids,
        *,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self.urls = [checked_url(url) for url in urls]
        self.token = token
        self.clock = clock
        self.ids = ids
        self._turn = 0
        self._transport = transport
        self._clients: dict[asyncio.AbstractEventLoop, httpx2.AsyncClient] = {}

    @property
    def url(self) -> str:
        """The gateway in use."""
        return self.urls[self._turn % len(self.urls)]

    def next_gateway(self) -> None:
        """Uses another gateway from now on, after this one failed."""
        self._turn += 1

    def headers(self) -> dict[str, str]:
        return {} if self.token is None else {"authorization": f"Bearer {self.token}"}

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
    ) -> Answer:
        """Sends a request until it is answered. Raises the error of the answer, or GatewayUnavailable."""
        sent = self.headers() | dict(headers or {})
        if method in WRITES:
            sent["idempotency-key"] = idempotency_key or self.ids.secret()
        params = {name: _text(value) for name, value in (query or {}).items() if value is not None}
        content = None
        if body is not None:
            content = msgspec.json.encode(body)
            sent["content-type"] = "application/json"
        failure: Exception | None = None
        for attempt in range(TRIES):
            if failure is not None:
                await self._pause(failure, attempt)
            try:
                answer = await self._client().request(
                    method, self.url + path, params=params, content=content, headers=sent
                )
            except httpx2.TransportError as error:
                failure = error
                self.next_gateway()
                continue
            if answer.is_success:
                return Answer(answer.status_code, _decoded(answer), answer.headers)
            failure = problem(answer.status_code, _decoded(answer))
            failure.__dict__["retry_after"] = answer.headers.get("retry-after")
            if not _is_retryable(answer.status_code, failure):
                raise failure
            if answer.status_code >= 500:
                self.next_gateway()
        if isinstance(failure, HoldfastError):
            raise failure
        names = ", ".join(shown_url(url) for url in self.urls)
        raise GatewayUnavailable(
            f"no gateway answers at {names}: {failure!r}; is `holdfast server` running there?"
        )

    async def _pause(self, failure: Exception, attempt: int) -> None:
        named = failure.__dict__.get("retry_after")
        retry_after_ms = float(named) * 1_000 if named and named.isdigit() else None
        jitter = self.ids.random_unit()
        await self.clock.sleep(backoff_seconds(attempt - 1, jitter, retry_after_ms))

    def _client(self) -> httpx2.AsyncClient:
        """The client of this event loop: its connections belong to the loop."""
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client = httpx2.AsyncClient(
                timeout=TIMEOUT_SECONDS, transport=self._transport, follow_redirects=False
            )
            self._clients = {
                other: kept for other, kept in self._clients.items() if not other.is_closed()
            }
            self._clients[loop] = client
        return client

    async def close(self) -> None:
        """Closes the connections of this event loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()


def checked_url(url: str) -> str:
    """The base address of a gateway, without a slash at its end. `holdfast://` stands for `http://`,
    `holdfasts://` for `https://`."""
    for short, long in (("holdfast://", "http://"), ("holdfasts://", "https://")):
        if url.startswith(short):
            url = long + url.removeprefix(short)
    parsed = httpx2.URL(url)
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.userinfo:
        raise BadConfig(
            f"'{shown_url(url)}' is not the address of a gateway: write http://host:8787 and give the token "
            "apart"
        )
    return url.rstrip("/")


def path_of(*parts: str) -> str:
    """A path of the API, with the parts encoded."""
    return "/".join(["/api/v1", *(quote(part, safe="") for part in parts)])


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _decoded(answer: httpx2.Response) -> Any:
    if "json" not in answer.headers.get("content-type", ""):
        return answer.text
    try:
        return msgspec.json.decode(answer.content)
    except msgspec.DecodeError:
        return answer.text


def _is_retryable(status: int, failure: HoldfastError) -> bool:
    return status in (429, 502, 503, 504) or failure.code == "in-progress"
