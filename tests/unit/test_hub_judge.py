"""The laws of `python -m proof hub` complain about runs that break them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.event import Event, Position
from proof.hub.audience import Watcher
from proof.hub.evidence import Evidence, Replica
from proof.hub.judge import judge
from proof.hub.plan import Plan
from proof.hub.plugin import Made
from proof.hub.site import Kept

WATCHER = Watcher("w", "project:default", "e:0")


def event(offset: int, kind: str, task: str = "t", **data: Any) -> Event:
    return Event(Position("e", offset), kind, 0.0, task, "quick", data)


def shown(offset: int, kind: str) -> dict[str, Any]:
    return {
        "watcher": "w",
        "type": kind,
        "offset": offset,
        "kind": kind,
        "task": "t",
        "merged": 1,
        "last": None,
    }


EVENTS = [event(1, "task.enqueued"), event(2, "task.started"), event(3, "task.completed")]
ROW = {
    "id": "t",
    "project": "default",
    "status": "completed",
    "fence": 1,
    "result_json": '{"fence":1,"pid":7}',
}
LABELLED = {"t": {"labels": ["l"]}}


@pytest.fixture
def sound(tmp_path: Path) -> Evidence:
    (tmp_path / "journal").mkdir()
    write(
        tmp_path, [shown(e.position.offset, e.kind) for e in EVENTS], ["start t 1 7", "end t 1 7"]
    )
    return Evidence(
        plan=Plan(0, reconnects=1),
        start="e:0",
        events=EVENTS,
        watchers=[WATCHER],
        folder=tmp_path,
        reports={"a": {"errors": {}, "resets": 1, "connections": {}}},
        replicas=[
            Replica("n", LABELLED, 0, set(), [Made("t", "m", "l")]),
            Replica("fresh", LABELLED, 0, set(), []),
        ],
        tasks=[ROW],
        answers={"job-1": {"t"}},
        interventions=set(),
        unexpected=[],
        refusals={},
        retries=0,
        faults={},
        fault_log=[],
        processes=[Kept("gateway", [], tmp_path)],
        audit="",
        complaints=[],
        quiet_seconds=1.0,
    )


def write(folder: Path, items: list[dict[str, Any]], lines: list[str]) -> None:
    (folder / "a.seen").write_text("".join(json.dumps(item) + "\n" for item in items))
    (folder / "journal" / "7.journal").write_text("".join(f"{line}\n" for line in lines))


def broken(evidence: Evidence) -> set[str]:
    return {law for law, texts in judge(evidence).items() if texts}


def test_a_sound_run_breaks_no_law(sound: Evidence) -> None:
    assert broken(sound) == set()


@pytest.mark.parametrize("offsets", [[1, 2], [1, 3], [1, 2, 2, 3], [1, 3, 2], [1, 2, 3, 2], []])
def test_a_watcher_that_misses_or_repeats(sound: Evidence, offsets: list[int]) -> None:
    kinds = {e.position.offset: e.kind for e in EVENTS}
    write(sound.folder, [shown(n, kinds[n]) for n in offsets], ["start t 1 7", "end t 1 7"])
    assert broken(sound) == {"each event once and in order, for every watcher"}


@pytest.mark.parametrize(
    "lines",
    [
        ["start t 1 7", "start t 1 8", "end t 1 7"],
        ["start t 1 7"],
        ["start t 1 7", "end t 1 8"],
        ["start t 1 7", "end t 1 7", "start t 2 8"],
    ],
)
def test_two_runners(sound: Evidence, lines: list[str]) -> None:
    write(sound.folder, [shown(e.position.offset, e.kind) for e in EVENTS], lines)
    assert broken(sound) == {"one effective runner per fence"}


def _died(evidence: Evidence) -> Evidence:
    evidence.processes[0].deaths.append(1)
    return evidence


BREAKS: dict[str, Callable[[Evidence], Evidence]] = {
    "everything comes to rest": lambda e: replace(e, complaints=["3 tasks"]),
    "the connections were reset": lambda e: replace(e, plan=Plan(0, reconnects=2)),
    "each task once per key, ended once": lambda e: replace(e, answers={"job-1": {"t", "u"}}),
    "an intervention is applied at most once": lambda e: replace(e, interventions={"lost"}),
    "no request gets an unknown error": lambda e: replace(e, unexpected=["internal"]),
    "all replicas are equal, no change is lost": lambda e: replace(
        e, replicas=[e.replicas[0], Replica("fresh", {}, 0, set(), [])]
    ),
    "the audit chain verifies": lambda e: replace(e, audit="row 3 was changed"),
    "processes end only when asked": _died,
}


@pytest.mark.parametrize("law", BREAKS)
def test_a_run_that_breaks_a_law(sound: Evidence, law: str) -> None:
    assert broken(BREAKS[law](sound)) == {law}


def test_a_second_end_of_a_task(sound: Evidence) -> None:
    again = [*EVENTS, event(4, "task.completed")]
    items = [shown(e.position.offset, e.kind) for e in again]
    write(sound.folder, items, ["start t 1 7", "end t 1 7"])
    assert broken(replace(sound, events=again)) == {"each task once per key, ended once"}
