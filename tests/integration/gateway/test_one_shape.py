"""One shape for each object: what the command line prints with `-o json` is what the gateway answers over the
same store, and a `TaskQueue` behind a gateway reads the same."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import TaskQueue
from holdfast.client import admin_models, models
from holdfast.queue import views
from holdfast.queue.by import By
from tests.acceptance.cli_support import run_inside
from tests.integration.gateway.support import Site
from tests.integration.gateway.test_hub_admin import conflict_of
from tests.integration.gateway.test_interventions import asking, claimed

PASSING = frozenset(
    {
        "lease_remaining_seconds",
        "remaining_seconds",
        "held_seconds",
        "waited_seconds",
        "seen_at",
        "seen_seconds_ago",
        "oldest_due_seconds",
    }
)
"""Fields whose values differ between two reads. Their keys are compared."""


class Faces:
    """The command line and the gateway on one store."""

    def __init__(self, site: Site, url: str, folder: Path) -> None:
        self.site, self.url, self._folder = site, url, folder

    async def rest(self, path: str, **params: Any) -> Any:
        answer = await self.site.ask("GET", path, **params)
        assert answer.status_code == 200, answer.text
        body = answer.json()
        return body.get("items", body)

    async def cli(self, *args: str) -> Any:
        done = await asyncio.to_thread(
            run_inside, self._folder, *args, "--url", self.url, "-o", "json"
        )
        assert done.code == 0, f"{args}: {done}"
        return json.loads(done.out)

    async def agree(self, command: str, path: str, shape: type, **params: Any) -> Any:
        """What both show, which is not empty and has the fields of the shape."""
        printed, answered = await self.cli(*command.split()), await self.rest(path, **params)
        assert still(printed) == still(answered), command
        rows = answered if isinstance(answered, list) else [answered]
        assert rows, f"{path} has nothing to compare"
        names = {field.encode_name for field in msgspec.structs.fields(shape)}
        assert all(set(row) == names for row in rows), path
        return answered


def still(value: Any) -> Any:
    """The value without what passes."""
    if isinstance(value, list):
        return [still(item) for item in value]
    if isinstance(value, dict):
        return {key: None if key in PASSING else still(item) for key, item in sorted(value.items())}
    return value


@pytest.fixture
async def faces(site: Site, url: str, tmp_path: Path) -> Faces:
    return Faces(site, url, tmp_path)


async def dead(site: Site) -> str:
    """A dead letter."""
    task = await claimed(site)
    forced = {"status": "failed"}
    body = {"type": "FORCE_STATUS", "reason": "nothing else helps", "args": forced}
    answer = await site.ask("POST", f"/tasks/{task.id}/interventions", body)
    assert answer.status_code == 200, answer.text
    return task.id


async def test_tasks_and_dead_letters(faces: Faces) -> None:
    site = faces.site
    parent = await dead(site)
    child = await site.task(
        depends_on=[parent], payload={"n": "é" * 300}, metadata={"k": [1]}, timeout_seconds=5
    )
    running = await claimed(site)
    for task_id in (parent, child["id"], running.id):
        whole = await faces.agree(f"task show {task_id}", f"/tasks/{task_id}", models.TaskView)
        again = views.task(views.read_task(whole), site.services.now(), views.read_details(whole))
        assert still(again) == still(whole), "a task that was read from JSON is the same task"
        await faces.agree(f"task why {task_id}", f"/tasks/{task_id}/why", models.Why)
        await faces.agree(f"task history {task_id}", f"/tasks/{task_id}/history", models.EventView)
    assert (await faces.rest(f"/tasks/{child['id']}"))["depends_on"] == [
        {"id": parent, "policy": "fail", "status": "failed", "settled": False}
    ]
    await faces.agree("task list", "/tasks", models.TaskRow)
    await faces.agree("dlq list", "/dead-letters", models.TaskRow)
    await faces.agree(f"dlq show {parent}", f"/tasks/{parent}", models.TaskView)
    groups = await faces.agree("dlq groups", "/dead-letters/groups", admin_models.DeadGroup)
    assert [views.dead_group(views.read_dead_group(group)) for group in groups] == groups
    [stopped] = await faces.cli("task", "abort", running.id, "--reason", "enough")
    assert still(stopped) == still(await faces.rest(f"/tasks/{running.id}"))


async def test_interventions(faces: Faces) -> None:
    await dead(faces.site)
    task_id = (await faces.rest("/tasks"))[0]["id"]
    [row] = await faces.rest(f"/tasks/{task_id}/interventions")
    assert set(row) == set(models.Intervention.__struct_encode_fields__)
    assert row["effect"] == {"from": "running", "to": "failed", "fence": row["effect"]["fence"]}
    assert await faces.rest(f"/interventions/{row['id']}") == row
    assert msgspec.to_builtins(msgspec.convert(row, models.Intervention)) == row


async def test_events(faces: Faces) -> None:
    await dead(faces.site)
    await faces.site.task(delay_seconds=60)
    events = await faces.agree(
        "events tail --after start --limit 0", "/events", models.EventView, limit=1000
    )
    for event in events:
        assert views.event(views.read_event(event)) == event
    dues = [views.read_event(event).data.get("due_at") for event in events]
    assert any(isinstance(due, float) for due in dues), "times of events are seconds in Python"


async def test_queues_schedules_and_statistics(faces: Faces) -> None:
    site = faces.site
    await site.task()
    await site.ask("POST", "/queues/default/pause", {"reason": "lunch"})
    body = {"spec": "@daily", "type": "mail", "payload": {"to": "ann"}, "timezone": "Europe/Prague"}
    assert (await site.ask("PUT", "/schedules/nightly", body)).status_code == 200
    await site.ask("POST", "/schedules/nightly/pause", {})
    read: list[tuple[str, str, type, Callable[[Any], Any]]] = [
        (
            "queue list",
            "/queues",
            admin_models.QueueView,
            lambda v: views.queue(views.read_queue(v)),
        ),
        (
            "schedule list",
            "/schedules",
            admin_models.ScheduleView,
            lambda v: views.schedule(views.read_schedule(v)),
        ),
    ]
    for command, path, shape, again in read:
        [row] = await faces.agree(command, path, shape)
        assert again(row) == row
        assert still(await faces.rest(f"{path}/{row['name']}")) == still(row)
    printed, answered = await faces.cli("stats"), await faces.rest("/stats")
    assert printed == answered | {"hints": printed["hints"]}


async def test_nodes_conflicts_and_projects(faces: Faces) -> None:
    conflict_id = await conflict_of(faces.site)
    async with TaskQueue(faces.url):
        rows = await faces.agree("node list", "/nodes", admin_models.NodeView, live=False)
    kinds = {row["kind"] for row in rows}
    assert kinds == {None, "plugin"}, "processes of the store, and nodes that have registered"
    for row in rows:
        node = views.read_node(row)
        assert (node.id, node.is_live, node.types) == (row["id"], row["live"], row["types"])
    await faces.agree("node show plugin-a", "/nodes/plugin-a", admin_models.NodeView)
    cordoned = (await faces.site.ask("POST", "/nodes/plugin-a/cordon", {"reason": "disk"})).json()
    assert still(cordoned) == still(await faces.rest("/nodes/plugin-a"))
    await faces.agree("conflict list", "/conflicts", admin_models.ConflictRow)
    await faces.agree(
        f"conflict show {conflict_id}", f"/conflicts/{conflict_id}", admin_models.ConflictView
    )
    await faces.agree("project list", "/projects", admin_models.ProjectView)


async def test_locks(faces: Faces) -> None:
    locks = faces.site.services.locks
    await locks._locks.acquire("host:1", ttl=600)
    await faces.agree("lock list", "/locks", admin_models.LockRow)
    await locks.revoke("host:1", By("user:ann", "gone"))
    shown = await faces.agree("lock show host:1", "/locks/host:1", admin_models.LockView)
    assert set(shown["audit"][0]) == set(admin_models.LockAct.__struct_fields__)
    await locks._locks.acquire("host:1", ttl=600)
    printed = await faces.cli("lock", "revoke", "host:1", "--reason", "again")
    assert printed == (await faces.rest("/locks/host:1"))["audit"][0]


async def test_decisions(faces: Faces) -> None:
    _, decision_id = await asking(faces.site, data={"plan": 1})
    await faces.agree("decision list", "/decisions", models.DecisionRow)
    path = f"/decisions/{decision_id}"
    whole = await faces.agree(f"decision show {decision_id}", path, models.DecisionView)
    assert whole["checkpoint"]["data"] == {"plan": 1}
    printed = await faces.cli("decision", "answer", decision_id, "yes")
    assert still(printed) == still((await faces.rest("/decisions"))[0])


async def test_tokens_and_the_audit(faces: Faces) -> None:
    await faces.site.token("viewer")
    await faces.cli("token", "create", "ann", "--role", "operator")
    await faces.agree("token list", "/tokens", admin_models.TokenRow)
    await faces.agree("audit list", "/audit", admin_models.AuditView)
    assert await faces.cli("audit", "verify") == await faces.rest("/audit/verify")
