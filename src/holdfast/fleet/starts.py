"""Starts of executions and changes that forbid some, one after the other.

A batch of syncs shares the right to let executions start. A transaction after whose commit a host must not
start (another block, a host that is taken out of service) holds all starts: it waits for the batches under
way, and batches that begin before its commit start nothing.
Promises: a start commits before such a change, or its batch sees the change. A batch never waits.
With one writer this is so without a lock.
"""

from __future__ import annotations

from typing import Final

from holdfast.fleet.rows import own
from holdfast.store.script import Script, call

HOLD_SECONDS: Final = 5.0
"""How long a change waits for the batches under way, in one try."""


def share_starts() -> Script[bool]:
    """Whether executions may start in this transaction. To be asked before what forbids a start is read."""
    return bool((yield call(own("share_starts")))[0][0])


def hold_starts() -> Script[None]:
    """No execution starts between here and the commit. Waits for batches, which lock no rows behind this."""
    yield call(own("hold_starts"), wait=f"{HOLD_SECONDS:g}s")
