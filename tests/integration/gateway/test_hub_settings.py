"""Settings of a hub, seen by nodes and callers of its API."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.gateway.sections import SyncSettings
from tests.integration.gateway.support import ADMIN, Site, open_site

SYNC = SyncSettings(
    lease_default_seconds=50,
    lease_max_seconds=100,
    heartbeat_seconds=7,
    require_fence=True,
    reassign_fallback_seconds=11,
)


async def sync(site: Site, path: str, body: dict[str, Any]) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {ADMIN}"}
    answer = await site.client.post(f"/api/v2/sync{path}", json=body, headers=headers)
    read: dict[str, Any] = answer.json()
    return read


async def test_leases_heartbeats_and_fences_follow_the_settings(url: str) -> None:
    async with open_site(url, sync=SYNC) as site:
        registered = await sync(site, "/nodes/register", {"nodeId": "n1"})
        assert registered["heartbeatIntervalMs"] == 7_000
        beat = await sync(site, "/nodes/n1/heartbeat", {})
        assert beat["heartbeatIntervalMs"] == 7_000
        task = await site.task()
        claimed = await sync(site, f"/tasks/{task['id']}/claim", {"nodeId": "n1"})
        assert claimed["lock"]["lockDuration"] == 50_000
        heartbeat = f"/tasks/{task['id']}/heartbeat"
        refused = await sync(site, heartbeat, {"nodeId": "n1"})
        assert "sync.require_fence" in refused["detail"]
        fence = claimed["lock"]["fence"]
        body = {"nodeId": "n1", "fence": fence, "lockDuration": 900_000}
        renewed = await sync(site, heartbeat, body)
        assert 99_000 < renewed["expiresInMs"] <= 100_000
        item = {"id": task["id"], "expectedVersion": claimed["task"]["version"], "progress": 0.5}
        pushed = await sync(site, "/push/default", {"nodeId": "n1", "tasks": [item]})
        assert not pushed["results"][0]["success"]
        pushed = await sync(
            site, "/push/default", {"nodeId": "n1", "tasks": [{**item, "fence": fence}]}
        )
        assert pushed["results"][0]["success"]


async def test_a_node_is_gone_after_three_of_its_intervals(url: str) -> None:
    async with open_site(url, sync=SYNC) as site:
        await sync(site, "/nodes/register", {"nodeId": "n1"})
        registered_at = site.services.store.now()
        for seconds, is_live in ((5.0, True), (21.1, False)):
            row = (await site.ask("GET", "/nodes/n1")).json()
            assert row["state"] == "live"
            listed = await _nodes_at(site, registered_at + seconds)
            assert [node["live"] for node in listed] == [is_live]


async def _nodes_at(site: Site, when: float) -> list[dict[str, Any]]:
    """The list of nodes as it will be at a time, however long the test takes."""
    store = site.services.store
    now = store.now
    store.now = lambda: when
    try:
        answer = await site.client.get(
            "/api/v2/sync/nodes/default", headers={"Authorization": f"Bearer {ADMIN}"}
        )
        nodes: list[dict[str, Any]] = answer.json()["nodes"]
        return nodes
    finally:
        store.now = now


@pytest.mark.parametrize(("args", "seconds"), [({}, 11.0), ({"fallback_seconds": 5}, 5.0)])
async def test_a_reassigned_task_falls_back_as_the_settings_say(
    url: str, args: dict[str, Any], seconds: float
) -> None:
    async with open_site(url, sync=SYNC) as site:
        await sync(site, "/nodes/register", {"nodeId": "n1"})
        task = await site.task()
        body = {"type": "REASSIGN", "reason": "r", "args": {"to_node": "n1", **args}}
        answer = await site.ask("POST", f"/tasks/{task['id']}/interventions", body)
        assert answer.status_code == 200, answer.text
        stored = await site.services.parts.tasks.get(task["id"])
        assert stored.assigned_until is not None
        assert stored.assigned_until - stored.updated_at == pytest.approx(seconds)


async def test_the_time_without_progress_is_the_callers_the_types_or_the_settings(url: str) -> None:
    async with open_site(url, queue_settings={"progress_timeout": 30.0}) as site:
        site.services.queue.register_handler("slow", _slow, progress_timeout=20.0)

        async def timeout_of(**fields: Any) -> float | None:
            task = await site.task(**fields)
            return (await site.services.parts.tasks.get(task["id"])).progress_timeout_seconds

        assert await timeout_of() == 30.0
        assert await timeout_of(type="slow") == 20.0
        assert await timeout_of(type="slow", progress_timeout_seconds=10) == 10.0
        assert await timeout_of(type="slow", progress_timeout_seconds=None) is None
        wrong = await site.ask("POST", "/tasks", {"type": "mail", "progress_timeout_seconds": 0})
        assert (wrong.status_code, wrong.json()["code"]) == (422, "invalid-input")
        many = {"tasks": [{"type": "mail", "progress_timeout_seconds": 3, "id": "b1"}]}
        assert (await site.ask("POST", "/tasks/batch", many)).status_code == 201
        assert (await site.services.parts.tasks.get("b1")).progress_timeout_seconds == 3.0
        await sync(site, "/nodes/register", {"nodeId": "n1"})
        item = {"id": "task-1", "expectedVersion": 0, "status": "queued"}
        pushed = await sync(site, "/push/default", {"nodeId": "n1", "tasks": [item]})
        assert pushed["results"][0]["success"]
        [row] = (await site.ask("GET", "/tasks", q="type:external")).json()["items"]
        assert (await site.services.parts.tasks.get(row["id"])).progress_timeout_seconds == 30.0


async def test_the_time_without_progress_is_part_of_the_request(url: str) -> None:
    async with open_site(url) as site:
        body = {"type": "mail", "id": "t", "progress_timeout_seconds": 5}
        first = await site.ask("POST", "/tasks", body)
        again = await site.ask("POST", "/tasks", body)
        assert (first.status_code, again.status_code) == (201, 200)
        other = await site.ask("POST", "/tasks", {**body, "progress_timeout_seconds": 6})
        assert other.status_code in (409, 422)


async def _slow(_: object) -> None:
    return None


@pytest.mark.parametrize("action", ["bulk", "embedded"])
async def test_every_reassignment_falls_back_as_the_settings_say(url: str, action: str) -> None:
    queue_settings = {"reassign_fallback_seconds": 11.0}
    async with open_site(url, sync=SYNC, queue_settings=queue_settings) as site:
        await sync(site, "/nodes/register", {"nodeId": "n1"})
        task = await site.task()
        args = {"to_node": "n1"}
        if action == "bulk":
            body = {"action": "reassign", "ids": [task["id"]], "args": args, "reason": "r"}
            assert (await site.ask("POST", "/operations", body)).status_code == 202
        else:
            await site.services.queue.intervene(task["id"], "REASSIGN", "r", args=args)
        stored = await site.services.parts.tasks.get(task["id"])
        assert stored.assigned_until is not None
        assert stored.assigned_until - stored.updated_at == pytest.approx(11.0)


@pytest.mark.parametrize("action", ["single", "bulk"])
@pytest.mark.parametrize("seconds", [7.0, 0.0])
async def test_a_resumed_task_prefers_the_node_that_ran_it(
    url: str, seconds: float, action: str
) -> None:
    async with open_site(url, queue_settings={"affinity_seconds": seconds}) as site:
        for node in ("n1", "n2"):
            await sync(site, "/nodes/register", {"nodeId": node})
        task = await site.task()
        path = f"/tasks/{task['id']}"
        await sync(site, f"{path}/claim", {"nodeId": "n1"})
        await site.ask("POST", f"{path}/interventions", {"type": "PAUSE", "reason": "r"})
        if action == "bulk":
            body: dict[str, Any] = {"action": "resume", "ids": [task["id"]], "reason": "r"}
            assert (await site.ask("POST", "/operations", body)).status_code == 202
        else:
            await site.ask("POST", f"{path}/interventions", {"type": "RESUME", "reason": "r"})
        reasons = (await site.ask("GET", f"{path}/why")).json()["reasons"]
        other = await sync(site, f"{path}/claim", {"nodeId": "n2"})
        if not seconds:
            assert other["success"] is True
            return
        assert "it is reserved for node n1" in reasons[0]["text"]
        assert (reasons[0]["code"], reasons[0]["data"]["node"]) == ("assigned", "n1")
        assert (other["error"], other["reason"]) == ("NOT_CLAIMABLE", "assigned")
        assert (await sync(site, f"{path}/claim", {"nodeId": "n1"}))["success"] is True
