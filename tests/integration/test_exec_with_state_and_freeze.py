"""The execution loop on the durable store: intents, lost replies, freezes, restarts, reports."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.clock import VirtualClock
from holdfast.errors import (
    Conflict,
    ExchangeTimeout,
    IdempotencyConflict,
    NotReconciled,
    NotSupported,
    OrdersFrozen,
    RiskRefused,
    UnknownOrder,
)
from holdfast.orders.alerts import Alert
from holdfast.orders.exchange import ExchangeOrder, Request
from holdfast.orders.execution_metrics import FAMILIES
from holdfast.orders.faults import Faults
from holdfast.orders.loop import ExecutionLoop
from holdfast.orders.memory import InMemoryOrderStore
from holdfast.orders.order import OrderState, Side
from holdfast.orders.reconcile import Kind
from holdfast.orders.risk import Limits, RiskMonitor
from holdfast.orders.simulated import SimulatedExchange
from holdfast.primitives.metrics import Metrics
from tests.integration.exec_support import SYMBOL, Crash, World, wish

STAY = {"partial_fills": 0.0, "resting": 1.0}
RESTING = Faults(**STAY)
"""Orders stay open until somebody cancels them."""
FILLING = Faults(partial_fills=0.0, resting=0.0, fill_max_ms=1_000.0)
HALVES = Faults(partial_fills=1.0, resting=1.0, fill_max_ms=200.0)
LATE = Faults(partial_fills=0.0, resting=1.0, late_requests=1.0, late_max_ms=3_000.0)


def states(world: World) -> list[str]:
    return [order.state.value for order in world.store.orders()]


# -- placing ----------------------------------------------------------------------------------------


def test_the_intent_is_durable_before_anything_is_sent(tmp_path: Path) -> None:
    """Dies at each step of placing: whatever the exchange has, the store has."""
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
    """The same request to the last field, under the same id: should the first turn up, one acts."""
    world = World(tmp_path, seed=3, faults=Faults(lost_requests=0.5, **STAY))
    for number in range(10):
        world.place(f"k{number}")
    bodies = {request.client_order_id: request for request in world.exchange.requests}
    assert len(world.exchange.requests) > 10
    assert all(bodies[each.client_order_id] == each for each in world.exchange.requests)
    assert world.acted_twice() == set()
    assert world.differences() == []


def test_nothing_is_placed_again_when_nobody_can_be_asked(tmp_path: Path) -> None:
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


def test_a_clock_that_jumps_ahead_makes_no_order_lost() -> None:
    """Somebody sets the clock while a request may be under way: it is not taken for lost too soon."""
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
    """No reply to any order or cancel is ever heard, the network repeats requests, and no fill message
    comes: the exchange answers questions about an id, and the same id acts once. That is enough."""
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


def test_a_rejected_order_says_so(tmp_path: Path) -> None:
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
        world.loop.cancel("nobody")


def test_news_that_cannot_be_stop_trading_and_not_the_loop(tmp_path: Path) -> None:
    world = World(tmp_path, faults=RESTING)
    name = world.place("k")
    told = world.simulated.find
    resting = world.simulated.book.resting[name]

    def lies(client_order_id: str) -> ExchangeOrder | None:
        seen = told(client_order_id)
        return seen and replace(seen, filled_qty=Decimal(99), avg_fill_price=Decimal(1))

    world.simulated.find = lies  # type: ignore[method-assign]
    world.step(10)
    assert "says what cannot be" in world.store.freeze_state().reason
    assert states(world) == ["CANCELED"]
    assert resting.canceled_at is not None
    assert world.store.orders()[0].filled_qty == 0


# -- limits -----------------------------------------------------------------------------------------


def test_an_order_over_a_limit_leaves_no_trace(tmp_path: Path) -> None:
    world = World(tmp_path, faults=RESTING, limits=Limits(open_orders_max=2))
    names = [world.place("a"), world.place("b")]
    with pytest.raises(RiskRefused, match="open_orders_max is 2"):
        world.place("c")
    assert len(world.store.orders()) == len(world.exchange.requests) == 2
    assert [world.place("a"), world.place("b")] == names, "a retry is answered, whatever the limits"


@pytest.mark.parametrize(
    ("limits", "faults", "word"),
    [
        (Limits(reject_window=4), Faults(rejects=1.0), "100% of the last 4 orders were rejected"),
        (
            Limits(stale_market_seconds=3.0),
            Faults(stale_quotes=1.0, resting=1.0, outage_seconds=100.0),
            "has been silent for",
        ),
        (
            Limits(position_notional_max=Decimal(800)),
            FILLING,
            "is worth",
        ),
    ],
)
def test_a_broken_limit_trips_a_freeze(
    tmp_path: Path, limits: Limits, faults: Faults, word: str
) -> None:
    world = World(tmp_path, faults=faults, limits=limits)
    if word == "is worth":
        dear = next(n for n in range(1, 500) if n * world.simulated.quote(SYMBOL).ask > 800)
        world.place("big", qty=str(min(dear, 8)))
        world.risk.limits = Limits(position_notional_max=Decimal(1))
    for number in range(6):
        if not world.store.freeze_state().frozen:
            world.place(f"k{number}", qty="0.01") if word != "is worth" else None
        world.step()
    state = world.store.freeze_state()
    assert state.frozen
    assert word in state.reason
    assert world.store.open_orders() == []


def test_a_person_freezes_through_the_monitor(tmp_path: Path) -> None:
    world = World(tmp_path, faults=RESTING)
    world.place("k")
    world.risk.freeze("lunch")
    world.step()
    assert world.store.freeze_state().reason == "lunch"
    assert states(world) == ["CANCELED"]


# -- freeze → cancel_all, idempotent, each time -------------------------------------------------------


def test_freeze_cancels_everything_open_each_time(tmp_path: Path) -> None:
    """The second freeze cancels what was opened after the first thaw; and so does the third, after a
    restart: its key is the epoch, which is in the store."""
    world = World(tmp_path, faults=RESTING)
    for epoch in (1, 2, 3):
        names = [world.place(f"{epoch}-{number}") for number in range(3)]
        assert world.loop.freeze(f"reason {epoch}") == epoch
        found = [world.store.get(name) for name in names]
        assert [order and order.state for order in found] == [OrderState.CANCELED] * 3
        assert [order.state.value for order in world.simulated.truth()] == ["CANCELED"] * 3 * epoch
        world.loop.thaw()
        if epoch == 2:
            world.restart().recover_from_restart()
    assert world.loop.stats().freeze_events == 3
    assert world.loop.stats().orders_canceled == 9


def test_freezing_again_while_frozen_is_the_same_freeze(tmp_path: Path) -> None:
    alerts: list[Alert] = []
    world = World(tmp_path, faults=RESTING, on_alert=alerts.append)
    world.place("k")
    assert world.loop.freeze("first") == 1
    calls = list(world.exchange.calls)
    assert world.loop.freeze("second") == 1
    world.step()
    assert world.exchange.calls == calls, "there was nothing left to cancel"
    assert world.store.freeze_state().reason == "first"
    assert [(alert.epoch, alert.reason) for alert in alerts] == [(1, "first")]


def test_nothing_is_placed_while_frozen(tmp_path: Path) -> None:
    world = World(tmp_path, faults=RESTING)
    first = world.place("before")
    world.loop.freeze("stop")
    with pytest.raises(OrdersFrozen, match="stop"):
        world.place("k")
    assert world.place("before") == first, "a retry is answered"
    assert len(world.exchange.requests) == 1
    world.loop.thaw()
    world.place("k")
    assert states(world) == ["CANCELED", "OPEN"]


def test_a_freeze_from_elsewhere_stops_a_request_from_being_sent_again(tmp_path: Path) -> None:
    """Another process freezes the store while the loop waits for a reply."""
    world = World(tmp_path, faults=Faults(lost_requests=1.0, partial_fills=0.0))
    inner = world.simulated.place

    def freezes(request: Request) -> ExchangeOrder:
        world.simulated._faults = RESTING
        world.store.freeze("somebody else")
        world.simulated.place = inner  # type: ignore[method-assign]
        raise ExchangeTimeout("lost")

    world.simulated.place = freezes  # type: ignore[method-assign]
    world.place("k")
    assert len(world.exchange.requests) == 1
    world.step()
    assert states(world) == ["CANCELED"]
    assert world.simulated.truth() == []


def test_a_cancel_that_loses_against_a_fill_ends_filled(tmp_path: Path) -> None:
    world = World(tmp_path, faults=FILLING)
    world.place("k")
    world.clock.pause(5)
    world.loop.freeze("too late")
    assert states(world) == ["FILLED"]
    assert world.loop.stats().orders_canceled == 0
    assert world.differences() == []


def test_a_cancelled_order_keeps_what_was_filled(tmp_path: Path) -> None:
    world = World(tmp_path, faults=HALVES)
    name = world.place("k", qty="4")
    world.clock.pause(5)
    world.loop.freeze("stop")
    order = world.store.get(name)
    assert order is not None
    assert order.state is OrderState.CANCELED
    assert 0 < order.filled_qty < 4
    assert world.differences() == []


def test_an_order_that_arrives_after_its_cancel_is_cancelled_all_the_same(tmp_path: Path) -> None:
    """The exchange says 'unknown' to the first cancel; the order turns up later."""
    world = World(tmp_path, faults=LATE)
    world.exchange.mute = {"find"}
    world.place("k")
    assert states(world) == ["PENDING"]
    world.simulated._faults = RESTING  # only the order itself is late
    world.loop.freeze("stop")
    assert world.store.open_orders() == []
    assert [order.state.value for order in world.simulated.truth()] == ["CANCELED"]
    assert world.differences() == []


def test_a_freeze_goes_on_when_the_exchange_comes_back(tmp_path: Path) -> None:
    world = World(tmp_path, faults=RESTING)
    world.place("k")
    world.simulated._faults = Faults(outages=1.0)
    world.loop.freeze("stop")
    assert states(world) == ["CANCEL_PENDING"]
    with pytest.raises(Conflict, match="not closed yet"):
        world.loop.thaw()
    world.simulated._faults = RESTING
    world.step()
    assert states(world) == ["CANCELED"]
    world.loop.thaw()


def test_a_crash_in_the_middle_of_a_freeze_is_finished_by_recovery(tmp_path: Path) -> None:
    for steps in range(1, 40):
        world = World(tmp_path / str(steps), faults=RESTING)
        for number in range(3):
            world.place(f"k{number}")
        world.death.after(steps)
        try:
            world.loop.freeze("stop")
        except Crash:
            pass
        else:
            assert steps > 10, "the freeze has more steps than that"
            return
        report = world.restart().recover_from_restart()
        if report["frozen"]:
            assert world.store.open_orders() == []
        else:
            assert len(world.store.open_orders()) == 3
        assert world.differences() == []
        world.die()
    raise AssertionError("no run reached the end of the freeze")


# -- alerts -----------------------------------------------------------------------------------------


def test_an_alert_is_tried_again_and_a_broken_hook_stops_no_freeze(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Alert] = []

    def hook(alert: Alert) -> None:
        told.append(alert)
        if len(told) != 3:
            raise RuntimeError("the pager is down")

    metrics = Metrics(FAMILIES)
    world = World(tmp_path, faults=RESTING, on_alert=hook, meter=metrics)
    world.place("a")
    world.loop.freeze("one")
    assert [alert.epoch for alert in told] == [1, 1, 1]
    world.loop.thaw()
    world.place("b")
    world.loop.freeze("two")
    assert [alert.epoch for alert in told] == [1, 1, 1, 2, 2, 2]
    assert states(world) == ["CANCELED", "CANCELED"]
    assert metrics.value("holdfast_execution_alerts_total", outcome="sent") == 1
    assert metrics.value("holdfast_execution_alerts_total", outcome="failed") == 1
    assert "nobody could be told of the freeze in epoch 2" in caplog.text


def test_a_freeze_is_told_again_after_a_restart(tmp_path: Path) -> None:
    alerts: list[Alert] = []
    world = World(tmp_path, faults=RESTING, on_alert=alerts.append)
    world.place("k")
    world.loop.freeze("stop")
    world.restart().recover_from_restart()
    assert [alert.epoch for alert in alerts] == [1, 1]


# -- restart → recovery -----------------------------------------------------------------------------


def test_recovery_reports_the_open_orders(tmp_path: Path) -> None:
    world = World(tmp_path, faults=RESTING)
    names = [world.place(f"k{number}") for number in range(5)]
    loop = world.restart()
    with pytest.raises(NotReconciled, match="recover_from_restart"):
        world.place("new")
    with pytest.raises(NotReconciled):
        world.step()
    report = loop.recover_from_restart()
    assert report["recovered"] is True
    assert report["open_orders_count"] == 5
    assert [order["client_order_id"] for order in report["open_orders"]] == names
    assert report["open_orders"][0]["symbol"] == SYMBOL
    assert report["open_after"] == names
    assert report["differences"] == []
    assert not report["frozen"]
    world.place("new")
    assert len(world.store.open_orders()) == 6


def test_what_happened_while_we_were_down_is_found(tmp_path: Path) -> None:
    world = World(tmp_path, faults=FILLING)
    filled = world.place("filled")
    world.simulated._faults = world.simulated.book._faults = RESTING
    canceled = world.place("canceled")
    world.simulated._faults = Faults(lost_requests=1.0)
    lost = world.place("lost")
    world.simulated._faults = RESTING
    world.exchange.mute = {"place", "find"}
    arrived = world.place("arrived")
    world.exchange.mute = set()
    world.simulated.cancel(canceled)  # the exchange itself, or a person at its counter
    report = world.restart().recover_from_restart()
    found = {each["client_order_id"]: each["kind"] for each in report["differences"]}
    assert found == {
        filled: Kind.FILLED,
        canceled: Kind.CANCELED,
        lost: Kind.NEVER_ARRIVED,
        arrived: Kind.ARRIVED,
    }
    assert report["open_orders_count"] == 4
    assert report["open_after"] == [arrived]
    assert states(world) == ["FILLED", "CANCELED", "CANCELED", "OPEN"]
    assert world.differences() == []


def test_orders_that_we_do_not_know_are_reported_and_stop_trading(tmp_path: Path) -> None:
    world = World(tmp_path, faults=RESTING)
    ours = world.place("ours")
    stranger = Request("x-1", SYMBOL, Side.BUY, Decimal(1), Decimal(9), world.clock.now() + 9)
    world.simulated.place(stranger)
    report = world.restart().recover_from_restart()
    assert [(each["kind"], each["client_order_id"]) for each in report["differences"]] == [
        ("unknown_to_us", "x-1")
    ]
    assert report["frozen"]
    assert report["open_after"] == []
    assert "not in our store" in world.store.freeze_state().reason
    truth = {order.client_order_id: order.state.value for order in world.simulated.truth()}
    assert truth == {ours: "CANCELED", "x-1": "OPEN"}, "a stranger's order is not ours to cancel"


def test_an_order_that_the_exchange_has_forgotten_is_closed(tmp_path: Path) -> None:
    world = World(tmp_path, faults=RESTING)
    name = world.place("k")
    del world.simulated.book.resting[name]
    report = world.restart().recover_from_restart()
    assert [each["kind"] for each in report["differences"]] == ["gone"]
    assert states(world) == ["CANCELED"]


def test_an_order_that_is_open_there_and_ended_here_is_cancelled(tmp_path: Path) -> None:
    """Against all promises an intent that never arrived turns up: it is cancelled, its fills count."""
    world = World(tmp_path, faults=Faults(lost_requests=1.0))
    name = world.place("k", qty="4")
    world.simulated._faults = world.simulated.book._faults = HALVES
    world.step(10)
    assert states(world) == ["CANCELED"]
    order = world.store.get(name)
    assert order is not None
    ghost = Request(name, SYMBOL, Side.BUY, order.qty, order.price, world.clock.now() + 9)
    world.simulated.place(ghost)
    report = world.restart().recover_from_restart()
    assert {each["kind"] for each in report["differences"]} == {"filled", "open_there"}
    assert [each.state.value for each in world.simulated.truth()] == ["CANCELED"]
    assert world.differences() == []


def test_recovery_waits_for_the_exchange(tmp_path: Path) -> None:
    world = World(tmp_path, faults=RESTING)
    world.place("k")
    loop = world.restart()
    world.simulated._faults = Faults(outages=1.0)
    with pytest.raises(ExchangeTimeout):
        loop.recover_from_restart()
    with pytest.raises(NotReconciled):
        world.place("new")
    world.simulated._faults = RESTING
    assert loop.recover_from_restart()["open_orders_count"] == 1
    world.place("new")


def test_recovering_twice_changes_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, faults=FILLING)
    for number in range(5):
        world.place(f"k{number}")
    assert len(world.restart().recover_from_restart()["differences"]) == 5
    before = world.store.orders()
    again = world.restart().recover_from_restart()
    assert (again["differences"], again["open_orders_count"]) == ([], 0)
    assert world.store.orders() == before


def test_fills_that_come_twice_and_out_of_order_count_once(tmp_path: Path) -> None:
    faults = Faults(
        partial_fills=1.0, resting=0.0, repeated_fills=0.8, reordered_fills=0.8, lost_fills=0.2
    )
    metrics = Metrics(FAMILIES)
    world = World(tmp_path, faults=faults, meter=metrics)
    for number in range(10):
        world.place(f"k{number}", qty="8")
        world.step(0.3)
    for _ in range(30):
        world.step()
    assert states(world) == ["FILLED"] * 10
    assert all(order.filled_qty == 8 for order in world.store.orders())
    assert world.differences() == []
    assert metrics.value("holdfast_execution_fill_messages_total", news="no") > 5


# -- what is told -------------------------------------------------------------------------------------


def test_stats_and_metrics_count_the_same(tmp_path: Path) -> None:
    metrics = Metrics(FAMILIES)
    world = World(tmp_path, seed=5, faults=Faults(rejects=0.2, resting=0.3), meter=metrics)
    for number in range(20):
        world.place(f"k{number}")
        world.step()
    world.place("k3")
    world.loop.freeze("stop")
    stats = world.loop.stats()
    assert stats.orders_placed == 20
    assert stats.orders_open == 0
    for name in ("placed", "filled", "canceled", "rejected"):
        counted = metrics.value(f"holdfast_execution_orders_{name}_total")
        assert counted == getattr(stats, f"orders_{name}") > 0, name
    assert metrics.value("holdfast_execution_freeze_events_total") == stats.freeze_events == 1
    assert metrics.value("holdfast_execution_replayed_total") == 1
    assert metrics.value("holdfast_execution_freeze_seconds") == 1
    world.step()
    assert metrics.value("holdfast_execution_frozen") == 1
    assert metrics.value("holdfast_execution_open_orders") == 0
    world.restart().recover_from_restart()
    assert world.loop.stats() == stats, "they are of the store, not of the process"


def test_the_log_has_the_lines_that_people_look_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "holdfast.orders")
    world = World(tmp_path, faults=RESTING)
    world.place("k")
    world.restart().recover_from_restart()
    world.loop.freeze("stop")
    for line in (
        "[IDEM] place_order with key=k",
        "[RECOVERY] Recovered 1 open orders",
        "[FREEZE] cancel_all triggered, idem_key=freeze_1",
        "[ALERT] frozen in epoch 1: stop",
    ):
        assert line in caplog.text


REPORT = """
import sys
from pathlib import Path
from holdfast.orders.exec_demo import Options, run
from holdfast.orders.report import to_bytes
options = Options(
    shadow=True, durable_state=True, state_dir=Path(sys.argv[1]), recover=sys.argv[2] == "recover",
    symbols=("BTCUSDT", "ETHUSDT"), iterations=int(sys.argv[3]), seed=11, freeze_at=(7,),
)
sys.stdout.buffer.write(to_bytes(run(options)))
"""


def test_the_same_seed_gives_the_same_bytes_in_fresh_processes(tmp_path: Path) -> None:
    """With other hash seeds, other directories, and a restart in the middle."""

    def said(hash_seed: str, *args: str) -> bytes:
        return subprocess.run(
            [sys.executable, "-c", REPORT, *args],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
        ).stdout

    first, second = (
        [
            said(seed, str(tmp_path / seed), "begin", "12"),
            said(seed, str(tmp_path / seed), "recover", "20"),
        ]
        for seed in ("1", "2")
    )
    assert first == second
    report = json.loads(first[1])
    assert report["ok"]
    assert report["stats"]["orders_placed"] > 30
    assert report["recovery"]["recovered"]
    assert report["recovery"]["differences"]
    assert not any(isinstance(value, float) for value in leaves(report)), (
        "money and times are exact"
    )


def leaves(value: object) -> list[object]:
    if isinstance(value, dict):
        return [leaf for each in value.values() for leaf in leaves(each)]
    if isinstance(value, list):
        return [leaf for each in value for leaf in leaves(each)]
    return [value]
