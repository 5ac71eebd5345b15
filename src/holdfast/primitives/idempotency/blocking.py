"""The same ledger for callers that block: threads, scripts, WSGI.

Promises: what `Ledger` does; the effect runs in the caller's own thread. The store is driven by an event
loop in a thread of its own. Any number of threads may share one. Ctrl-C does not break off the writing of a
beginning or an end: the interrupt is raised after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, Unpack

from holdfast.core.check import check_callable
from holdfast.core.codec import Json
from holdfast.core.ledger import Answered, Entry, EntryLease
from holdfast.core.once import RunStep, Step
from holdfast.core.steps import drive, settled
from holdfast.primitives.idempotency.desk import CLOSE_SECONDS, Options, Times
from holdfast.primitives.idempotency.ledger import Ledger
from holdfast.primitives.portal import Portal


class BlockingLedger:
    """Thin: every verb is `Ledger`'s."""

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
        check_callable("effect", effect)
        desk, portal = self._ledger.desk, self._portal
        call = desk.prepare(scope, operation, key, request, options)

        def perform(step: Step) -> object:
            if not isinstance(step, RunStep):
                return portal.finish(lambda: desk.perform(call, step))
            begun = desk.clock.monotonic()
            keeping = None if call.tx is not None else portal.submit(lambda: desk.keep(step.lease))
            try:
                return effect(step.lease)
            finally:
                desk.ran(step.lease, begun)
                if keeping is not None:
                    keeping.cancel()

        answer: Json = drive(call.flow, perform)
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
        """See `Ledger.close`; threads that wait get NotRunning."""
        if not self._portal.is_closed:
            self._portal.call(lambda: self._ledger.close(wait=wait))
            self._portal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
