"""The checks of `holdfast doctor` on the fleet.

Promises: a check never changes the store, and looks at counts, not at hosts one by one. A store without hosts
has nothing to complain about.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.fleet.model import AFTER_SLOTS, SLOT
from holdfast.core.fleet.rules import FleetRules
from holdfast.core.length import length
from holdfast.core.plural import noun_for
from holdfast.fleet.jobs import figures
from holdfast.fleet.rows import own
from holdfast.queue.check import Check, Level
from holdfast.store.script import Script, call
from holdfast.store.store import Store

SLOT_SECONDS: Final = 86_400.0
"""A slot that is held for longer is worth a look."""
OUTBOX_SECONDS: Final = 60.0
"""An entry of the outbox that is due for longer waits for a process that is not there."""


async def check_fleet(store: Store, rules: FleetRules) -> list[Check]:
    """The results of all checks of the fleet."""
    now = store.now()
    silent, slots = await store.read(lambda: _read(now, rules))
    return [_agents(*silent, now), _slots(*slots, now), await _outbox(store, now)]


Found = tuple[int, float | None]


def _read(now: float, rules: FleetRules) -> Script[tuple[Found, Found]]:
    [silent] = yield call(own("silent_agents"), since=now - rules.silent_seconds)
    [slots] = yield call(own("old_slots"), first=SLOT, last=AFTER_SLOTS, before=now - SLOT_SECONDS)
    return (silent[0], silent[1]), (slots[0], slots[1])


def _agents(n: int, seen_at: float | None, now: float) -> Check:
    if not n or seen_at is None:
        return Check("agents", Level.OK, "every enrolled agent was heard of lately")
    text = f"{n} not heard of, one for {length(now - seen_at)}: see `holdfast host list`"
    return Check("agents", Level.WARN, text)


def _slots(n: int, since: float | None, now: float) -> Check:
    if not n or since is None:
        return Check("slots", Level.OK, f"no host is busy for more than {length(SLOT_SECONDS)}")
    text = (
        f"{n} {noun_for(n, 'host')} busy for up to {length(now - since)}: see `holdfast lock list`, and "
        "`holdfast lock revoke host:ID` if nothing runs there"
    )
    return Check("slots", Level.WARN, text)


async def _outbox(store: Store, now: float) -> Check:
    waiting, _ = await figures.read(store)
    depth = sum(n for n, _ in waiting.values())
    oldest = min((due_at for _, due_at in waiting.values()), default=now)
    if now - oldest > OUTBOX_SECONDS:
        text = (
            f"{depth} entries wait, one is due for {length(now - oldest)}: no server plans jobs and sends "
            "webhooks; start `holdfast server`"
        )
        return Check("outbox", Level.WARN, text)
    return Check("outbox", Level.OK, f"{depth} entries wait")
