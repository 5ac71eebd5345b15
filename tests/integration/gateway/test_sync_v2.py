"""The endpoints of `/api/v2/sync`, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.token import TokenKind
from holdfast.gateway.rest.sync_v2 import ROUTES
from tests.integration.gateway.forge import SYNC, Forge, a, admin, b, refused
from tests.integration.gateway.support import Site

__all__ = ["a", "admin", "b"]


# -- nodes -------------------------------------------------------------------------------------------


async def test_register(site: Site, admin: Forge) -> None:
    body = {"nodeId": "plugin-a", "nodeType": "plugin", "projectId": "proj", "bootId": "b1"}
    answer = await admin.post("/nodes/register", **body, capabilities=["fence"])
    assert answer.headers["cache-control"] == "no-store"
    first = answer.json()
    assert first["success"]
    assert (first["nodeId"], first["incarnation"], first["serverClock"]) == ("plugin-a", 1, 0)
    assert first["credential"].startswith("hf_node_")
    assert first["cursor"].startswith(first["epoch"])
    assert (first["resumed"], first["lost"], first["heartbeatIntervalMs"]) == ([], [], 20_000)
    node = Forge(site, "plugin-a", first["credential"])
    second = (await node.post("/nodes/register", **(body | {"bootId": "b2"}))).json()
    assert second["incarnation"] == 2
    assert "credential" not in second
    stranger = await node.post("/nodes/register", **(body | {"nodeId": "plugin-b"}))
    assert stranger.status_code == 403


async def test_register_by_a_join_token(site: Site) -> None:
    secret = await site.token("join", kind=TokenKind.JOIN, projects=["proj"], uses=1)
    join = Forge(site, "", secret)
    answer = await join.post("/nodes/register", nodeId="n1", projectId="proj")
    assert answer.status_code == 200, answer.text
    used_up = await join.post("/nodes/register", nodeId="n2", projectId="proj")
    assert used_up.status_code in (401, 403)


async def test_node_heartbeat(a: Forge) -> None:
    await a.create()
    lock = (await a.claim())["lock"]
    answer = await a.post("/nodes/plugin-a/heartbeat", incarnation=1, load={"running": 1})
    body = answer.json()
    assert (body["success"], body["state"], body["incarnation"]) == (True, "live", 1)
    assert [(run["taskId"], run["fence"]) for run in body["held"]] == [("task-1", lock["fence"])]
    assert body["commands"] == []


async def test_nodes(a: Forge, b: Forge, site: Site) -> None:
    viewer = Forge(site, "", await site.token("viewer", projects=["proj"]))
    page = (await viewer.get("/nodes/proj", limit=1)).json()
    assert [node["nodeId"] for node in page["nodes"]] == ["plugin-a"]
    rest = (await viewer.get("/nodes/proj", limit=1, after=page["nextCursor"])).json()
    assert [node["nodeId"] for node in rest["nodes"]] == ["plugin-b"]
    assert rest["nodes"][0]["live"] is True


# -- exchange ----------------------------------------------------------------------------------------


async def test_push_pull_handshake(a: Forge, b: Forge) -> None:
    await a.create(payload={"n": 1}, metadata={"k": 1}, labels={"add": ["nightly"]})
    seen = (await b.post("/pull/proj", taskIds=["task-1", "none"])).json()
    [task] = seen["tasks"]
    assert (task["id"], task["projectId"], task["status"], task["desired"]) == (
        "task-1",
        "proj",
        "queued",
        "run",
    )
    assert (task["payload"], task["metadata"], task["labels"]) == ({"n": 1}, {"k": 1}, ["nightly"])
    assert (task["version"], task["lock"]) == (1, None)
    assert task["sync"]["lastWriter"] == {"nodeId": "plugin-a", "nodeType": "plugin"}
    assert task["sync"]["contentHash"].startswith("h1:")
    assert seen["missing"] == ["none"]
    shake = (
        await b.post("/handshake/proj", taskVersions={"task-1": 1, "mine": 0}, localClock=3)
    ).json()
    assert (shake["inSync"], shake["needsPush"], shake["needsPull"]) == (["task-1"], ["mine"], [])
    assert (shake["serverClock"], shake["more"], shake["reset"]) == (1, False, None)
    later = (await b.post("/pull/proj", cursor=shake["cursor"])).json()
    assert later["tasks"] == []


async def test_unknown_fields_are_named_in_warnings(a: Forge) -> None:
    answer = await a.post("/push/proj", tasks=[{"id": "t", "expectedVersion": 0, "odd": 1}], x=2)
    assert answer.json()["warnings"] == ["there is no field x", "there is no field tasks.odd"]


async def test_an_atomic_push(a: Forge) -> None:
    results = await a.push(
        {"id": "t", "expectedVersion": 0},
        {"id": "u", "expectedVersion": 3, "metadata": {"x": 1}},
        atomic=True,
    )
    assert [result["error"] for result in results] == ["ATOMIC", "TASK_NOT_FOUND"]


# -- locks -------------------------------------------------------------------------------------------


async def test_claim_heartbeat_release(a: Forge) -> None:
    await a.create()
    claimed = await a.claim(claimId="c-1")
    lock = claimed["lock"]
    assert (lock["taskId"], lock["lockedBy"], lock["claimId"]) == ("task-1", "plugin-a", "c-1")
    assert (lock["lockDuration"], lock["fence"]) == (300_000, 1)
    assert 290_000 < lock["expiresInMs"] <= 300_000
    assert claimed["task"]["status"] == "running"
    again = await a.claim(claimId="c-1")
    assert again["lock"]["fence"] == 1
    beat = (
        await a.post("/tasks/task-1/heartbeat", progress=0.5, phase="edit", iteration=5, fence=1)
    ).json()
    assert (beat["success"], beat["desired"], beat["version"], beat["commands"]) == (
        True,
        "run",
        2,
        [],
    )
    for expected in (True, False):
        released = (await a.post("/tasks/task-1/release", fence=1)).json()
        assert (released["success"], released["released"]) == (True, expected)
        assert released["task"]["status"] == "queued"


async def test_an_administrator_acts_as_a_node(a: Forge, admin: Forge) -> None:
    await a.create()
    claimed = await admin.claim(nodeId="plugin-a")
    assert claimed["lock"]["lockedBy"] == "plugin-a"
    answer = await admin.post("/tasks/task-1/claim", lockDuration=1000)
    refused(answer, 422, "INVALID_INPUT")


# -- interventions -----------------------------------------------------------------------------------


async def test_intervene_and_its_command(a: Forge, admin: Forge) -> None:
    await a.create()
    await a.claim()
    body = {"type": "PAUSE", "taskId": "task-1", "reason": "wait", "requestedBy": "ann"}
    answer = (await admin.post("/intervene", **body)).json()
    assert answer["success"]
    assert (answer["task"]["status"], answer["task"]["desired"]) == ("paused", "paused")
    intervention = answer["intervention"]
    assert (intervention["state"], intervention["targetNode"]) == ("issued", "plugin-a")
    assert (intervention["actor"], intervention["claimedBy"]) == ("user:admin", "ann")
    lost = refused(await a.post("/tasks/task-1/heartbeat"), 409, "LOCK_LOST")
    assert lost["reason"] == "paused"
    [command] = lost["commands"]
    assert (command["type"], command["taskId"], command["id"]) == (
        "PAUSE",
        "task-1",
        intervention["id"],
    )
    ack = {"id": command["id"], "outcome": "done"}
    beat = (await a.post("/nodes/plugin-a/heartbeat", acks=[ack])).json()
    assert beat["commands"] == []
    history = (await admin.get("/interventions/task-1")).json()
    assert [row["state"] for row in history["interventions"]] == ["applied"]


@pytest.mark.parametrize(
    ("kind", "args", "named"),
    [
        ("REASSIGN", {}, "toNode"),
        ("REASSIGN", {"to_node": "plugin-a"}, "toNode"),
        ("REASSIGN", {"toNode": 7}, "toNode"),
        ("PAUSE", {"graceMs": "x"}, "graceMs is 'x': give a number from 0 to 3600000"),
        ("ABORT", {"graceMs": 3_600_001}, "graceMs"),
        ("ABORT", {"grace_seconds": 1}, "graceMs"),
        ("RETRY", {"delayMs": True}, "delayMs"),
        ("RETRY", {"delay_seconds": 1}, "delayMs, payload"),
    ],
)
async def test_arguments_of_interventions_have_the_names_of_this_api(
    a: Forge, admin: Forge, kind: str, args: dict[str, Any], named: str
) -> None:
    await a.create()
    body = {"type": kind, "taskId": "task-1", "reason": "r", "args": args}
    detail = refused(await admin.post("/intervene", **body), 422, "INVALID_INPUT")["detail"]
    assert named in detail


async def test_a_viewer_does_not_intervene(site: Site, a: Forge) -> None:
    await a.create()
    viewer = Forge(site, "", await site.token("viewer", projects=["proj"]))
    body = {"type": "ABORT", "taskId": "task-1", "reason": "x"}
    refused(await viewer.post("/intervene", **body), 403, "FORBIDDEN")
    refused(await a.post("/intervene", **body), 403, "FORBIDDEN")


# -- monitoring --------------------------------------------------------------------------------------


async def test_status(a: Forge) -> None:
    await a.create("one")
    await a.create("held", status="paused")
    await a.claim("one")
    status = (await a.get("/status/proj")).json()
    assert (status["projectId"], status["serverClock"]) == ("proj", 3)
    assert (status["tasks"]["queued"], status["tasks"]["running"], status["tasks"]["held"]) == (
        1,
        1,
        1,
    )
    assert status["locks"]["held"] == 1
    assert status["sync"]["pushes"] == 2
    assert status["nodes"]["live"] == 1
    assert status["conflicts"] == {"open": 0, "total": 0}


async def test_log(a: Forge) -> None:
    await a.create("one", mutationId="m1")
    await a.one(id="one", expectedVersion=0, mutationId="m1")
    start = (await a.get("/log/proj", limit=1)).json()
    assert [entry["op"] for entry in start["entries"]] == ["register"]
    page = (await a.get("/log/proj", limit=1, after=start["nextCursor"])).json()
    [entry] = page["entries"]
    assert (entry["op"], entry["outcome"], entry["mutationId"]) == ("push", "accepted", "m1")
    rest = (await a.get("/log/proj", after=page["nextCursor"], limit=1)).json()
    assert rest["entries"][0]["outcome"] == "duplicate"
    last = (await a.get("/log/proj", latest="true", limit=2)).json()
    whole = (await a.get("/log/proj", limit=1_000)).json()["entries"]
    assert (last["entries"], last["nextCursor"]) == (whole[-2:], None)
    both = await a.get("/log/proj", latest="true", after=start["nextCursor"])
    assert both.status_code == 422
    only = (await a.get("/log/proj", outcome="accepted", nodeId="plugin-a")).json()
    assert [entry["op"] for entry in only["entries"]] == ["register", "push"]


async def test_fix_expired_locks(site: Site, a: Forge, admin: Forge) -> None:
    await a.create()
    await a.claim()
    answer = (await admin.post("/fix-expired-locks", projectId="proj")).json()
    assert (answer["success"], answer["fixed"], answer["tasks"]) == (True, 0, [])
    refused(await a.post("/fix-expired-locks", projectId="proj"), 403, "FORBIDDEN")


async def test_projects_are_isolated(site: Site, a: Forge) -> None:
    await a.create()
    other = Forge(site, "", await site.token("viewer", projects=["p2"]))
    status = await other.get("/status/proj")
    assert (status.status_code, status.json()["error"]) == (404, "NOT_FOUND")  # not of a task
    assert (await other.get("/interventions/task-1")).status_code == 404
    assert (await a.post("/push/p2", tasks=[])).status_code in (403, 404)


async def test_without_a_token_nothing_is_read(site: Site) -> None:
    for route in ROUTES:
        path = SYNC + route.path.replace("{", "").replace("}", "")
        answer = await site.client.request(route.method, path)
        assert answer.status_code == 401
        assert answer.json()["error"] == "UNAUTHENTICATED"
