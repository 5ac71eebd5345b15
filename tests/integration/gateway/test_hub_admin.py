"""Conflicts, projects, nodes and schedules over `/api/v1`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.gateway.support import ADMIN, Site, problem

SYNC = "/api/v2/sync"


class Node:
    """A registered node that pushes."""

    def __init__(self, site: Site, name: str, project: str, token: str) -> None:
        self.site, self.name, self.project, self.token = site, name, project, token

    async def post(self, path: str, **body: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"}
        return await self.site.client.post(SYNC + path, json=body, headers=headers)

    async def push(self, **item: Any) -> dict[str, Any]:
        answer = await self.post(f"/push/{self.project}", tasks=[item])
        assert answer.status_code == 200, answer.text
        result: dict[str, Any] = answer.json()["results"][0]
        return result


async def joined(site: Site, name: str = "plugin-a", project: str = "web") -> Node:
    admin = Node(site, name, project, ADMIN)
    answer = await admin.post("/nodes/register", nodeId=name, projectId=project)
    assert answer.status_code == 200, answer.text
    return Node(site, name, project, answer.json()["credential"])


async def conflict_of(site: Site) -> str:
    """Two nodes that wrote another payload on one base, in a project whose conflicts wait for a person."""
    await site.ask("POST", "/projects", {"id": "web", "strategy": "manual"})
    first, second = await joined(site), await joined(site, "plugin-b")
    assert (await first.push(id="t", expectedVersion=0, payload={"n": 1}))["success"]
    assert (await first.push(id="t", expectedVersion=1, payload={"n": 2}))["success"]
    refused = await second.push(id="t", expectedVersion=1, payload={"n": 3})
    conflict_id: str = refused["conflictId"]
    return conflict_id


async def test_a_conflict_is_listed_and_settled(site: Site) -> None:
    conflict_id = await conflict_of(site)
    rows = (await site.ask("GET", "/conflicts", q="state:open project:web")).json()["items"]
    assert [(row["id"], row["client_id"], row["node"]) for row in rows] == [
        (conflict_id, "t", "plugin-b")
    ]
    assert "server" not in rows[0], "a list has no bodies"
    shown = await site.ask("GET", f"/conflicts/{conflict_id}")
    assert shown.headers["ETag"] == '"v1"'
    both = shown.json()
    assert (both["server"]["payload"], both["client"]["payload"]) == ({"n": 2}, {"n": 3})
    print(
        [
            (e["position"], e["kind"], e["task_id"])
            for e in (await site.ask("GET", "/events")).json()["items"]
        ]
    )
    history = (await site.ask("GET", f"/tasks/{both['task_id']}/history")).json()["items"]
    kinds = ["task.enqueued", "task.edited", "conflict.recorded"]
    assert [event["kind"] for event in history] == kinds
    assert both["base"] == {"payload": {"n": 1}, "metadata": {}, "labels": []}
    assert both["server_written_by"] == "node:plugin-a"
    assert both["server_written_at"] <= both["created_at"]
    path = f"/conflicts/{conflict_id}/settle"
    wrong = await site.ask("POST", path, {"take": "client", "expected_version": 9})
    assert problem(wrong) == (409, "version-conflict")
    stale = await site.ask("POST", path, {"take": "client"}, headers={"If-Match": '"v9"'})
    assert problem(stale) == (412, "precondition-failed")
    key = {"Idempotency-Key": "k1"}
    body = {"take": "client", "reason": "theirs is newer"}
    done = (await site.ask("POST", path, body, headers=key)).json()
    assert (done["conflict"]["state"], done["conflict"]["resolution"]) == ("settled", "client")
    assert (done["task"]["payload"], done["task"]["client_id"]) == ({"n": 3}, "t")
    assert (await site.ask("POST", path, body, headers=key)).json() == done
    assert problem(await site.ask("POST", path, body)) == (409, "illegal-transition")
    assert (await site.ask("GET", "/conflicts", q="state:open")).json()["items"] == []
    audit = (await site.ask("GET", "/audit")).json()["items"]
    assert [row["subject"] for row in audit if row["operation"] == "conflicts.settle"] == [
        conflict_id
    ]


@pytest.mark.parametrize("q", ["state:open OR", "nme:x", "state:none"])
async def test_a_wrong_query_of_conflicts_is_refused(memory_site: Site, q: str) -> None:
    assert problem(await memory_site.ask("GET", "/conflicts", q=q))[1] == "invalid-input"


async def test_a_merged_content_settles_too(site: Site) -> None:
    path = f"/conflicts/{await conflict_of(site)}/settle"
    body = {"take": "merged", "merged": {"payload": {"n": 5}}}
    assert (await site.ask("POST", path, body)).json()["task"]["payload"] == {"n": 5}


async def test_conflicts_projects_and_nodes_of_a_foreign_project_do_not_exist(site: Site) -> None:
    conflict_id = await conflict_of(site)
    ours = await site.token("admin", projects=["shop"])
    for method, path, body in [
        ("GET", f"/conflicts/{conflict_id}", None),
        ("POST", f"/conflicts/{conflict_id}/settle", {"take": "server"}),
        ("GET", "/nodes/plugin-a", None),
        ("POST", "/nodes/plugin-a/revoke", {}),
        ("GET", "/projects/web", None),
        ("PATCH", "/projects/web", {"strategy": "merge"}),
        ("POST", "/projects", {"id": "web"}),
    ]:
        assert problem(await site.ask(method, path, body, token=ours)) == (404, "not-found"), path
    assert (await site.ask("GET", "/conflicts", token=ours)).json()["items"] == []
    foreign = await site.ask("GET", "/conflicts", token=ours, q="project:web")
    assert problem(foreign) == (404, "not-found")
    assert (await site.ask("GET", "/nodes", token=ours, live=False)).json()["items"] == []
    listed = (await site.ask("GET", "/projects", token=ours)).json()["items"]
    assert [row["id"] for row in listed] == ["shop"]


async def test_projects(site: Site) -> None:
    body = {"id": "web", "strategy": "manual", "overrides": {"set": "merge"}}
    made = await site.ask("POST", "/projects", body)
    assert made.status_code == 201
    assert problem(await site.ask("POST", "/projects", body)) == (409, "conflict")
    shown = (await site.ask("GET", "/projects/web")).json()
    assert (shown["strategy"], shown["overrides"]) == ("manual", {"set": "merge"})
    patch = {"strategy": "last_write_wins", "expected_version": shown["version"]}
    changed = (await site.ask("PATCH", "/projects/web", patch)).json()
    assert (changed["strategy"], changed["overrides"]) == ("last_write_wins", {"set": "merge"})
    assert problem(await site.ask("PATCH", "/projects/web", patch)) == (409, "version-conflict")
    unknown = await site.ask("PATCH", "/projects/wbe", {"strategy": "manual"})
    assert problem(unknown) == (404, "not-found")
    wrong = await site.ask("PATCH", "/projects/web", {"overrides": {"register": "merge"}})
    assert problem(wrong)[1] == "invalid-input"
    ids = [row["id"] for row in (await site.ask("GET", "/projects")).json()["items"]]
    assert ids == ["default", "web"]


async def test_nodes_change_their_state(site: Site) -> None:
    node = await joined(site)
    assert (await node.push(id="t", expectedVersion=0))["success"]
    for verb, state in [("cordon", "cordoned"), ("drain", "draining"), ("uncordon", "live")]:
        answer = await site.ask("POST", f"/nodes/plugin-a/{verb}", {"reason": "r"})
        assert (answer.status_code, answer.json()["state"]) == (200, state)
        claim = await node.post("/tasks/t/claim", lockDuration=60_000)
        assert claim.status_code == (200 if state == "live" else 409)
    await site.ask("POST", "/nodes/plugin-a/quarantine", {})
    refused = await node.post("/nodes/plugin-a/heartbeat")
    assert refused.json()["error"] == "NODE_FENCED"
    revoked = (await site.ask("POST", "/nodes/plugin-a/revoke", {})).json()
    assert (revoked["state"], revoked["incarnation"]) == ("revoked", 2)
    assert (await node.post("/nodes/plugin-a/heartbeat")).status_code == 401
    shown = (await site.ask("GET", "/nodes/plugin-a")).json()
    assert (shown["kind"], shown["project"], shown["running"]) == ("plugin", "web", 0)
    assert problem(await site.ask("POST", "/nodes/none/cordon", {})) == (404, "not-found")


@pytest.mark.parametrize("verb", ["uncordon", "cordon", "drain", "quarantine"])
async def test_a_revoked_node_does_not_return(site: Site, verb: str) -> None:
    """It has no credential any more: a list that calls it live would be wrong."""
    await joined(site)
    await site.ask("POST", "/nodes/plugin-a/revoke", {})
    assert problem(await site.ask("POST", f"/nodes/plugin-a/{verb}", {})) == (409, "conflict")
    assert (await site.ask("GET", "/nodes/plugin-a")).json()["state"] == "revoked"


async def test_a_schedule_runs_now(site: Site) -> None:
    body = {"spec": "0 3 * * *", "type": "mail", "payload": {"n": 1}, "priority": "high"}
    before = (await site.ask("PUT", "/schedules/nightly", body)).json()
    key = {"Idempotency-Key": "k1"}
    made = await site.ask("POST", "/schedules/nightly/run", {"reason": "now"}, headers=key)
    assert made.status_code == 201
    task = made.json()["task"]
    assert (task["payload"], task["priority"]) == ({"n": 1}, "high")
    assert task["metadata"] == {"schedule": "nightly"}
    repeat = await site.ask("POST", "/schedules/nightly/run", {"reason": "now"}, headers=key)
    assert repeat.json() == made.json()
    assert (await site.ask("GET", "/schedules/nightly")).json()["next_at"] == before["next_at"]
    assert problem(await site.ask("POST", "/schedules/none/run", {})) == (404, "not-found")


async def test_a_task_shows_what_nodes_know_of_it(site: Site) -> None:
    node = await joined(site)
    await node.push(id="t", expectedVersion=0, metadata={"a": 1})
    await node.post("/tasks/t/claim", lockDuration=60_000)
    await node.post("/tasks/t/heartbeat", progress=0.5, phase="edit", iteration=3)
    row = (await site.ask("GET", "/tasks", q="project:web")).json()["items"][0]
    task = (await site.ask("GET", f"/tasks/{row['id']}")).json()
    assert (task["client_id"], task["desired"]) == ("t", "run")
    assert task["progress"] == row["progress"]
    assert task["progress"] == {
        "done": 0.5,
        "note": "",
        "phase": "edit",
        "iteration": 3,
        "subtasks": [],
    }


async def test_metadata_is_patched(site: Site) -> None:
    task = await site.task(payload={"n": 1}, metadata={"a": 1, "b": 2})
    path = f"/tasks/{task['id']}"
    patched = await site.ask("PATCH", path, {"metadata": {"a": None, "c": 3}})
    assert (patched.json()["metadata"], patched.json()["payload"]) == ({"b": 2, "c": 3}, {"n": 1})
    assert problem(await site.ask("PATCH", path, {}))[1] == "invalid-input"
    paused = await site.ask("POST", f"{path}/interventions", {"type": "PAUSE", "reason": "r"})
    assert paused.json()["task"]["desired"] == "paused"


async def test_a_queue_shows_its_oldest_due_task(site: Site) -> None:
    await site.task(delay_seconds=60)
    shown = (await site.ask("GET", "/queues/default")).json()
    assert shown["oldest_due_seconds"] is None, "it is delayed"
    await site.task()
    assert (await site.ask("GET", "/queues/default")).json()["oldest_due_seconds"] >= 0


async def test_queues_and_schedules_have_versions(site: Site) -> None:
    body = {"spec": "0 3 * * *", "type": "mail"}
    await site.ask("PUT", "/schedules/nightly", body)
    for path, first in (("/queues/default", 0), ("/schedules/nightly", 1)):
        read = await site.ask("GET", path)
        assert (read.headers["ETag"], read.json()["version"]) == (f'"v{first}"', first)
        stale = await site.ask("POST", f"{path}/pause", {}, headers={"If-Match": '"v7"'})
        assert problem(stale) == (412, "precondition-failed")
        assert stale.json()["current"] == {"version": first}
        stale = await site.ask("POST", f"{path}/pause", {"expected_version": 7})
        assert problem(stale) == (409, "version-conflict")
        match = {"If-Match": read.headers["ETag"]}
        paused = await site.ask("POST", f"{path}/pause", {"reason": "r"}, headers=match)
        assert (paused.headers["ETag"], paused.json()["version"]) == (f'"v{first + 1}"', first + 1)
        again = await site.ask("POST", f"{path}/resume", {}, headers=match)
        assert problem(again) == (412, "precondition-failed")
        assert (await site.ask("POST", f"{path}/resume", {})).json()["version"] == first + 2
    gone = await site.ask("DELETE", "/schedules/nightly", headers={"If-Match": '"v1"'})
    assert problem(gone) == (412, "precondition-failed")


async def test_a_schedule_belongs_to_a_project(site: Site) -> None:
    body = {"spec": "0 3 * * *", "type": "mail"}
    p = await site.token("operator", projects=["p"])
    q = await site.token("operator", projects=["q"])
    made = await site.ask("PUT", "/schedules/mine", body, token=p)
    assert made.json()["project"] == "p"
    run = await site.ask("POST", "/schedules/mine/run", {}, token=p)
    assert run.json()["task"]["project"] == "p"
    for method, path, sent in (
        ("GET", "/schedules/mine", None),
        ("DELETE", "/schedules/mine", None),
        ("POST", "/schedules/mine/pause", {}),
        ("POST", "/schedules/mine/run", {}),
    ):
        foreign = await site.ask(method, path, sent, token=q)
        none = await site.ask(method, path.replace("mine", "none"), sent, token=q)
        assert problem(foreign) == problem(none) == (404, "not-found")
        assert foreign.json()["detail"] == none.json()["detail"].replace("none", "mine")
    assert problem(await site.ask("PUT", "/schedules/mine", body, token=q)) == (409, "conflict")
    elsewhere = await site.ask("PUT", "/schedules/mine", body | {"project": "q"}, token=p)
    assert problem(elsewhere) == (404, "not-found")
    assert (await site.ask("GET", "/schedules", token=q)).json()["items"] == []
    assert len((await site.ask("GET", "/schedules", token=p)).json()["items"]) == 1
    assert len((await site.ask("GET", "/schedules")).json()["items"]) == 1


async def test_a_caller_reads_which_operations_it_may_use(site: Site) -> None:
    viewer = await site.token("viewer")
    items = (await site.ask("GET", "/rights", token=viewer)).json()["items"]
    rights = {item["operation"]: item["right"] for item in items}
    assert (rights["tasks.read"], "queues.pause" in rights) == ("yes", False)
    scoped = await site.token("operator", scopes=["tasks.read"])
    items = (await site.ask("GET", "/rights", token=scoped)).json()["items"]
    assert items == [{"operation": "tasks.read", "right": "yes"}]
    items = (await site.ask("GET", "/rights")).json()["items"]
    assert {"operation": "sync.run", "right": "as_node"} in items
