"""The context manager around a lease: the body runs while the lease is held.

Promises: a lost lease cancels the body once. Leaving after a loss raises LeaseLost unless the body raised
another error. A cancellation from elsewhere stays a cancellation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Generic, TypeVar

from holdfast.primitives.locks.lease import HeldLease

L = TypeVar("L", bound=HeldLease)


class Hold(Generic[L]):
    """What `locks.hold(...)` returns. Enter it once."""

    def __init__(self, acquire: Callable[[], Awaitable[L]], *, cancel_on_loss: bool) -> None:
        self._acquire = acquire
        self._cancel_on_loss = cancel_on_loss
        self._lease: L | None = None
        self._body: asyncio.Task[object] | None = None
        self._cancelling_before = 0
        self._is_cancelled = False

    async def __aenter__(self) -> L:
        lease = self._lease = await self._acquire()
        if self._cancel_on_loss:
            self._body = asyncio.current_task()
            self._cancelling_before = self._body.cancelling() if self._body else 0
            lease.when_lost(self._cancel)
        return lease

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        lease, body = self._lease, self._body
        assert lease is not None
        self._body = None
        is_own_cancel = False
        if self._is_cancelled and body is not None:
            is_last = body.uncancel() <= self._cancelling_before
            is_own_cancel = is_last and isinstance(error, asyncio.CancelledError)
            if error is None:
                await self._swallow_late_cancel(body)
        await lease.release()
        if lease.lost.is_set() and (error is None or is_own_cancel):
            raise lease.loss() from error

    def _cancel(self) -> None:
        if self._body is not None:
            self._is_cancelled = True
            self._body.cancel(f"the lease of '{self._lease and self._lease.resource}' is lost")

    async def _swallow_late_cancel(self, body: asyncio.Task[object]) -> None:
        """The body ended before the cancellation reached it, so the next await would raise it."""
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            if body.cancelling() > self._cancelling_before:
                raise
