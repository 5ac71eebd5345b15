"""Renews the leases of a remote worker whose event loop is blocked, from the thread of the watchdog.

Promises: those of `engine/lease_keeper.py`, through worker sync over plain HTTP: a request beside the
connection of the link, which goes on. What was renewed counts for the deadlines of the worker. While the link
has never connected, or another incarnation of the node exists, nothing is renewed.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Final

import httpx2
import msgspec

from holdfast.clock import Clock
from holdfast.core.codec import dumps
from holdfast.core.lease import renewal_interval
from holdfast.core.loop_block import LoopBlock
from holdfast.core.task import RunId
from holdfast.core.worker.wire import ErrorFrame, GatewayMessage, Renew, Renewed
from holdfast.engine.lease_keeper import NOT_KEPT, KeptRuns
from holdfast.remote.channel import error_of, log
from holdfast.remote.heartbeat import RUNS_MAX
from holdfast.remote.leases import Leases
from holdfast.remote.requests import Greeting, Renewal, held_of

PATH: Final = "/api/v1/worker/sync"


class Answers(msgspec.Struct):
    """The body of an answer."""

    messages: list[GatewayMessage]


class GatewayKeeper:
    """Keeps leases over HTTP."""

    def __init__(
        self,
        clock: Clock,
        runs: KeptRuns,
        leases: Leases,
        greeting: Callable[[], Greeting],
        *,
        slots: int,
        lease_seconds: float,
        tls: ssl.SSLContext | None,
    ) -> None:
        """`greeting`: how this worker greets its gateway, for any thread."""
        self._clock = clock
        self._runs = runs
        self._leases = leases
        self._greeting = greeting
        self._slots = slots
        self._lease_seconds = lease_seconds
        self._tls = tls
        self._http: httpx2.Client | None = None
        self._has_failed = False

    def keep(self, block: LoopBlock) -> bool:
        try:
            greeting = self._greeting()
            if not greeting.hello.incarnation:
                return False
            return self._renew(greeting, self._runs.during(block), block)
        except Exception as error:
            if not self._has_failed:
                log.warning(NOT_KEPT, error)
            self._has_failed = True
            return False

    def _renew(self, greeting: Greeting, runs: list[RunId], block: LoopBlock) -> bool:
        body = {"messages": [greeting.hello, *self._messages(runs, block)]}
        sent_at = self._clock.monotonic()
        answer = self._client().post(
            greeting.url + PATH,
            content=msgspec.json.encode(body),
            headers={
                "authorization": f"Bearer {greeting.token}",
                "content-type": "application/json",
            },
        )
        answer.raise_for_status()
        kept: set[RunId] = set()
        for message in msgspec.json.decode(answer.content, type=Answers).messages:
            if isinstance(message, ErrorFrame):
                raise error_of(message)
            if isinstance(message, Renewed):
                renewed = {RunId(run.task_id, run.fence) for run in message.kept}
                self._leases.renewed_aside(Renewal(sent_at, renewed, message.lease_ms / 1000))
                kept |= renewed
        return kept.issuperset(runs)

    def _messages(self, runs: list[RunId], block: LoopBlock) -> list[Renew]:
        return [
            Renew(
                held=held_of(runs[start : start + RUNS_MAX]),
                lease_ms=int(self._lease_seconds * 1000),
                running=len(runs),
                slots=self._slots,
                blocked_json=dumps(block),
            )
            for start in range(0, len(runs) or 1, RUNS_MAX)
        ]

    def _client(self) -> httpx2.Client:
        if self._http is None:
            self._http = httpx2.Client(
                verify=True if self._tls is None else self._tls,
                timeout=renewal_interval(self._lease_seconds),
                trust_env=False,
            )
        return self._http

    def end(self) -> None:
        client, self._http, self._has_failed = self._http, None, False
        self._runs.end()
        if client is not None:
            client.close()
