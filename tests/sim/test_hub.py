"""Gateways and their clients in the simulator: all laws hold, and each of their laws can be broken."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from holdfast.sim.campaign import Options, campaign
from holdfast.sim.checkers import CHECKERS, judge
from holdfast.sim.checkers.hub import NOTE, PROGRESS, report_value
from holdfast.sim.hub_history import HubHistory, Ladder, Reported
from holdfast.sim.outcome import Outcome
from holdfast.sim.scenarios import changes_of
from holdfast.sim.world import World

CHUNK = 8
SEEDS = int(os.environ.get("HOLDFAST_SIM_SEEDS", "200")) // 10
"""Each takes as long as ten others."""
SHORT = Options(hours=0.005, recover_hours=0.5, changes=changes_of("hub"))
CALM = Options(hours=0.04, faults=("slow",), recover_hours=0.5, changes=changes_of("hub"))


@pytest.mark.parametrize("first_seed", range(0, SEEDS, CHUNK))
def test_all_laws_hold_around_gateways(first_seed: int) -> None:
    report = campaign(range(first_seed, min(first_seed + CHUNK, SEEDS)), SHORT)
    assert [verdict.timeline for verdict in report.bad] == []


@pytest.fixture(scope="module")
def good() -> Outcome:
    return World(CALM.plan(5)).run()


def test_a_calm_run_has_work_for_every_client(good: Outcome) -> None:
    history = good.record.hub
    assert judge(good) == {}
    assert all(watched.shown for watched in history.watched)
    assert history.reported
    assert history.ladders
    assert history.truth
    assert any(run.life.startswith("r") for run in good.record.runs)
    assert any(event.kind == "task.stuck" for event in good.events)


def shown_twice(history: HubHistory) -> None:
    history.watched[0].shown.append(history.watched[0].shown[-1])


def shown_never(history: HubHistory) -> None:
    kinds = ("task.enqueued", "node.registered", "schedule.fired")
    shown = next(shown for watched in history.watched if (shown := watched.shown))
    del shown[next(n for n, item in enumerate(shown) if item.kind in kinds)]


def a_replica_behind(history: HubHistory) -> None:
    history.truth = {**history.truth, "job-99": (7, "queued", "null")}


def left_pending(history: HubHistory) -> None:
    history.replicas[0] = history.replicas[0]._replace(pending=1)


def answered_otherwise(history: HubHistory) -> None:
    history.intervened.append(history.intervened[0]._replace(answered_id="other"))


TAMPERS: list[tuple[str, Callable[[HubHistory], object]]] = [
    ("a watcher sees each event once", shown_twice),
    ("a watcher sees each event once", shown_never),
    (
        "a report is applied once",
        lambda history: history.reported.append(Reported("none", 1, 0.01)),
    ),
    ("replicas equal the server", a_replica_behind),
    ("replicas equal the server", left_pending),
    (
        "an intervention reaches an end",
        lambda history: history.ladders.append(Ladder("x", "issued", 0.0)),
    ),
    ("an intervention reaches an end", answered_otherwise),
    ("a decision is answered once", lambda history: history.answered.update(d=["yes", "no"])),
]


@pytest.mark.parametrize(("law", "tamper"), TAMPERS, ids=lambda part: getattr(part, "__name__", ""))
def test_a_broken_law_is_reported(
    good: Outcome, law: str, tamper: Callable[[HubHistory], object]
) -> None:
    record = copy.copy(good.record)
    hub = good.record.hub
    record.hub = copy.deepcopy(hub, {id(hub.time): hub.time})  # not the event loop behind the clock
    tamper(record.hub)
    assert list(CHECKERS[law](replace(good, record=record)))


def test_a_report_of_another_run_is_reported(good: Outcome) -> None:
    event = next(e for e in good.events if e.kind == PROGRESS and e.data["progress"].get("note"))
    late = replace(event, data={"progress": {"done": report_value(999, 0), "note": NOTE}})
    assert list(CHECKERS["a stale runner has no effect"](replace(good, events=[late])))
    twice = replace(good, events=[*good.events, event])
    assert list(CHECKERS["a report is applied once"](twice))
