"""The ledger: runs an effect once for each (scope, operation, key) and answers repeats.

Promises: one caller runs the effect; the others get its answer, InProgress, or IdempotencyConflict if their
request differs. The lease of a running effect is renewed, and a caller that lost it cannot record an outcome.
With `tx` or `run_script` the entry and the effect commit together.
Never: deletes an entry before its retention ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Final, Self, TypeAlias, TypeVar, Unpack

from holdfast.clock import Clock, SystemClock
from holdfast.core import ledger as rules
from holdfast.core.address import check_address, memory_name
from holdfast.core.callables import answer_of
from holdfast.core.check import check_callable, check_name, check_page
from holdfast.core.codec import Json
from holdfast.core.ledger import Answered, Entry, EntryLease
from holdfast.core.once import RunStep, Step
from holdfast.core.steps import adrive
from holdfast.metrics import Meter, NullMeter
from holdfast.primitives.idempotency import metrics
from holdfast.primitives.idempotency.calls import CLOSE_SECONDS, CallRunner, Options, Times
from holdfast.store.backends import store_for
from holdfast.store.script import Script
from holdfast.store.store import Store

R = TypeVar("R")
Effect: TypeAlias = Callable[[EntryLease], Awaitable[object]]
LEASE_SECONDS: Final = 30.0
RETENTION_SECONDS: Final = 7 * 86_400.0


class Ledger:
    """A ledger over a store. `connect` also makes the store."""

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
        """`opened`: the caller opens and closes the store."""
        self.calls = CallRunner(
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
        """`sqlite:///file.db`, `postgresql://...`, or `memory://` (not shared). Connects on first use.
        `retention_seconds` must cover the longest time after which a caller may repeat a request."""
        in_memory = memory_name(check_address(url)) == ""
        make = store_for(
            "sqlite://" if in_memory else url,
            clock or SystemClock(),
            server_time=clock is None,
            inline=in_memory,
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
        """Connects. The first use does so implicitly; call it to fail early."""
        await self.calls.loops.open()

    async def close(self, *, wait: float = CLOSE_SECONDS) -> None:
        """Closes the ledger in this event loop; others are not affected. Waiting callers get NotRunning.
        Running effects get `wait` seconds to end and be recorded; the lease of a longer one expires."""
        await self.calls.loops.close(wait)

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
        """Runs the effect, or returns its recorded answer. Options: `wait`, `on_error`, `tx`,
        `lease_seconds`, `retention_seconds`. A plain effect blocks the event loop while it runs."""
        check_callable("effect", effect)
        calls = self.calls
        call = calls.prepare(scope, operation, key, request, options)

        async def perform(step: Step) -> object:
            if not isinstance(step, RunStep):
                return await calls.perform(call, step)
            started_at = calls.clock.monotonic()
            renewal = None
            if call.tx is None:
                renewal = asyncio.create_task(calls.renew_until_lost(step.lease))
            try:
                return await answer_of(effect(step.lease))
            finally:
                calls.observe_effect(step.lease, started_at)
                if renewal is not None:
                    renewal.cancel()

        answer: Json = await adrive(call.steps, perform)
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
        """Runs an effect that is a script of named statements on the ledger's store. The effect and its
        entry are one transaction. A larger script can yield from `store.scripts.ledger.once`."""
        check_callable("effect", effect)
        await self.open()
        entry_request = self.calls.entry_request(scope, operation, key, request, **times)
        has_run = False

        def counted_effect(lease: EntryLease) -> Script[object]:
            nonlocal has_run
            has_run = True
            return (yield from effect(lease))

        answer = await self.calls.entries.once(entry_request, counted_effect)
        self.calls.meter.count(metrics.MISSES if has_run else metrics.HITS, operation=operation)
        return answer

    def once(
        self, scope: str, operation: str, *, key: Callable[[Any], str], **options: Unpack[Options]
    ) -> Callable[[Callable[[EntryLease, R], Awaitable[object]]], Callable[[R], Awaitable[Json]]]:
        """Turns a function of (lease, request) into an idempotent function of the request."""
        check_callable("key", key)
        # Raises now what every call would raise.
        self.calls.prepare(scope, operation, "any", None, options)

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
        """Begins an entry: returns its lease, or the recorded answer. Raises InProgress and
        IdempotencyConflict. The caller renews the lease with `extend`."""
        entry_request = self.calls.entry_request(scope, operation, key, request, **times)
        verdict = await self.calls.begin(entry_request, tx)
        return verdict if isinstance(verdict, Answered) else rules.started(verdict)

    async def finish(self, lease: EntryLease, value: object, *, tx: object = None) -> None:
        """Records the answer. LeaseLost if another caller has taken over."""
        await self.calls.end(lease, rules.done(value), tx)

    async def fail(self, lease: EntryLease, error: BaseException, *, tx: object = None) -> None:
        """Records the failure as the answer."""
        await self.calls.end(lease, rules.failed(error), tx)

    async def abandon(self, lease: EntryLease, *, tx: object = None) -> None:
        """Frees the entry: the same request may run again at once."""
        await self.calls.end(lease, None, tx)

    async def extend(self, lease: EntryLease, lease_seconds: float | None = None) -> None:
        """Renews the lease from now. LeaseLost if another caller has taken over."""
        await self.open()
        await self.calls.entries.extend(lease, lease_seconds or lease.lease_seconds)

    async def get(self, scope: str, operation: str, key: str) -> Entry | None:
        await self.open()
        return await self.calls.entries.get(rules.entry_key(scope, operation, key))

    async def unfinished(self, scope: str | None = None, *, limit: int = 100) -> list[Entry]:
        """Entries whose caller died before it recorded an outcome, oldest first. Ask the external system by
        `entry.id`, then run the call again."""
        if scope is not None:
            check_name("scope", scope)
        check_page(limit)
        await self.open()
        return await self.calls.entries.unfinished(scope, limit)

    async def prune(self, *, limit: int = 1000) -> int:
        """Deletes entries whose retention has ended. A ledger in use does so regularly."""
        return await self.calls.prune(limit)
