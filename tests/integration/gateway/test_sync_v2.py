"""The endpoints of `/api/v2/sync` and their error names, over HTTP."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from holdfast.core.command import Abort, Instruction, Pause
from holdfast.core.exchange.sync_errors import SyncError
from holdfast.core.token import TokenKind
from holdfast.gateway.rest.sync_v2 import ROUTES
from holdfast.sync import push_conflicts
from holdfast.sync.names import find_task
from tests.integration.gateway.support import ADMIN, Site

SYNC = "/api/v2/sync"


class Forge:
    """A plugin that speaks HTTP."""

    def __init__(self, site: Site, name: str, token: str) -> None:
        self.site = site
        self.name = name
        self.token = token

    async def post(self, path: str, **body: Any) -> httpx2.Response:
        return await self.site.client.post(
            SYNC + path, json=body, headers={"Authorization": f"Bearer {self.token}"}
        )

    async def get(self, path: str, **params: Any) -> httpx2.Response:
        return await self.site.client.get(
            SYNC + path, params=params, headers={"Authorization": f"Bearer {self.token}"}
        )

    async def push(self, *items: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
        answer = await self.post("/push/proj", tasks=list(items), **fields)
        assert answer.status_code == 200, answer.text
        results: list[dict[str, Any]] = answer.json()["results"]
        return results

    async def one(self, **item: Any) -> dict[str, Any]:
        return (await self.push(item))[0]

    async def create(self, name: str = "task-1", **item: Any) -> None:
        result = await self.one(id=name, expectedVersion=0, **item)
        assert result["success"], result

    async def claim(self, name: str = "task-1", **body: Any) -> dict[str, Any]:
        answer = await self.post(f"/tasks/{name}/claim", lockDuration=300_000, **body)
        assert answer.status_code == 200, answer.text
        shown: dict[str, Any] = answer.json()
        return shown


async def joined(site: Site, name: str, **fields: Any) -> Forge:
    admin = Forge(site, name, ADMIN)
    answer = await admin.post("/nodes/register", nodeId=name, projectId="proj", **fields)
    assert answer.status_code == 200, answer.text
    return Forge(site, name, answer.json()["credential"])


@pytest.fixture
async def a(site: Site) -> Forge:
    return await joined(site, "plugin-a")


@pytest.fixture
async def b(site: Site) -> Forge:
    return await joined(site, "plugin-b")


@pytest.fixture
def admin(site: Site) -> Forge:
    return Forge(site, "", ADMIN)


def refused(answer: httpx2.Response, status: int, name: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    body: dict[str, Any] = answer.json()
    assert (body["success"], body["error"], body["status"]) == (False, name, status)
    assert body["type"].startswith("urn:holdfast:error:")
    return body


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
        ("PAUSE", {"graceMs": "x"}, "graceMs is 'x': give a number from 0 to 3.6e+06"),
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
    only = (await a.get("/log/proj", outcome="accepted", nodeId="plugin-a")).json()
    assert [entry["op"] for entry in only["entries"]] == ["register", "push"]


async def test_fix_expired_locks(site: Site, a: Forge, admin: Forge) -> None:
    await a.create()
    await a.claim()
    answer = (await admin.post("/fix-expired-locks", projectId="proj")).json()
    assert (answer["success"], answer["fixed"], answer["tasks"]) == (True, 0, [])
    refused(await a.post("/fix-expired-locks", projectId="proj"), 403, "FORBIDDEN")


# -- error names -------------------------------------------------------------------------------------


async def stale(site: Site, a: Forge, b: Forge, admin: Forge) -> str:
    await a.create(payload=0)
    await a.one(id="task-1", expectedVersion=1, payload=1)
    return str((await b.one(id="task-1", expectedVersion=1, payload=2))["error"])


async def conflicts_full(site: Site, a: Forge, b: Forge, admin: Forge) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(push_conflicts, "OPEN_MAX", 0)
        return await stale(site, a, b, admin)


async def ahead(site: Site, a: Forge, b: Forge, admin: Forge) -> str:
    await a.create()
    return str((await a.one(id="task-1", expectedVersion=7, metadata={"x": 1}))["error"])


async def bad_item(site: Site, a: Forge, b: Forge, admin: Forge) -> str:
    """The other item is carried out, and a field that no item has is named."""
    body = {
        "tasks": [{"id": "t", "expectedVersion": "x"}, 7, {"id": "u", "expectedVersion": 0, "y": 1}]
    }
    answer = (await a.post("/push/proj", **body)).json()
    assert answer["warnings"] == ["there is no field tasks.y"]
    first, second, third = answer["results"]
    assert (first["taskId"], first["success"], second["success"]) == ("t", False, False)
    assert "expectedVersion" in first["detail"]
    assert (third["taskId"], third["success"]) == ("u", True)
    return str(first["error"])


async def bad_status(site: Site, a: Forge, b: Forge, admin: Forge) -> str:
    await a.create()
    return str((await a.one(id="task-1", expectedVersion=1, status="odd"))["error"])


async def bad_transition(site: Site, a: Forge, b: Forge, admin: Forge) -> str:
    return str((await a.one(id="new", expectedVersion=0, status="running"))["error"])


async def not_runner(site: Site, a: Forge, b: Forge, admin: Forge) -> str:
    await a.create()
    await a.claim()
    return str((await b.one(id="task-1", expectedVersion=2, status="completed"))["error"])


async def claim_required(site: Site, a: Forge, b: Forge, admin: Forge) -> str:
    await a.create()
    return str((await a.one(id="task-1", expectedVersion=1, status="running"))["error"])


async def task_id(a: Forge) -> str:
    hit = await find_task(a.site.services.store, "task-1", project="proj", projects={"proj"})
    return hit.task_id


async def held(site: Site, a: Forge, b: Forge, admin: Forge) -> str:
    await a.create()
    await site.services.store.apply([Instruction(await task_id(a), Pause("user:ann"))])
    return str((await a.one(id="task-1", expectedVersion=2, status="queued"))["error"])


async def terminal(site: Site, a: Forge, b: Forge, admin: Forge) -> str:
    await a.create()
    await site.services.store.apply([Instruction(await task_id(a), Abort("user:ann"))])
    return str((await a.one(id="task-1", expectedVersion=2, metadata={"x": 1}))["error"])


async def already_locked(site: Site, a: Forge, b: Forge, admin: Forge) -> str:
    await a.create()
    await a.claim()
    answer = await b.post("/tasks/task-1/claim", lockDuration=1000)
    body = refused(answer, 409, "ALREADY_LOCKED")
    assert body["lockedBy"] == "plugin-a"
    assert body["lockedForMs"] > 0
    assert body["serverState"]["status"] == "running"
    assert "payload" not in body["serverState"]
    return str(body["error"])


async def not_locked(site: Site, a: Forge, b: Forge, admin: Forge) -> str:
    await a.create()
    body = {"type": "RELEASE_LOCK", "taskId": "task-1", "reason": "r"}
    answer = refused(await admin.post("/intervene", **body), 409, "NOT_LOCKED")
    assert answer["code"] == "not-locked"
    assert answer["serverState"]["status"] == "queued"
    return str(answer["error"])


async def not_claimable(site: Site, a: Forge, b: Forge, admin: Forge) -> str:
    await a.create()
    await site.services.store.apply([Instruction(await task_id(a), Pause("user:ann"))])
    body = refused(await a.post("/tasks/task-1/claim"), 409, "NOT_CLAIMABLE")
    assert body["reason"] == "held"
    return str(body["error"])


async def lock_lost(site: Site, a: Forge, b: Forge, admin: Forge) -> str:
    await a.create()
    return str(refused(await a.post("/tasks/task-1/heartbeat"), 409, "LOCK_LOST")["error"])


async def not_found(site: Site, a: Forge, b: Forge, admin: Forge) -> str:
    return str(refused(await a.post("/tasks/none/claim"), 404, "TASK_NOT_FOUND")["error"])


async def deleted(site: Site, a: Forge, b: Forge, admin: Forge) -> str:
    await a.create()
    await site.services.store.apply([Instruction(await task_id(a), Abort("user:ann"))])
    later = site.services.now() + 100
    await site.services.store.prune(before=later, dead_before=later, feed_before=0)
    result = await a.one(id="task-1", expectedVersion=2, metadata={"x": 1})
    assert result["version"] == 2
    assert result["deletedAt"].endswith("Z")
    return str(result["error"])


async def node_unknown(site: Site, a: Forge, b: Forge, admin: Forge) -> str:
    answer = await admin.post("/pull/proj", nodeId="nobody")
    return str(refused(answer, 404, "NODE_UNKNOWN")["error"])


async def node_fenced(site: Site, a: Forge, b: Forge, admin: Forge) -> str:
    answer = await a.post("/nodes/plugin-a/heartbeat", incarnation=9)
    return str(refused(answer, 409, "NODE_FENCED")["error"])


async def mutation_reused(site: Site, a: Forge, b: Forge, admin: Forge) -> str:
    await a.create(mutationId="m")
    return str((await a.one(id="task-1", expectedVersion=0, payload=9, mutationId="m"))["error"])


async def ambiguous(site: Site, a: Forge, b: Forge, admin: Forge) -> str:
    await a.create()
    await admin.post("/nodes/register", nodeId="other", projectId="p2")
    item = {"id": "task-1", "expectedVersion": 0}
    await admin.post("/push/p2", nodeId="other", tasks=[item])
    body = {"type": "ABORT", "taskId": "task-1", "reason": "x"}
    return str(refused(await admin.post("/intervene", **body), 409, "AMBIGUOUS_ID")["error"])


async def too_large(site: Site, a: Forge, b: Forge, admin: Forge) -> str:
    items = [{"id": f"t{n}", "expectedVersion": 0} for n in range(501)]
    return str(refused(await a.post("/push/proj", tasks=items), 413, "BATCH_TOO_LARGE")["error"])


async def reset(site: Site, a: Forge, b: Forge, admin: Forge) -> str:
    """A handshake answers a reset; it is no refusal."""
    answer = (await a.post("/handshake/proj", cursor="other:1")).json()
    assert answer["reset"]["reason"] == "epoch"
    return "RESET_REQUIRED"


async def atomic(site: Site, a: Forge, b: Forge, admin: Forge) -> str:
    items = [{"id": "t", "expectedVersion": 0}, {"id": "u", "expectedVersion": 0, "status": "x"}]
    return str((await a.push(*items, atomic=True))[0]["error"])


CASES = {
    SyncError.VERSION_CONFLICT: stale,
    SyncError.VERSION_AHEAD: ahead,
    SyncError.INVALID_INPUT: bad_item,
    SyncError.INVALID_STATUS: bad_status,
    SyncError.INVALID_TRANSITION: bad_transition,
    SyncError.NOT_RUNNER: not_runner,
    SyncError.CLAIM_REQUIRED: claim_required,
    SyncError.HELD: held,
    SyncError.TERMINAL: terminal,
    SyncError.ALREADY_LOCKED: already_locked,
    SyncError.NOT_CLAIMABLE: not_claimable,
    SyncError.NOT_LOCKED: not_locked,
    SyncError.LOCK_LOST: lock_lost,
    SyncError.TASK_NOT_FOUND: not_found,
    SyncError.TASK_DELETED: deleted,
    SyncError.NODE_UNKNOWN: node_unknown,
    SyncError.NODE_FENCED: node_fenced,
    SyncError.MUTATION_REUSED: mutation_reused,
    SyncError.AMBIGUOUS_ID: ambiguous,
    SyncError.BATCH_TOO_LARGE: too_large,
    SyncError.RESET_REQUIRED: reset,
    SyncError.ATOMIC: atomic,
    SyncError.CONFLICTS_FULL: conflicts_full,
}


def test_every_error_name_has_a_case() -> None:
    assert set(CASES) == set(SyncError)


@pytest.mark.parametrize("name", list(CASES))
async def test_an_error_name(name: SyncError, site: Site, a: Forge, b: Forge, admin: Forge) -> None:
    assert await CASES[name](site, a, b, admin) == name


async def test_projects_are_isolated(site: Site, a: Forge) -> None:
    await a.create()
    other = Forge(site, "", await site.token("viewer", projects=["p2"]))
    assert (await other.get("/status/proj")).status_code == 404
    assert (await other.get("/interventions/task-1")).status_code == 404
    assert (await a.post("/push/p2", tasks=[])).status_code in (403, 404)


async def test_without_a_token_nothing_is_read(site: Site) -> None:
    for route in ROUTES:
        path = SYNC + route.path.replace("{", "").replace("}", "")
        answer = await site.client.request(route.method, path)
        assert answer.status_code == 401
        assert answer.json()["error"] == "UNAUTHENTICATED"
