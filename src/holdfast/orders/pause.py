"""How plain (not async) code lets time pass on the injected clock."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeAlias

from holdfast.clock import Clock, VirtualClock

Pause: TypeAlias = Callable[[float], None]


def pause_on(clock: Clock) -> Pause:
    """Waits; on virtual time it moves the clock instead."""
    if isinstance(clock, VirtualClock):
        return lambda seconds: clock.set(clock.now() + seconds)
    never = threading.Event()

    def wait(seconds: float) -> None:
        never.wait(seconds)

    return wait
