"""Orders: what was acknowledged, what the exchange did, what a freeze means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from holdfast.orders.reconcile import compare
from holdfast.sim.order_history import OrderHistory
from holdfast.sim.outcome import Outcome


def acknowledged_orders_survive(outcome: Outcome) -> Iterator[str]:
    """Every order and every fill that anybody was told of is there, and nothing went back."""
    for history in outcome.record.order_histories:
        final = {order.client_order_id: order for order in history.final}
        for name, told in sorted(history.told.items()):
            order = final.get(name)
            if order is None:
                yield f"{history.name}: order {name} was acknowledged and is gone"
            elif order.version < told.version or order.filled_qty < told.filled_qty:
                yield f"{history.name}: order {name} was at {told.version}, is at {order.version}"


def a_restart_finds_the_orders(outcome: Outcome) -> Iterator[str]:
    """The state before a crash, and of what was on its way a part up to some record; indexes fit."""
    for history in outcome.record.order_histories:
        yield from history.lost
        yield from (f"{history.name}: {wrong}" for wrong in history.wrong)


def an_order_acts_once(outcome: Outcome) -> Iterator[str]:
    """One order at the exchange for a wish; it is never sent again unasked."""
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
            yield f"{history.name}: {name} was sent again without asking for it"


def both_books_agree(outcome: Outcome) -> Iterator[str]:
    """At rest the store and the exchange know the same orders, fills and ends: no fill is lost or twice, and
    none that the exchange had open was ever taken for ended."""
    for history in outcome.record.order_histories:
        if history.restless:
            yield history.restless
        yield from (f"{history.name}: {each}" for each in history.given_up)
        for each in compare(history.final, history.truth):
            yield f"{history.name}: {each.client_order_id} is {each.kind}: {each.ours}, {each.theirs}"


def a_freeze_is_final_for_its_epoch(outcome: Outcome) -> Iterator[str]:
    """Nothing is placed between the answer to a freeze and a thaw, and nothing of an older epoch after."""
    for history in outcome.record.order_histories:
        for name in history.late:
            yield f"{history.name}: {name} was placed after a freeze was asked for"
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
