"""The ledger that callers hold.

Promises: of all callers with one (scope, operation, key) one runs the effect, the others get its answer, a
typed InProgress, or IdempotencyConflict when they ask for something else; the lease of a running effect is
renewed; whoever was taken over cannot write its outcome; with `tx` or `run_script` the record commits with
the effect. Never: forgets an entry before its retention is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Final, Self, TypeAlias, TypeVar, Unpack

from holdfast.clock import Clock, SystemClock
from holdfast.core import ledger as rules
from holdfast.core.check import check_callable, check_name, check_page
from holdfast.core.codec import Json
from holdfast.core.ledger import Answered, Entry, EntryLease
from holdfast.core.once import RunStep, Step
from holdfast.core.steps import adrive
from holdfast.primitives.idempotency import metrics
from holdfast.primitives.idempotency.desk import CLOSE_SECONDS, Desk, Options, Times
from holdfast.primitives.metrics import Meter, NullMeter
from holdfast.store.backends import store_for
from holdfast.store.script import Script
from holdfast.store.store import Store

R = TypeVar("R")
Effect: TypeAlias = Callable[[EntryLease], Awaitable[object]]
LEASE_SECONDS: Final = 30.0
RETENTION_SECONDS: Final = 7 * 86_400.0


class Ledger:
    """Over a store; `connect` makes one with a store of its own."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock | None = None,
        opened: bool = True,
        owner: str | None = None,
        lease_seconds: float = LEASE_SECONDS,
        retention_seconds: float = RETENTION_SECONDS,
        meter: Meter | None = None,
    ) -> None:
        """`opened`: somebody else opens and closes the store."""
        self.desk = Desk(
            store,
            clock or SystemClock(),
            meter or NullMeter(),
            opened=opened,
            owner=owner,
            lease_seconds=lease_seconds,
            retention_seconds=retention_seconds,
        )

    @classmethod
    def connect(
        cls,
        url: str,
        *,
        clock: Clock | None = None,
        owner: str | None = None,
        lease_seconds: float = LEASE_SECONDS,
        retention_seconds: float = RETENTION_SECONDS,
        meter: Meter | None = None,
    ) -> Self:
        """`sqlite:///file.db`, `postgresql://...`, or `memory://` for this ledger alone. Opened when first
        used. `retention_seconds` must cover the longest time after which a caller may still repeat."""
        alone = url == "memory://"
        make = store_for(
            "sqlite://" if alone else url,
            clock or SystemClock(),
            server_time=clock is None,
            inline=alone,
        )
        return cls(
            make(),
            clock=clock,
            opened=False,
            owner=owner,
            lease_seconds=lease_seconds,
            retention_seconds=retention_seconds,
            meter=meter,
        )

    async def open(self) -> None:
        """Done by itself when first needed; call it to fail early."""
        await self.desk.open()

    async def close(self, *, wait: float = CLOSE_SECONDS) -> None:
        """Ends it for good. Callers that wait for another one get NotRunning; effects that run have `wait`
        seconds to end and are recorded; the lease of one that takes longer has to run out."""
        await self.desk.close(wait)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- calls -------------------------------------------------------------------------------------

    async def run(
        self,
        scope: str,
        operation: str,
        key: str,
        request: object,
        effect: Effect,
        **options: Unpack[Options],
    ) -> Json:
        """Runs the effect, or gives the answer that it had. Options: `wait`, `on_error`, `tx`,
        `lease_seconds`, `retention_seconds`."""
        check_callable("effect", effect)
        desk = self.desk
        call = desk.prepare(scope, operation, key, request, options)

        async def perform(step: Step) -> object:
            if not isinstance(step, RunStep):
                return await desk.perform(call, step)
            begun = desk.clock.monotonic()
            keeping = None if call.tx is not None else asyncio.create_task(desk.keep(step.lease))
            try:
                return await effect(step.lease)
            finally:
                desk.ran(step.lease, begun)
                if keeping is not None:
                    keeping.cancel()

        answer: Json = await adrive(call.flow, perform)
        return answer

    async def run_script(
        self,
        scope: str,
        operation: str,
        key: str,
        request: object,
        effect: Callable[[EntryLease], Script[object]],
        **times: Unpack[Times],
    ) -> Json:
        """The effect is a script of named statements on the ledger's own store: it and its record are one
        transaction. Whoever composes a larger one yields from `store.scripts.ledger.once`."""
        check_callable("effect", effect)
        await self.open()
        ask = self.desk.ask(scope, operation, key, request, **times)
        ran = False

        def noted(lease: EntryLease) -> Script[object]:
            nonlocal ran
            ran = True
            return (yield from effect(lease))

        answer = await self.desk.entries.once(ask, noted)
        self.desk.meter.count(metrics.MISSES if ran else metrics.HITS, operation=operation)
        return answer

    def once(
        self, scope: str, operation: str, *, key: Callable[[Any], str], **options: Unpack[Options]
    ) -> Callable[[Callable[[EntryLease, R], Awaitable[object]]], Callable[[R], Awaitable[Json]]]:
        """Makes a function of (turn, request) an idempotent function of the request."""
        check_callable("key", key)
        self.desk.prepare(
            scope, operation, "any", None, options
        )  # refuses now what every call would be refused

        def wrap(
            function: Callable[[EntryLease, R], Awaitable[object]],
        ) -> Callable[[R], Awaitable[Json]]:
            @wraps(function)
            async def called(request: R) -> Json:
                def effect(lease: EntryLease) -> Awaitable[object]:
                    return function(lease, request)

                return await self.run(scope, operation, key(request), request, effect, **options)

            return called

        return wrap

    # -- verbs -------------------------------------------------------------------------------------

    async def begin(
        self,
        scope: str,
        operation: str,
        key: str,
        request: object,
        *,
        tx: object = None,
        **times: Unpack[Times],
    ) -> EntryLease | Answered:
        """The turn, or the answer that is there. InProgress and IdempotencyConflict are raised. The lease
        is the caller's to renew (`extend`)."""
        verdict = await self.desk.begin(self.desk.ask(scope, operation, key, request, **times), tx)
        return verdict if isinstance(verdict, Answered) else rules.started(verdict)

    async def finish(self, lease: EntryLease, value: object, *, tx: object = None) -> None:
        """Keeps the answer; LeaseLost when the turn was taken over."""
        await self.desk.end(lease, rules.done(value), tx)

    async def fail(self, lease: EntryLease, error: BaseException, *, tx: object = None) -> None:
        """Keeps the failure as the answer."""
        await self.desk.end(lease, rules.failed(error), tx)

    async def abandon(self, lease: EntryLease, *, tx: object = None) -> None:
        """Gives the turn up: the same request may try again at once."""
        await self.desk.end(lease, None, tx)

    async def extend(self, lease: EntryLease, lease_seconds: float | None = None) -> None:
        """Renews the lease from now on; LeaseLost when the turn was taken over."""
        await self.open()
        await self.desk.entries.extend(lease, lease_seconds or lease.lease_seconds)

    async def get(self, scope: str, operation: str, key: str) -> Entry | None:
        await self.open()
        return await self.desk.entries.get(rules.entry_key(scope, operation, key))

    async def unfinished(self, scope: str | None = None, *, limit: int = 100) -> list[Entry]:
        """Calls whose caller died before their end was written, the oldest first. Ask the outside by
        `entry.id`, then run the call again."""
        if scope is not None:
            check_name("scope", scope)
        check_page(limit)
        await self.open()
        return await self.desk.entries.unfinished(scope, limit)

    async def prune(self, *, limit: int = 1000) -> int:
        """Forgets entries whose retention is over; a ledger in use does it by the way."""
        return await self.desk.prune(limit)
