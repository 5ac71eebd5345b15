"""Orders: what was acknowledged, what the exchange did, what a freeze means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from holdfast.orders.reconcile import compare
from holdfast.sim.outcome import Outcome
from holdfast.sim.trades import Trades


def acknowledged_orders_survive(outcome: Outcome) -> Iterator[str]:
    """Every order and every fill that anybody was told of is there, and nothing went back."""
    for trades in outcome.record.trades:
        final = {order.client_order_id: order for order in trades.final}
        for name, told in sorted(trades.told.items()):
            order = final.get(name)
            if order is None:
                yield f"{trades.name}: order {name} was acknowledged and is gone"
            elif order.version < told.version or order.filled_qty < told.filled_qty:
                yield f"{trades.name}: order {name} was at {told.version}, is at {order.version}"


def a_restart_finds_the_orders(outcome: Outcome) -> Iterator[str]:
    """The state before a crash, and of what was on its way a part up to some record; indexes fit."""
    for trades in outcome.record.trades:
        yield from trades.lost
        yield from (f"{trades.name}: {wrong}" for wrong in trades.wrong)


def an_order_acts_once(outcome: Outcome) -> Iterator[str]:
    """One order at the exchange for a wish; it is never sent again unasked."""
    for trades in outcome.record.trades:
        for name, times in Counter(trades.acted).items():
            if times > 1:
                yield f"{trades.name}: {name} acted {times} times"
        names: dict[str, set[str]] = {}
        for placed in trades.placed:
            names.setdefault(placed.key, set()).add(placed.client_order_id)
        for key, ids in names.items():
            if len(ids) > 1:
                yield f"{trades.name}: {key} was answered with {sorted(ids)}"
        for name in trades.blind:
            yield f"{trades.name}: {name} was sent again without asking for it"


def both_books_agree(outcome: Outcome) -> Iterator[str]:
    """At rest the store and the exchange know the same orders, fills and ends: no fill is lost or twice, and
    none that the exchange had open was ever taken for ended."""
    for trades in outcome.record.trades:
        if trades.restless:
            yield trades.restless
        yield from (f"{trades.name}: {each}" for each in trades.given_up)
        for each in compare(trades.final, trades.truth):
            yield f"{trades.name}: {each.client_order_id} is {each.kind}: {each.ours}, {each.theirs}"


def a_freeze_is_final_for_its_epoch(outcome: Outcome) -> Iterator[str]:
    """Nothing is placed between the answer to a freeze and a thaw, and nothing of an older epoch after."""
    for trades in outcome.record.trades:
        for name in trades.late:
            yield f"{trades.name}: {name} was placed after a freeze was asked for"
        for placed in trades.placed:
            yield from _placed_while_frozen(trades, placed.key, placed.epoch, placed.asked_at)


def _placed_while_frozen(trades: Trades, key: str, epoch: int, asked_at: float) -> Iterator[str]:
    for frozen, since in trades.frozen.items():
        if epoch < frozen and asked_at > since:
            yield f"{trades.name}: {key} of epoch {epoch} was placed after the freeze of {frozen}"
    thawed = trades.thawed.get(epoch)
    if epoch in trades.frozen and (thawed is None or asked_at < thawed):
        yield f"{trades.name}: {key} was placed in epoch {epoch} before it was thawed"
