"""What the composition root hands to a queue."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.bus.port import Bus
from holdfast.clock import Clock
from holdfast.core.ids import Ids
from holdfast.store.store import Store


class Backend(NamedTuple):
    """A store and everything that is injected beside it."""

    store: Store
    bus: Bus
    clock: Clock
    ids: Ids
    host: str = ""
    """What this machine and process are called; '' asks the machine."""
