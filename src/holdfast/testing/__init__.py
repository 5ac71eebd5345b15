"""Test support for applications: the real engine, in memory and in virtual time.

    async with testing.harness(queue) as h:
        await send_email.enqueue("a@example.com")
        await h.run_until_idle()
        await h.advance(3600)

Nothing sleeps: time moves only when the test advances it, and work runs at its due time. Names are imported
on first use, because pytest loads the plugin in this package in every session. Its modules are
internal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.clock import VirtualClock
    from holdfast.testing._drive import NeverIdle
    from holdfast.testing._simulate import simulated
    from holdfast.testing._virtual_time import Harness, harness

_MODULES = {
    "Harness": "holdfast.testing._virtual_time",
    "NeverIdle": "holdfast.testing._drive",
    "VirtualClock": "holdfast.clock",
    "harness": "holdfast.testing._virtual_time",
    "simulated": "holdfast.testing._simulate",
}

__all__ = ["Harness", "NeverIdle", "VirtualClock", "harness", "simulated"]


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'holdfast.testing' has no attribute '{name}'")
    import importlib

    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value
