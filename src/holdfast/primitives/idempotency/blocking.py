"""The ledger for blocking code: threads, scripts, WSGI.

Promises: those of `Ledger`. The effect runs in the thread of the caller; the store runs in an event loop in a
background thread. Any number of threads may share a ledger. Ctrl-C does not interrupt the begin or the end of
an entry: it is raised after the write.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, Unpack

from holdfast.core.callables import PLAIN_EFFECT, check_plain, plain
from holdfast.core.codec import Json
from holdfast.core.ledger import Answered, Entry, EntryLease
from holdfast.core.once import RunStep, Step
from holdfast.core.steps import drive, settled
from holdfast.portal import Portal
from holdfast.primitives.idempotency.calls import CLOSE_SECONDS, Options, Times
from holdfast.primitives.idempotency.ledger import Ledger


class BlockingLedger:
    """Each method is that of `Ledger`."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._portal = Portal("ledger")

    @classmethod
    def connect(cls, url: str, **options: Any) -> Self:
        """See `Ledger.connect`."""
        return cls(Ledger.connect(url, **options))

    def run(
        self,
        scope: str,
        operation: str,
        key: str,
        request: object,
        effect: Callable[[EntryLease], object],
        **options: Unpack[Options],
    ) -> Json:
        """See `Ledger.run`; the effect is a plain function."""
        check_plain("effect", effect, PLAIN_EFFECT)
        calls, portal = self._ledger.calls, self._portal
        call = calls.prepare(scope, operation, key, request, options)

        def perform(step: Step) -> object:
            if not isinstance(step, RunStep):
                return portal.finish(lambda: calls.perform(call, step))
            started_at = calls.clock.monotonic()
            renewal = None
            if call.tx is None:
                renewal = portal.submit(lambda: calls.renew_until_lost(step.lease))
            try:
                return plain("effect", effect(step.lease), PLAIN_EFFECT)
            finally:
                calls.observe_effect(step.lease, started_at)
                if renewal is not None:
                    renewal.cancel()

        answer: Json = drive(call.steps, perform)
        return answer

    def begin(
        self,
        scope: str,
        operation: str,
        key: str,
        request: object,
        *,
        tx: object = None,
        **times: Unpack[Times],
    ) -> EntryLease | Answered:
        return self._portal.call(
            lambda: self._ledger.begin(scope, operation, key, request, tx=tx, **times)
        )

    def finish(self, lease: EntryLease, value: object, *, tx: object = None) -> None:
        settled(self._portal.finish(lambda: self._ledger.finish(lease, value, tx=tx)))

    def fail(self, lease: EntryLease, error: BaseException, *, tx: object = None) -> None:
        settled(self._portal.finish(lambda: self._ledger.fail(lease, error, tx=tx)))

    def abandon(self, lease: EntryLease, *, tx: object = None) -> None:
        settled(self._portal.finish(lambda: self._ledger.abandon(lease, tx=tx)))

    def extend(self, lease: EntryLease, lease_seconds: float | None = None) -> None:
        self._portal.call(lambda: self._ledger.extend(lease, lease_seconds))

    def get(self, scope: str, operation: str, key: str) -> Entry | None:
        return self._portal.call(lambda: self._ledger.get(scope, operation, key))

    def unfinished(self, scope: str | None = None, *, limit: int = 100) -> list[Entry]:
        return self._portal.call(lambda: self._ledger.unfinished(scope, limit=limit))

    def prune(self, *, limit: int = 1000) -> int:
        return self._portal.call(lambda: self._ledger.prune(limit=limit))

    def close(self, *, wait: float = CLOSE_SECONDS) -> None:
        """See `Ledger.close`; waiting threads get NotRunning."""
        if not self._portal.is_closed:
            self._portal.call(lambda: self._ledger.close(wait=wait))
            self._portal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
