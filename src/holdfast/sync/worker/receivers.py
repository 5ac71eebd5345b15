"""The receivers of workers: a connection begins with the incarnation that it speaks for.

Promises: each start of a worker gets a higher incarnation than all before; a newer incarnation fences the
older ones in the commit that creates it; a repeated `Hello` of the same start gets the same answer.
"""

from __future__ import annotations

import msgspec

from holdfast.core.check import check_text, check_whole
from holdfast.core.wire import WHOLE_MAX
from holdfast.core.worker.protocol import Greeting, Receiver, greet
from holdfast.store.script import Script, call
from holdfast.store.store import Store
from holdfast.sync.worker.live_rows import own


class Start(msgspec.Struct, frozen=True):
    """The start of a worker process that says hello."""

    node: str
    incarnation: int
    boot_id: str
    registered: int = 0
    """The incarnation of the node's latest registration; 0 for none."""


async def hello(store: Store, start: Start) -> Greeting:
    """Answers a `Hello`: the receiver of this start, or why there is none."""
    check_whole("incarnation", start.incarnation, least=0, most=WHOLE_MAX)
    check_text("bootId", start.boot_id, most=200)
    return await store.run(lambda _, __, now: _hello(start, now))


def _hello(start: Start, now: float) -> Script[Greeting]:
    while True:
        rows = yield call(own("lock_receivers"), nodes=[start.node])
        known = Receiver(rows[0][1], rows[0][2]) if rows else None
        same_boot = bool(rows and start.boot_id and rows[0][3] == start.boot_id)
        greeting = greet(known, start.incarnation, same_boot=same_boot, registered=start.registered)
        if not greeting.is_new or greeting.receiver is None:
            return greeting
        written = yield call(
            own("put_receiver"),
            node=start.node,
            incarnation=greeting.receiver.incarnation,
            boot_id=start.boot_id,
            now=now,
        )
        if written:
            return greeting
        # Another connection of the node created the row meanwhile: it can be locked now.
