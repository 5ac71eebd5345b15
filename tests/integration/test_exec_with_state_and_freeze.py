"""The execution loop on the durable store: freeze and cancel all, restart and recovery, the report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.errors import Conflict
from holdfast.orders.errors import ExchangeTimeout, NotReconciled, OrdersFrozen
from holdfast.orders.exchange.faults import Faults
from holdfast.orders.exchange.port import ExchangeOrder, Request
from holdfast.orders.execution.alerts import Alert
from holdfast.orders.execution.reconcile import Kind
from holdfast.orders.model.order import OrderState
from tests.integration.exec_support import SYMBOL, Crash, World
from tests.integration.exec_words import FILLING, HALVES, LATE, RESTING, states


def test_freeze_cancels_everything_open_each_time(tmp_path: Path) -> None:
    """The second freeze cancels what was opened after the first thaw, and so does the third, after a
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
        world.store.freeze("another process")
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


def test_an_order_that_arrives_after_its_cancel_is_still_cancelled(tmp_path: Path) -> None:
    """The exchange does not know the order at the first cancel; the order arrives later."""
    world = World(tmp_path, faults=LATE)
    world.exchange.mute = {"find"}
    world.place("k")
    assert states(world) == ["PENDING"]
    world.simulated._faults = RESTING  # only the order itself is late
    world.loop.freeze("stop")
    assert world.store.open_orders() == []
    assert [order.state.value for order in world.simulated.truth()] == ["CANCELED"]
    assert world.differences() == []


def test_a_freeze_continues_when_the_exchange_is_back(tmp_path: Path) -> None:
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


def test_fills_during_the_downtime_are_found(tmp_path: Path) -> None:
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
    world.simulated.cancel(canceled)  # the exchange itself, or an operator there
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


REPORT = """
import sys
from pathlib import Path
from holdfast.orders.demo import Options, run
from holdfast.orders.execution.report import to_bytes
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
