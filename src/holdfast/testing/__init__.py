"""For tests of code that uses Holdfast: the real engine, in virtual time, in memory.

    async with testing.harness(queue) as h:
        await send_email.enqueue("a@example.com")
        await h.run_until_idle()
        await h.advance(3600)

Nothing sleeps: time moves when the test says so, and everything that is due happens at its moment.
Names are imported when they are first used: the pytest plugin beside this is loaded with every pytest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.clock import VirtualClock
    from holdfast.testing.drive import NeverIdle
    from holdfast.testing.harness import Harness, harness
    from holdfast.testing.simulate import simulated

_PLACES = {
    "Harness": "holdfast.testing.harness",
    "NeverIdle": "holdfast.testing.drive",
    "VirtualClock": "holdfast.clock",
    "harness": "holdfast.testing.harness",
    "simulated": "holdfast.testing.simulate",
}

__all__ = ["Harness", "NeverIdle", "VirtualClock", "harness", "simulated"]


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'holdfast.testing' has no attribute '{name}'")
    import importlib

    value = getattr(importlib.import_module(place), name)
    globals()[name] = value
    return value
