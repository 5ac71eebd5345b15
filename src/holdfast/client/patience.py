"""Requests of a caller that waits long: they outlast a gateway that restarts. An internal module.

Promises: while no gateway answers, the request is repeated for a bounded time and each repeat is announced.
A gateway that accepts a request and does not answer uses the same time. A refusal is raised at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar

from holdfast.client.problems import asks_to_retry
from holdfast.errors import HoldfastError, StoreUnavailable

if TYPE_CHECKING:
    from holdfast.client.http import Http

T = TypeVar("T")
PAUSE_SECONDS: Final = 1.0
"""The first pause after a request that failed. Each later one is twice as long."""
PAUSE_SECONDS_MAX: Final = 8.0


async def patiently(http: Http, request: Callable[[], Awaitable[T]], seconds: float | None) -> T:
    """The answer. `seconds`: how long to go on while no gateway answers; None: without end, 0: no repeat.
    The time counts from the first request, also while one waits for its answer."""
    clock = http.clock
    began_at = clock.monotonic()
    pause = PAUSE_SECONDS
    left = seconds or None
    while True:
        bound = asyncio.timeout(left)
        try:
            async with bound:
                return await request()
        except TimeoutError as error:
            if not bound.expired():
                raise
            raise http.frozen() from error
        except HoldfastError as error:
            if not is_passing(error):
                raise
            left = None if seconds is None else seconds - (clock.monotonic() - began_at)
            if left is not None and left <= 0:
                raise
            http.on_retry(f"{error}; trying again" + ("" if left is None else f" for {left:.0f} s"))
        await clock.sleep(pause if left is None else min(pause, left))
        left = None if seconds is None else max(0.0, seconds - (clock.monotonic() - began_at))
        pause = min(pause * 2, PAUSE_SECONDS_MAX)


def is_passing(error: HoldfastError) -> bool:
    """Whether the same request may succeed later."""
    return isinstance(error, StoreUnavailable) or asks_to_retry(error)
