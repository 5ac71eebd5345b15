"""Sets the weights of keys.

Promises: a change and its event are written in the same transaction. Weight 1 needs no row.
"""

from __future__ import annotations

from collections import Counter

from holdfast.core.event import NewEvent
from holdfast.core.ids import Ids
from holdfast.core.turns import WeightChange
from holdfast.store.beside import Beside, begin, end
from holdfast.store.port import Dialect
from holdfast.store.script import Script, call
from holdfast.store.scripts.work import record


def set_weight(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    change: WeightChange,
    actor: str,
    reason: str,
    beside: Beside | None = None,
) -> Script[None]:
    """The outcome for `beside` is the change."""
    yield from begin(beside, now)
    key = {"type": change.type, "key": change.key}
    if change.weight == 1:
        yield call("drop_weight", **key)
    else:
        yield call("set_weight", **key, weight=change.weight, by=actor, now=now)
    more = yield from end(beside, change, now)
    data = {**key, "weight": change.weight, "actor": actor, "reason": reason}
    record_id = yield from dialect.record_ref(ids.record(now))
    events = [NewEvent("type.weighted", now, "", change.type, data), *more]
    yield from record(dialect, record_id, now, events, Counter())
