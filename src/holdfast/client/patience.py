"""Requests of a caller that waits long: they outlast a gateway that restarts. An internal module.

Promises: while no gateway answers, the request is repeated for a bounded time and each repeat is announced.
A refusal is raised at once.
"""

from __future__ import annotations

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
    """The answer. `seconds`: how long to go on while no gateway answers; None: without end."""
    clock = http.clock
    failed_at: float | None = None
    pause = PAUSE_SECONDS
    while True:
        try:
            return await request()
        except HoldfastError as error:
            if not is_passing(error):
                raise
            now = clock.monotonic()
            failed_at = now if failed_at is None else failed_at
            left = None if seconds is None else seconds - (now - failed_at)
            if left is not None and left <= 0:
                raise
            http.on_retry(f"{error}; trying again" + ("" if left is None else f" for {left:.0f} s"))
        await clock.sleep(pause if left is None else min(pause, left))
        pause = min(pause * 2, PAUSE_SECONDS_MAX)


def is_passing(error: HoldfastError) -> bool:
    """Whether the same request may succeed later."""
    return isinstance(error, StoreUnavailable) or asks_to_retry(error)
