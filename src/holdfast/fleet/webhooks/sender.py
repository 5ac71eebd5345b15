"""Delivers messages to endpoints.

Promises: a delivery is tried by one process at a time; one whose process died is tried again when its claim
has ended. An endpoint that is slow or down delays no other. Failed attempts are repeated after the pauses of
`webhook_rules`, then given up. An endpoint that answers 410 is disabled.
Never: delivers to an endpoint that was disabled or removed when the attempt began.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final

from msgspec.structs import replace

from holdfast.clock import Clock
from holdfast.core.fleet.model import OutboxEntry, Webhook, WebhookDirection, WebhookState
from holdfast.core.fleet.webhooks import signature
from holdfast.core.fleet.webhooks.rules import (
    ERROR_CHARS_MAX,
    DeliveryVerdict,
    retry_seconds,
)
from holdfast.engine.loop import Loop
from holdfast.errors import NotFound, StoreUnavailable, VersionConflict
from holdfast.fleet.webhooks import figures, keys, scripts
from holdfast.fleet.webhooks.http import Attempt, WebhookHttp
from holdfast.fleet.webhooks.webhooks import read_message
from holdfast.metrics import Meter, NullMeter
from holdfast.queue.by import By
from holdfast.store.store import Store

CLAIM_SECONDS: Final = 60.0
"""How long a claimed delivery is left to its process: longer than an attempt."""
AT_ONCE: Final = 4
"""Attempts for one endpoint at the same time."""
LOOK_SECONDS: Final = 5.0
"""How often the outbox is read without a hint."""
ACTOR: Final = "webhooks"
log = logging.getLogger("holdfast.webhooks")


class WebhookSender(Loop):
    """Delivers what is due, each endpoint in a task."""

    name = "webhook-sender"

    def __init__(
        self,
        store: Store,
        http: WebhookHttp,
        clock: Clock,
        *,
        owner: str,
        meter: Meter | None = None,
    ) -> None:
        super().__init__(clock)
        self._meter: Meter = NullMeter() if meter is None else meter
        self._store = store
        self._http = http
        self._owner = owner
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.delivered = 0
        self.failed = 0

    async def tick(self) -> float:
        due = await self._store.read(scripts.next_due)
        now = self._store.now()
        if due is None or due > now:
            return LOOK_SECONDS if due is None else min(LOOK_SECONDS, due - now)
        for endpoint in await self._store.read(lambda: scripts.active(WebhookDirection.OUT)):
            task = self._tasks.get(endpoint.id)
            if task is None or task.done():
                self._tasks[endpoint.id] = asyncio.create_task(self._serve(endpoint.id))
        self._tasks = {id: task for id, task in self._tasks.items() if not task.done()}
        return LOOK_SECONDS / 5

    async def run(self) -> None:
        try:
            await super().run()
        finally:
            await self.stop()

    async def settle(self) -> None:
        """Waits for the attempts that have begun, and for what they find due."""
        await asyncio.gather(*self._tasks.values())

    async def stop(self) -> None:
        """Ends attempts. Their deliveries are due again when their claims have ended."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()

    async def _serve(self, webhook_id: str) -> None:
        try:
            await self.guard(f"endpoint {webhook_id}", self._deliver_all(webhook_id))
        except StoreUnavailable as error:
            log.warning("webhook %s: the store is unavailable: %s", webhook_id, error)

    async def _deliver_all(self, webhook_id: str) -> None:
        """Delivers until nothing is due for the endpoint."""
        while True:
            try:
                endpoint = await self._store.read(lambda: scripts.read(webhook_id))
            except NotFound:
                return
            if endpoint.state is not WebhookState.ACTIVE:
                return
            entries = await self._store.run(
                lambda _dialect, _ids, now: scripts.claim(
                    now,
                    webhook_id=webhook_id,
                    owner=self._owner,
                    until=now + CLAIM_SECONDS,
                    limit=AT_ONCE,
                )
            )
            if not entries:
                return
            await asyncio.gather(*(self._attempt(endpoint, entry) for entry in entries))

    async def _attempt(self, endpoint: Webhook, entry: OutboxEntry) -> None:
        message = read_message(entry)
        body = message.body.encode()
        signed = signature.sign(
            endpoint.secrets,
            message.id,
            self._store.now(),
            body,
            signers=keys.signers_of(endpoint.secrets),
        )
        headers = {
            "content-type": "application/json",
            "user-agent": "holdfast-webhooks",
            **signed.headers(),
        }
        attempt = await self._http.send(endpoint.url, headers, body)
        if attempt.verdict is DeliveryVerdict.GONE and not await self._is_current(endpoint):
            attempt = replace(attempt, verdict=DeliveryVerdict.FAILED)
        await self._write(endpoint, entry, message.id, attempt)

    async def _write(
        self, endpoint: Webhook, entry: OutboxEntry, message: str, attempt: Attempt
    ) -> None:
        now = self._store.now()
        done_at: float | None = now
        due_at, error = entry.due_at, attempt.error[:ERROR_CHARS_MAX]
        outcome = attempt.verdict.value
        if attempt.verdict is DeliveryVerdict.DELIVERED:
            self.delivered += 1
        else:
            self.failed += 1
            pause = retry_seconds(message, entry.attempts, asked=attempt.retry_after_seconds)
            if attempt.verdict is DeliveryVerdict.FAILED and pause is not None:
                done_at, due_at = None, now + pause
            elif attempt.verdict is DeliveryVerdict.FAILED:
                outcome = "given_up"
            log.warning(
                "webhook %s: attempt %d of %s failed: %s",
                endpoint.id,
                entry.attempts,
                message,
                error,
            )
        await self._store.run(
            lambda *_: scripts.end_delivery(entry, done_at=done_at, due_at=due_at, error=error),
            repeatable=True,
        )
        figures.count_out(self._meter, outcome)
        if attempt.verdict is DeliveryVerdict.GONE:
            await self._disable(endpoint)

    async def _is_current(self, endpoint: Webhook) -> bool:
        try:
            now = await self._store.read(lambda: scripts.read(endpoint.id))
        except NotFound:
            return True
        return now.version == endpoint.version

    async def _disable(self, endpoint: Webhook) -> None:
        """Unless the endpoint was edited since: the answer is about what it was."""
        by = By(ACTOR, "the endpoint answered 410: it wants no more", endpoint.version)
        fields = {"state": WebhookState.DISABLED}
        try:
            await self._store.run(
                partial(scripts.change, webhook_id=endpoint.id, fields=fields, head=None, by=by)
            )
        except NotFound:
            log.info("webhook %s was removed before it was disabled", endpoint.id)
        except VersionConflict:
            log.info("webhook %s was edited before it was disabled: it stays as it is", endpoint.id)
