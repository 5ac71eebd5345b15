"""The table of event kinds: classes, frames, topics."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.event import _STATUS_AFTER, Event, Position
from holdfast.core.event_kinds import (
    KINDS,
    STATUS_FRAME,
    TABLE,
    EventClass,
    TopicRule,
    class_of,
    frame_of,
    payload_of,
    project_of,
    topics_of,
)

ROOT = Path(__file__).resolve().parents[3]
KIND = re.compile(r"[a-z]+\.[a-z_]+")
GROUPS = {row.kind.partition(".")[0] for row in TABLE}


def event(kind: str, task: str = "t1", **data: Any) -> Event:
    return Event(Position("e", 1), kind, 1_800_000_000.0, task, "mail", data)


def written_kinds() -> dict[str, str]:
    """Every constant of the code that looks like a kind."""
    kinds = {}
    for path in sorted((ROOT / "src/holdfast").rglob("*.py")):
        if "client" in path.parts:
            continue  # it writes no events
        if path.name == "event_kinds.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and KIND.fullmatch(text) and text.partition(".")[0] in GROUPS:
                kinds[text] = str(path.relative_to(ROOT))
    return kinds


def has_row(kind: str) -> bool:
    return kind in KINDS or f"{kind.partition('.')[0]}." in KINDS


def documented_kinds() -> set[str]:
    page = (ROOT / "docs/reference/events.md").read_text(encoding="utf-8")
    return set(re.findall(r"^\| `([a-z]+\.[a-z_]+)`", page, re.MULTILINE))


def test_every_documented_kind_has_a_row() -> None:
    assert len(documented_kinds()) > 25
    assert sorted(kind for kind in documented_kinds() if not has_row(kind)) == []


def test_every_written_kind_has_a_row() -> None:
    kinds = written_kinds()
    assert {
        "task.started",
        "node.lost",
        "lock.revoked",
        "queue.paused",
        "schedule.put",
    } <= kinds.keys()
    assert {kind: at for kind, at in kinds.items() if not has_row(kind)} == {}


def test_every_kind_that_changes_the_status_has_that_frame() -> None:
    kinds = {"task.enqueued", "task.failed", *_STATUS_AFTER}
    assert {kind for kind in kinds if frame_of(event(kind)) != STATUS_FRAME} == set()


def test_each_kind_has_one_row() -> None:
    assert len(KINDS) == len(TABLE)


def test_only_informational_kinds_may_be_merged() -> None:
    merged = {row.kind for row in TABLE if row.event_class is EventClass.INFORMATIONAL}
    assert merged == {"task.output", "task.metrics", "node.load"}


def test_every_row_can_be_read_by_its_project_or_by_an_operator_of_all() -> None:
    whole = {TopicRule.PROJECT, TopicRule.SYSTEM, TopicRule.ADMIN}
    assert [row.kind for row in TABLE if not whole & set(row.topics)] == []


def test_what_is_not_about_one_task_is_a_system_event() -> None:
    of_system = {TopicRule.SYSTEM, TopicRule.ADMIN}
    assert [
        row.kind
        for row in TABLE
        if TopicRule.TASK not in row.topics and not of_system & set(row.topics)
    ] == []


@pytest.mark.parametrize(
    ("given", "topics"),
    [
        (event("task.started", node="n1"), ["task:t1", "node:n1", "project:default", "project:all"]),
        (event("queue.paused", "", queue="mail", actor="user:ann"), ["queue:mail", "system:events"]),
        (event("task.paused", actor="user:ann"), ["task:t1", "user:ann", "project:default", "project:all"]),
        (
            event("checkpoint.hitl_required", assignees=["ann", "user:bob"]),
            ["task:t1", "user:ann", "user:bob", "project:default", "project:all"],
        ),
        (event("token.revoked", "", name="ci"), ["system:admin"]),
        (event("lock.revoked", "", resource="db", owner="x"), ["system:events"]),
        (event("host.cordoned", "", host="web-1"),
         ["host:web-1", "project:default", "project:all", "system:events"]),
    ],
)  # fmt: skip
def test_topics(given: Event, topics: list[str]) -> None:
    assert list(topics_of(given)) == topics


def test_a_kind_of_a_newer_version_reaches_its_readers() -> None:
    of_task, of_none = event("task.teleported"), event("moon.rose", "")
    assert class_of(of_task) is EventClass.CRITICAL
    assert frame_of(of_task) == "task.teleported"
    assert "task:t1" in topics_of(of_task)
    assert "system:events" in topics_of(of_none)


def test_queue_events_belong_to_no_project() -> None:
    assert project_of(event("queue.paused", "", queue="mail")) is None
    assert project_of(event("task.started")) == "default"


def test_a_payload_has_the_new_status_and_times_as_text() -> None:
    failed = payload_of(
        event("task.failed", will_retry=True, next_retry_at=1_800_000_001.5, attempt=2)
    )
    assert failed == {
        "task_id": "t1",
        "type": "mail",
        "to": "queued",
        "desired": "run",
        "will_retry": True,
        "next_retry_at": "2027-01-15T08:00:01.500Z",
        "attempt": 2,
    }
    assert payload_of(event("task.failed", will_retry=False))["to"] == "failed"
    assert payload_of(event("task.enqueued", waiting_on=2))["to"] == "blocked"
    assert payload_of(event("task.paused"))["desired"] == "paused"
    assert not {"to", "desired"} & set(payload_of(event("task.edited")))


@pytest.mark.parametrize("odd", [True, -1.0, 1e30, float("nan"), "soon", None])
def test_a_field_that_is_not_a_time_stays(odd: object) -> None:
    payload = payload_of(event("task.snoozed", due_at=odd))
    assert payload["due_at"] is odd
