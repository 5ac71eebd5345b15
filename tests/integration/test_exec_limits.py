"""The execution loop: limits, freezes and alerts."""

from __future__ import annotations

import logging
from decimal import Decimal
from pathlib import Path

import pytest

from holdfast.metrics import Metrics
from holdfast.orders.errors import RiskRefused
from holdfast.orders.exchange.faults import Faults
from holdfast.orders.execution.alerts import Alert
from holdfast.orders.execution.metrics import FAMILIES
from holdfast.orders.execution.risk import Limits
from tests.integration.exec_support import SYMBOL, World
from tests.integration.exec_words import FILLING, RESTING, states


def test_an_order_over_a_limit_writes_nothing(tmp_path: Path) -> None:
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
            Limits(),
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


def test_an_alert_is_tried_again_and_a_broken_hook_stops_no_freeze(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    alerts: list[Alert] = []

    def hook(alert: Alert) -> None:
        alerts.append(alert)
        if len(alerts) != 3:
            raise RuntimeError("the pager is down")

    metrics = Metrics(FAMILIES)
    world = World(tmp_path, faults=RESTING, on_alert=hook, meter=metrics)
    world.place("a")
    world.loop.freeze("one")
    assert [alert.epoch for alert in alerts] == [1, 1, 1]
    world.loop.thaw()
    world.place("b")
    world.loop.freeze("two")
    assert [alert.epoch for alert in alerts] == [1, 1, 1, 2, 2, 2]
    assert states(world) == ["CANCELED", "CANCELED"]
    assert metrics.value("holdfast_execution_alerts_total", outcome="sent") == 1
    assert metrics.value("holdfast_execution_alerts_total", outcome="failed") == 1
    assert "the alert hook failed for the freeze in epoch 2" in caplog.text


def test_an_alert_is_sent_again_after_a_restart(tmp_path: Path) -> None:
    alerts: list[Alert] = []
    world = World(tmp_path, faults=RESTING, on_alert=alerts.append)
    world.place("k")
    world.loop.freeze("stop")
    world.restart().recover_from_restart()
    assert [alert.epoch for alert in alerts] == [1, 1]


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


def test_the_log_has_the_documented_lines(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
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
