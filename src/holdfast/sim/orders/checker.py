"""Laws about orders: durability, effects at the exchange, freezes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from holdfast.orders.execution.reconcile import compare
from holdfast.sim.order_history import OrderHistory
from holdfast.sim.outcome import Outcome


def acknowledged_orders_survive(outcome: Outcome) -> Iterator[str]:
    """Every acknowledged order and fill exists, and no order went back to an older version."""
    for history in outcome.record.order_histories:
        final = {order.client_order_id: order for order in history.final}
        for name, acknowledged in sorted(history.acknowledged.items()):
            order = final.get(name)
            if order is None:
                yield f"{history.name}: order {name} was acknowledged and is gone"
            elif order.version < acknowledged.version or order.filled_qty < acknowledged.filled_qty:
                yield f"{history.name}: order {name} was at {acknowledged.version}, is at {order.version}"


def restart_recovers_orders(outcome: Outcome) -> Iterator[str]:
    """A restart recovers the state before the crash plus a prefix of the pending records; indexes match."""
    for history in outcome.record.order_histories:
        yield from history.lost
        yield from (f"{history.name}: {wrong}" for wrong in history.wrong)


def orders_act_once(outcome: Outcome) -> Iterator[str]:
    """A key has one order at the exchange, which is not sent again without a query."""
    for history in outcome.record.order_histories:
        for name, times in Counter(history.acted).items():
            if times > 1:
                yield f"{history.name}: {name} acted {times} times"
        names: dict[str, set[str]] = {}
        for placed in history.placed:
            names.setdefault(placed.key, set()).add(placed.client_order_id)
        for key, ids in names.items():
            if len(ids) > 1:
                yield f"{history.name}: {key} was answered with {sorted(ids)}"
        for name in history.blind:
            yield f"{history.name}: {name} was sent again without a query"


def books_agree(outcome: Outcome) -> Iterator[str]:
    """At the end store and exchange have the same orders, fills and statuses; no order that was open at the
    exchange ever counted as ended in the store."""
    for history in outcome.record.order_histories:
        if history.restless:
            yield history.restless
        yield from (f"{history.name}: {name}" for name in history.given_up)
        for difference in compare(history.final, history.truth):
            name, kind = difference.client_order_id, difference.kind
            yield f"{history.name}: {name} is {kind}: {difference.ours}, {difference.theirs}"


def freeze_is_final_for_its_epoch(outcome: Outcome) -> Iterator[str]:
    """No order is placed between a freeze and its thaw, and none of an older epoch afterwards."""
    for history in outcome.record.order_histories:
        for name in history.late:
            yield f"{history.name}: {name} was placed after a freeze was requested"
        for placed in history.placed:
            yield from _placed_while_frozen(history, placed.key, placed.epoch, placed.asked_at)


def _placed_while_frozen(
    history: OrderHistory, key: str, epoch: int, asked_at: float
) -> Iterator[str]:
    for frozen, since in history.frozen.items():
        if epoch < frozen and asked_at > since:
            yield f"{history.name}: {key} of epoch {epoch} was placed after the freeze of {frozen}"
    thawed = history.thawed.get(epoch)
    if epoch in history.frozen and (thawed is None or asked_at < thawed):
        yield f"{history.name}: {key} was placed in epoch {epoch} before it was thawed"
