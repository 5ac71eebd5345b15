"""The execution loop on the durable store: intents, lost replies, cancels of one order."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.clock import VirtualClock
from holdfast.errors import IdempotencyConflict, NotSupported
from holdfast.orders.errors import UnknownOrder
from holdfast.orders.exchange.faults import Faults
from holdfast.orders.exchange.port import ExchangeOrder
from holdfast.orders.exchange.simulated import SimulatedExchange
from holdfast.orders.execution.loop import ExecutionLoop
from holdfast.orders.execution.risk import RiskMonitor
from holdfast.orders.model.memory import InMemoryOrderStore
from holdfast.orders.model.order import OrderState, Side
from tests.integration.exec_support import Crash, World, wish
from tests.integration.exec_words import FILLING, RESTING, STAY, states


def test_the_intent_is_durable_before_anything_is_sent(tmp_path: Path) -> None:
    """Dies at each step of placing: the store has every order that the exchange has."""
    arrived = 0
    for steps in range(1, 100):
        world = World(tmp_path / str(steps), faults=RESTING)
        world.death.after(steps)
        try:
            world.place("k")
        except Crash:
            pass
        else:
            assert arrived, "no death came after the order had been sent"
            return
        world.restart()
        theirs = {order.client_order_id for order in world.simulated.truth()}
        arrived += len(theirs)
        assert theirs <= {order.client_order_id for order in world.store.orders()}
        assert [order.idem_key for order in world.store.orders()] in ([], ["k"])
        world.die()
    raise AssertionError("placing has no end")


def test_a_placed_order_is_followed_to_its_end(tmp_path: Path) -> None:
    world = World(tmp_path, faults=FILLING)
    name = world.place("k", qty="2.5")
    assert states(world) == ["OPEN"]
    world.step()
    order = world.store.get(name)
    assert order is not None
    assert (order.state, order.filled_qty) == (OrderState.FILLED, Decimal("2.5"))
    assert world.differences() == []


def test_a_lost_reply_is_settled_by_asking_and_not_by_placing_again(tmp_path: Path) -> None:
    world = World(tmp_path, faults=RESTING)
    world.exchange.mute = {"place"}
    world.place("k")
    assert world.exchange.calls == ["place", "find"]
    assert states(world) == ["OPEN"]
    assert len(world.simulated.book.acted) == 1


def test_a_request_that_was_lost_is_sent_again_once_the_exchange_denies_it(tmp_path: Path) -> None:
    """The same request in every field, under the same id: should the first one arrive, only one acts."""
    world = World(tmp_path, seed=3, faults=Faults(lost_requests=0.5, **STAY))
    for number in range(10):
        world.place(f"k{number}")
    bodies = {request.client_order_id: request for request in world.exchange.requests}
    assert len(world.exchange.requests) > 10
    assert all(bodies[each.client_order_id] == each for each in world.exchange.requests)
    assert world.acted_twice() == set()
    assert world.differences() == []


def test_nothing_is_placed_again_while_the_exchange_is_unreachable(tmp_path: Path) -> None:
    world = World(tmp_path, faults=RESTING)
    world.exchange.mute = {"place", "find"}
    world.place("k")
    assert states(world) == ["PENDING"]
    assert len(world.exchange.requests) == 1
    world.exchange.mute = set()
    world.step()
    assert states(world) == ["OPEN"]
    assert len(world.exchange.requests) == 1


def test_an_intent_that_never_arrived_ends_when_it_can_no_longer_arrive(tmp_path: Path) -> None:
    world = World(tmp_path, faults=Faults(lost_requests=1.0))
    world.place("k")
    assert states(world) == ["PENDING"]
    world.simulated._faults = RESTING
    world.step(0.1)
    assert states(world) == ["PENDING"], "a request could still be under way"
    world.step(10)
    assert states(world) == ["CANCELED"]
    assert world.differences() == []


def test_a_clock_that_jumps_ahead_closes_no_order_in_flight() -> None:
    """The clock is set while a request may be in flight: the order is not taken for lost too soon."""
    clock, jump = VirtualClock(), [0.0]
    exchange = SimulatedExchange(clock, seed=1, faults=Faults(lost_requests=1.0))
    store = InMemoryOrderStore(lambda: clock.now() + jump[0])
    loop = ExecutionLoop(
        exchange=exchange, order_store=store, risk_monitor=RiskMonitor(), clock=clock
    )
    loop.place(wish("k"))
    exchange._faults = RESTING
    jump[0] = 3_600.0
    loop.step()
    assert [order.state for order in store.orders()] == [OrderState.PENDING]
    clock.pause(6)
    loop.step()
    assert [order.state for order in store.orders()] == [OrderState.CANCELED]


def test_the_loop_relies_on_nothing_but_the_id(tmp_path: Path) -> None:
    """No reply arrives, the network repeats requests, and no fill message comes. The exchange answers
    lookups of an id, and the same id acts once. That is enough."""
    hostile = Faults(repeated_requests=1.0, lost_fills=1.0, partial_fills=0.5, resting=0.3)
    world = World(tmp_path, faults=hostile)
    world.exchange.mute = {"place", "cancel"}
    for number in range(10):
        world.place(f"k{number}", side=Side.BUY if number % 2 else Side.SELL)
        world.step(2)
    world.loop.freeze("the end")
    assert world.store.open_orders() == []
    assert world.acted_twice() == set()
    assert sorted(world.simulated.book.acted) == sorted(
        order.client_order_id for order in world.store.orders()
    )
    assert world.differences() == []


def test_a_retry_of_a_key_is_answered_with_the_same_order(tmp_path: Path) -> None:
    world = World(tmp_path, faults=RESTING)
    first = world.place("k")
    assert world.place("k") == first
    assert len(world.exchange.requests) == 1
    with pytest.raises(IdempotencyConflict):
        world.place("k", qty="2")
    world.restart().recover_from_restart()
    assert world.place("k") == first
    assert len(world.exchange.requests) == 1


def test_a_rejected_order_is_rejected_in_the_store(tmp_path: Path) -> None:
    world = World(tmp_path, faults=Faults(rejects=1.0))
    world.place("k")
    assert states(world) == ["REJECTED"]
    assert world.loop.stats().orders_rejected == 1


def test_idempotency_cannot_be_switched_off(tmp_path: Path) -> None:
    clock = VirtualClock()
    with pytest.raises(NotSupported, match="places the order twice"):
        ExecutionLoop(
            exchange=SimulatedExchange(clock),
            order_store=InMemoryOrderStore(clock.now),
            risk_monitor=RiskMonitor(),
            enable_idempotency=False,
            clock=clock,
        )


def test_one_order_is_cancelled_by_its_id(tmp_path: Path) -> None:
    world = World(tmp_path, faults=RESTING)
    first, second = world.place("a"), world.place("b")
    assert world.loop.cancel(first).state is OrderState.CANCELED
    world.simulated._faults = Faults(outages=1.0)
    assert world.loop.cancel(second).state is OrderState.CANCEL_PENDING
    world.simulated._faults = RESTING
    world.step()
    assert states(world) == ["CANCELED", "CANCELED"]
    assert world.loop.cancel(first).state is OrderState.CANCELED
    with pytest.raises(UnknownOrder):
        world.loop.cancel("unknown")


def test_impossible_reports_freeze_trading_and_not_the_loop(tmp_path: Path) -> None:
    world = World(tmp_path, faults=RESTING)
    name = world.place("k")
    find = world.simulated.find
    resting = world.simulated.book.resting[name]

    def lies(client_order_id: str) -> ExchangeOrder | None:
        seen = find(client_order_id)
        return seen and replace(seen, filled_qty=Decimal(99), avg_fill_price=Decimal(1))

    world.simulated.find = lies  # type: ignore[method-assign]
    world.step(10)
    assert "reported an impossible state" in world.store.freeze_state().reason
    assert states(world) == ["FILLED"], "it counts up to what was ordered"
    assert resting.canceled_at is None
    assert world.store.orders()[0].avg_fill_price == 100
