"""Requests to a gateway.

Promises: a request whose answer was lost is repeated, at the next gateway if there are several; a write
carries an `Idempotency-Key`, so it takes effect once. A refusal raises its typed error at once, except one
that asks to retry. Each try has a bound: a gateway that accepts connections and does not answer is one that
is gone. Never: sends the token to another host than those given.
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import httpx2
import msgspec

from holdfast.client.address import check_token, read_addresses
from holdfast.client.calls import Answer, encoded, text_of
from holdfast.client.problems import asks_to_retry, problem
from holdfast.client.unanswered import no_answer, unanswered, unanswered_in_time, untrusted
from holdfast.clock import Clock
from holdfast.core.address import shown_url
from holdfast.core.errors import GatewayUnavailable
from holdfast.core.ids import Ids
from holdfast.core.watching import backoff_seconds
from holdfast.errors import HoldfastError, InvalidInput

TRIES: Final = 5
TIMEOUT_SECONDS: Final = 20.0
"""How long one try waits for its answer, beside the wait that the request asks for (`wait_seconds`)."""
CONNECT_SECONDS: Final = 5.0
POOL_SECONDS: Final = 60.0
"""How long a request waits for a free connection of this process: others may wait for their answers."""
WRITES: Final = frozenset({"POST", "PATCH", "PUT", "DELETE"})
_JSON: Final = {"content-type": "application/json"}
_DRY_RUN: Final = {"holdfast-dry-run": "true"}
log = logging.getLogger("holdfast.client")


def fresh_ids() -> Ids:
    """Ids of this process."""
    return Ids(random.SystemRandom())


class Http:
    """The connections to the gateways of one store."""

    def __init__(
        self,
        urls: Sequence[str],
        token: str | None,
        clock: Clock,
        ids: Ids,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        tries: int = TRIES,
        verify: ssl.SSLContext | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self.urls = [*read_addresses(urls).urls]
        self._has_tls = any(url.startswith("https://") for url in self.urls)
        self.token = None if token is None else check_token(token)
        self.clock = clock
        self.ids = ids
        self.verify = verify
        self.tries = tries
        self.read_seconds = timeout_seconds
        """The bound of a request that changes nothing. A command has a shorter one: see `cli.session`."""
        self.patience_seconds: float | None = None
        """How long a caller that waits for a task goes on while no gateway answers. None: without end."""
        self.on_retry: Callable[[str], None] = log.warning
        """Called with a line before a request is repeated because no answer came."""
        self._timeout_seconds = timeout_seconds
        self._turn = 0
        self._transport = transport
        self._clients: dict[asyncio.AbstractEventLoop, httpx2.AsyncClient] = {}

    @property
    def url(self) -> str:
        """The gateway in use."""
        return self.urls[self._turn]

    def next_gateway(self, failed: str) -> None:
        """Uses another gateway from now on, unless a concurrent call has already left the failed one."""
        if failed == self.url:
            self._turn = (self._turn + 1) % len(self.urls)

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
        wait_seconds: float = 0.0,
        dry_run: bool = False,
    ) -> Answer:
        """Sends a request until it is answered. Raises the error of the answer, or GatewayUnavailable.
        `wait_seconds`: how long the server may hold it, if the body says it and not the query."""
        sent = self.headers() | dict(headers or {})
        if method in WRITES:
            sent["idempotency-key"] = idempotency_key or self.ids.secret()
        sent |= _DRY_RUN if dry_run else {}
        sent |= _JSON if body is not None else {}
        params = {
            name: text_of(value) for name, value in (query or {}).items() if value is not None
        }
        content = None if body is None else encoded(body)
        failure: Exception | None = None
        refused: set[str] = set()
        for attempt in range(self.tries):
            if failure is not None:
                await self._pause(failure, attempt - 1)
            url = self.url
            try:
                answer = await self._client().request(
                    method,
                    url + path,
                    params=params,
                    content=content,
                    headers=sent,
                    timeout=self._timeout(method, query, wait_seconds),
                )
            except httpx2.LocalProtocolError:
                # Its text may have a header, and with it the token. Another try would end alike.
                raise InvalidInput(
                    "the request cannot be sent: one of its headers is not valid, e.g. an idempotency key "
                    "with a line break"
                ) from None
            except httpx2.TransportError as error:
                if (refusal := untrusted(shown_url(url), error)) is not None:
                    refused.add(url)
                    if len(refused) >= len(self.urls):
                        raise refusal from error
                failure = refusal or error
                self.next_gateway(url)
                self._say(attempt, url, error)
                continue
            if answer.is_success:
                return Answer(answer.status_code, _decoded(answer), answer.headers)
            failure = _refusal(answer)
            if not asks_to_retry(failure):
                raise failure
            if answer.status_code >= 500:
                self.next_gateway(url)
        if isinstance(failure, HoldfastError):
            raise failure
        raise unanswered(self._names, failure) from failure

    @property
    def _names(self) -> str:
        return ", ".join(shown_url(url) for url in self.urls)

    def frozen(self) -> GatewayUnavailable:
        """The error for gateways that accept a request and do not answer it."""
        return unanswered_in_time(self._names)

    def stream(
        self, url: str, query: Mapping[str, str], read_seconds: float
    ) -> AbstractAsyncContextManager[httpx2.Response]:
        """The answer to a GET whose body is read as it comes. It is not repeated."""
        timeout = httpx2.Timeout(
            self._timeout_seconds, connect=CONNECT_SECONDS, read=read_seconds, pool=POOL_SECONDS
        )
        headers = self.headers() | {"accept": "text/event-stream"}
        return self._client().stream("GET", url, params=query, headers=headers, timeout=timeout)

    def _say(self, attempt: int, url: str, error: Exception) -> None:
        """Announces the next try, if there is one."""
        if attempt + 1 < self.tries:
            self.on_retry(f"{no_answer(shown_url(url), error)}; trying again")

    def _timeout(
        self, method: str, query: Mapping[str, object] | None, wait_seconds: float
    ) -> httpx2.Timeout:
        """The bounds of one try."""
        seconds = self._timeout_seconds if method in WRITES else self.read_seconds
        wait = (query or {}).get("wait_seconds", wait_seconds)
        read = seconds + (float(wait) if isinstance(wait, int | float) else 0.0)
        connect = min(seconds, CONNECT_SECONDS)
        return httpx2.Timeout(seconds, connect=connect, read=read, pool=POOL_SECONDS)

    async def _pause(self, failure: Exception, failures: int) -> None:
        seconds = failure.__dict__.get("retry_after_seconds")
        retry_after_ms = None if seconds is None else seconds * 1_000
        await self.clock.sleep(backoff_seconds(failures, self.ids.random_unit(), retry_after_ms))

    def _client(self) -> httpx2.AsyncClient:
        """The client of this event loop: its connections belong to the loop."""
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client = httpx2.AsyncClient(
                timeout=self._timeout_seconds,
                transport=self._transport,
                # Without TLS there is nothing to verify, and reading the authorities takes time.
                verify=self._has_tls if self.verify is None else self.verify,
                follow_redirects=False,
                # No proxy and no password file of the environment gets the token.
                trust_env=False,
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


def _refusal(answer: httpx2.Response) -> HoldfastError:
    named = answer.headers.get("retry-after", "")
    seconds = float(named) if named.isdigit() and len(named) < 10 else None
    return problem(answer.status_code, _decoded(answer), retry_after_seconds=seconds)


def _decoded(answer: httpx2.Response) -> Any:
    if "json" not in answer.headers.get("content-type", ""):
        return answer.text
    try:
        return msgspec.json.decode(answer.content)
    except msgspec.DecodeError:
        return answer.text
