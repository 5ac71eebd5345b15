"""For tests of code that uses Holdfast: the real engine, in virtual time, in memory.

    async with testing.harness(queue) as h:
        await send_email.enqueue("a@example.com")
        await h.run_until_idle()
        await h.advance(3600)

Nothing sleeps: time moves when the test says so, and everything that is due happens at its moment.
"""

from __future__ import annotations

from holdfast.clock import VirtualClock
from holdfast.testing.harness import Harness, harness

__all__ = ["Harness", "VirtualClock", "harness"]
