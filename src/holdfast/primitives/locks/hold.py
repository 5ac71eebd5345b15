"""`async with` around a lease: the body runs while it holds, and is stopped when it does not.

Promises: on loss the body is cancelled, once; leaving after a loss raises LeaseLost, unless the body raised
something of its own; a cancellation that came from elsewhere goes its way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Generic, TypeVar

from holdfast.primitives.locks.lease import HeldLease

L = TypeVar("L", bound=HeldLease)


class Hold(Generic[L]):
    """One use of a lease. Enter it once."""

    def __init__(self, acquire: Callable[[], Awaitable[L]], *, cancel_on_loss: bool) -> None:
        self._acquire = acquire
        self._cancel_on_loss = cancel_on_loss
        self._lease: L | None = None
        self._body: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._cancelled = False

    async def __aenter__(self) -> L:
        lease = self._lease = await self._acquire()
        if self._cancel_on_loss:
            self._body = asyncio.current_task()
            self._cancelling = self._body.cancelling() if self._body else 0
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
        ours = False
        if self._cancelled and body is not None:
            is_last = body.uncancel() <= self._cancelling
            ours = is_last and isinstance(error, asyncio.CancelledError)
            if error is None:
                await self._swallow_late_cancel(body)
        await lease.release()
        if lease.lost.is_set() and (error is None or ours):
            raise lease.loss() from error

    def _cancel(self) -> None:
        if self._body is not None:
            self._cancelled = True
            self._body.cancel(f"the lease of '{self._lease and self._lease.resource}' is lost")

    async def _swallow_late_cancel(self, body: asyncio.Task[object]) -> None:
        """The body ended before our cancellation reached it: it would come at the next await."""
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            if body.cancelling() > self._cancelling:
                raise
