"""The error names of `/api/v2/sync`: each in a situation that gives it."""

from __future__ import annotations

import pytest

from holdfast.core.command import Abort, Instruction, Pause
from holdfast.core.exchange.sync_errors import SyncError
from holdfast.sync.exchange import push_conflicts
from holdfast.sync.names import find_task
from tests.integration.gateway.forge import Forge, a, admin, b, refused
from tests.integration.gateway.support import Site

__all__ = ["a", "admin", "b"]


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
    answer = refused(await a.post("/tasks/task-1/heartbeat"), 409, "LOCK_LOST")
    assert "does not hold the task: " in answer["detail"], "it never did"
    return str(answer["error"])


async def output_gap(site: Site, a: Forge, b: Forge, admin: Forge) -> str:
    await a.create()
    await a.claim()
    answer = refused(await a.post("/tasks/task-1/output", start=3, text="x"), 409, "OUTPUT_GAP")
    assert answer["end"] == 0
    return str(answer["error"])


async def output_mismatch(site: Site, a: Forge, b: Forge, admin: Forge) -> str:
    await a.create()
    await a.claim()
    assert (await a.post("/tasks/task-1/output", start=0, text="ab")).json()["end"] == 2
    answer = await a.post("/tasks/task-1/output", start=1, text="x")
    return str(refused(answer, 409, "OUTPUT_MISMATCH")["error"])


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
    SyncError.OUTPUT_GAP: output_gap,
    SyncError.OUTPUT_MISMATCH: output_mismatch,
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
