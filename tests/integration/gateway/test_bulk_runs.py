"""Changes of many tasks as runs: figures, errors, stop, resume, crash, rights, repeats."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.bulk import BATCH
from holdfast.core.claiming import ClaimRequest
from holdfast.errors import StoreUnavailable
from holdfast.gateway.bulk_runner import BulkRunner
from holdfast.sync.bulk import rows
from holdfast.sync.bulk.bulk import BulkRuns, Moved
from tests.integration.gateway.support import ADMIN, Site, problem

QUEUED = {"action": "abort", "q": "status:queued", "reason": "tidy"}


async def fill(site: Site, count: int, **fields: Any) -> list[str]:
    tasks = [{"type": "mail", "id": f"t{n:04}", **fields} for n in range(count)]
    assert (await site.ask("POST", "/tasks/batch", {"tasks": tasks})).status_code == 201
    return [str(task["id"]) for task in tasks]


async def dead(site: Site, ids: list[str]) -> None:
    for task_id in ids:
        body = {"type": "FORCE_STATUS", "reason": "it cannot succeed", "args": {"status": "failed"}}
        await site.ask("POST", f"/tasks/{task_id}/interventions", body)


async def begin(site: Site, body: dict[str, Any], **options: Any) -> dict[str, Any]:
    answer = await site.ask("POST", "/operations", body, **options)
    assert answer.status_code == 202, answer.text
    run: dict[str, Any] = answer.json()
    return run


async def look(site: Site, run_id: str) -> dict[str, Any]:
    run: dict[str, Any] = (await site.ask("GET", f"/operations/{run_id}")).json()
    return run


class Crash(Exception):
    pass


@pytest.fixture
def crash(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The next run dies after its first batch."""
    advance = BulkRuns.advance

    async def once(self: BulkRuns, run: Any, *args: Any) -> Any:
        if run.position:
            raise Crash
        return await advance(self, run, *args)

    monkeypatch.setattr(BulkRuns, "advance", once)
    return lambda: monkeypatch.setattr(BulkRuns, "advance", advance)


async def test_a_dry_run_names_what_the_run_leaves_out(site: Site) -> None:
    ids = await fill(site, 2)
    dry = {"action": "abort", "ids": [*ids, "nothing"], "dry_run": True}
    foreseen = (await site.ask("POST", "/operations", dry)).json()
    absent = [{"reason": "not-found", "count": 1}]
    assert foreseen == {"count": 2, "eligible": 2, "skipped": absent}
    theirs = await site.token("operator", projects=["web"])
    foreign = (await site.ask("POST", "/operations", dry, token=theirs)).json()
    assert foreign == {"count": 0, "eligible": 0, "skipped": [{"reason": "not-found", "count": 3}]}
    replay = {"action": "replay", "ids": ids, "dry_run": True}
    alive = (await site.ask("POST", "/operations", replay)).json()
    assert alive == {"count": 0, "eligible": 0, "skipped": [{"reason": "not-dead", "count": 2}]}


async def test_a_run_counts_what_was_named_and_left_out(site: Site) -> None:
    """As refused: a run that changed less than it was asked for is not done as if it had."""
    ids = await fill(site, 2)
    named = ["nothing-1", *ids, "nothing-2"]
    made = (
        await site.ask("POST", "/operations", {"action": "abort", "ids": named, "canary": 1})
    ).json()
    ended = (await site.ask("GET", f"/operations/{made['id']}")).json()
    figures = [ended[name] for name in ("state", "total", "done", "failed")]
    assert figures == ["done", 4, 2, 2], "they stop no canary"
    assert ended["errors"] == [{"reason": "not-found", "count": 2}]
    statuses = [(await site.ask("GET", f"/tasks/{task}")).json()["status"] for task in ids]
    assert statuses == ["aborted", "aborted"]
    nothing = {"action": "abort", "ids": ["nothing-1"]}
    empty = (await site.ask("POST", "/operations", nothing)).json()
    assert [empty[name] for name in ("state", "total", "failed")] == ["done", 1, 1]


async def test_a_run_has_figures_errors_and_is_listed(site: Site) -> None:
    ids = await fill(site, 3)
    await site.ask("POST", f"/tasks/{ids[0]}/interventions", {"type": "ABORT", "reason": "r"})
    dry = {"action": "abort", "ids": ids, "dry_run": True}
    foreseen = (await site.ask("POST", "/operations", dry)).json()
    skipped = [{"reason": "illegal-transition", "count": 1}]
    assert foreseen == {"count": 3, "eligible": 2, "skipped": skipped}
    made = await begin(site, {"action": "abort", "ids": ids, "reason": "tidy"})
    assert (made["state"], made["total"], made["done"]) == ("running", 3, 0)
    run = await look(site, made["id"])
    assert (run["state"], run["done"], run["failed"]) == ("done", 2, 1)
    assert (run["errors"], run["reason"], run["action"]) == (skipped, "tidy", "abort")
    other = await begin(site, QUEUED)
    assert (await look(site, other["id"]))["state"] == "done"
    page = (await site.ask("GET", "/operations", limit=1)).json()
    assert [item["id"] for item in page["items"]] == [other["id"]]
    rest = (await site.ask("GET", "/operations", after=page["next"])).json()
    assert [item["id"] for item in rest["items"]] == [made["id"]]
    rows = (await site.ask("GET", "/audit", limit=100)).json()["items"]
    changed = [row["subject"] for row in rows if row["request_id"] and row["subject"] in ids[1:]]
    assert sorted(changed) == sorted(ids[1:])
    begun = [row["subject"] for row in rows if row["operation"] == "operations.run"]
    assert sorted(begun) == sorted([made["id"], other["id"]])


async def test_a_run_that_died_goes_on_in_another_process(site: Site, crash: Any) -> None:
    ids = await fill(site, 2 * BATCH + 5)
    assert (await site.ask("POST", "/operations", QUEUED)).status_code == 500
    [run] = (await site.ask("GET", "/operations")).json()["items"]
    assert (run["state"], run["total"], run["done"]) == ("running", len(ids), BATCH)
    crash()
    services = site.services
    other = BulkRunner(
        services.store,
        services.clock,
        make_beside=services.bulk._make_beside,
        on_changed=services.wake,
    )
    now = services.store.now()
    assert await other.runs.idle(now - 30.0) == []
    assert await other.runs.idle(now + 1.0) == [run["id"]]
    await other.drive(run["id"])
    after = await look(site, run["id"])
    assert (after["state"], after["done"], after["failed"]) == ("done", len(ids), 0)


async def test_a_gateway_takes_over_and_begins_in_the_background(site: Site) -> None:
    await fill(site, 2)
    bulk = site.services.bulk
    async with bulk.running():
        made = await begin(site, QUEUED)
        async with asyncio.timeout(20):
            await asyncio.gather(*(driven.task for driven in bulk._driven.values()))
        assert (await look(site, made["id"]))["state"] == "done"


async def test_a_stopped_run_changes_nothing_until_it_is_resumed(site: Site, crash: Any) -> None:
    ids = await fill(site, BATCH + 3)
    assert (await site.ask("POST", "/operations", QUEUED)).status_code == 500
    crash()
    [run] = (await site.ask("GET", "/operations")).json()["items"]
    stopped = await site.ask("POST", f"/operations/{run['id']}/stop", {"reason": "wrong"})
    assert (stopped.json()["state"], stopped.json()["detail"]) == ("stopped", "wrong")
    assert stopped.headers["etag"] == f'"v{stopped.json()["version"]}"'
    runs = site.services.bulk.runs
    stale = await runs.get(run["id"])
    await site.services.bulk.drive(run["id"])
    assert (await look(site, run["id"]))["done"] == BATCH
    again = await site.ask("POST", f"/operations/{run['id']}/resume", {})
    assert again.json()["state"] == "running"
    assert (await look(site, run["id"]))["done"] == len(ids)
    with pytest.raises(Moved):
        await runs.advance(stale, await runs.ids(run["id"]))
    ended = await site.ask("POST", f"/operations/{run['id']}/stop", {})
    assert problem(ended) == (409, "illegal-transition")


async def test_a_repeat_with_a_key_is_the_same_run(site: Site) -> None:
    await fill(site, 2)
    key = {"Idempotency-Key": "k1"}
    first = await begin(site, QUEUED, headers=key)
    await fill(site, 3)
    assert await begin(site, QUEUED, headers=key) == first
    assert len((await site.ask("GET", "/operations")).json()["items"]) == 1


async def test_a_task_that_was_replayed_meanwhile_is_not_discarded(site: Site) -> None:
    await site.task(id="parent")
    ids = await fill(site, 2, depends_on=["parent"])
    await dead(site, ids)
    runs = site.services.bulk.runs
    made = await begin_only(site, {"action": "discard", "ids": ids})
    await site.ask("POST", f"/dead-letters/{ids[0]}/replay", {})
    run = await runs.advance(await runs.get(made), await runs.ids(made))
    assert (run.done, run.errors) == (1, {"version-conflict": 1})


async def begin_only(site: Site, body: dict[str, Any], **options: Any) -> str:
    """Makes a run without advancing it."""

    async def nothing(run: Any) -> None:
        del run

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(site.services.bulk, "begin", nothing)
        return str((await begin(site, body, **options))["id"])


async def test_a_run_belongs_to_the_projects_of_who_made_it(site: Site) -> None:
    ours = await site.token("operator", projects=["ours"])
    theirs = await site.token("operator", projects=["theirs"])
    viewer = await site.token("viewer", projects=["ours"])
    await site.task(project="ours", id="o1")
    await site.task(project="theirs", id="x1")
    made = await begin(site, QUEUED, token=ours)
    assert made["total"] == 1
    path = f"/operations/{made['id']}"
    assert (await site.ask("GET", path, token=viewer)).json()["done"] == 1
    assert problem(await site.ask("GET", path, token=theirs)) == (404, "not-found")
    assert (await site.ask("GET", "/operations", token=theirs)).json()["items"] == []
    assert problem(await site.ask("POST", f"{path}/stop", {}, token=viewer))[0] == 403
    assert problem(await site.ask("GET", "/operations/none"))[0] == 404


async def test_tasks_are_reassigned_to_a_node_that_exists(site: Site) -> None:
    ids = await fill(site, 2)
    body = {"action": "reassign", "ids": ids, "args": {"to_node": "n1"}, "reason": "data"}
    assert problem(await site.ask("POST", "/operations", body))[0] == 422
    headers = {"Authorization": f"Bearer {await site.token('admin')}"}
    await site.client.post("/api/v2/sync/nodes/register", json={"nodeId": "n1"}, headers=headers)
    made = await begin(site, body)
    assert (await look(site, made["id"]))["done"] == 2
    assert (await site.services.parts.tasks.get(ids[0])).assigned_to == "n1"


async def test_an_outage_leaves_the_run_for_later(
    memory_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(memory_site, 1)
    run_id = await begin_only(memory_site, QUEUED)

    async def away(*_: Any) -> Any:
        raise StoreUnavailable("away")

    with monkeypatch.context() as patched:
        patched.setattr(BulkRuns, "advance", away)
        await memory_site.services.bulk._guarded(run_id, asyncio.Event())
    run = await look(memory_site, run_id)
    assert (run["state"], run["detail"]) == ("running", "the last try failed: away")


async def test_the_rest_of_a_replay_waits_for_its_canary(site: Site) -> None:
    await site.task(id="parent")
    ids = await fill(site, 4, depends_on=["parent"])
    await dead(site, ids)
    runs = site.services.bulk.runs
    named = await begin_only(site, {"action": "replay", "ids": ids, "canary": 2})

    async def step() -> Any:
        return await runs.advance(await runs.get(named), ids)

    run = await step()
    assert (run.done, run.is_watching) == (2, True)
    run = await step()
    assert (run.done, run.detail) == (2, "waits for the canary: 2 of 2 tasks have not ended")
    await site.ask("POST", f"/tasks/{ids[0]}/interventions", {"type": "ABORT", "reason": "r"})
    assert (await step()).detail == "waits for the canary: 1 of 2 tasks have not ended"
    claim = ClaimRequest(
        node="node-1", queues=("default",), types=("mail",), limit=9, lease_seconds=60.0
    )
    await site.services.store.claim(claim)
    await dead(site, [ids[1]])
    shown = await look(site, (await step()).id)
    figures = (shown["state"], shown["done"], shown["detail"])
    assert figures == ("stopped", 2, "1 of 2 tasks of the canary failed again")
    await site.ask("POST", f"/operations/{named}/resume", {})
    assert (await look(site, named))["state"] == "done", "all that are left are its canary"


async def test_a_replay_patches_the_payload_of_each_task(site: Site) -> None:
    """A dry run shows the first. What cannot be patched stays a dead letter."""
    await site.task(id="parent")
    ids = await fill(site, 2, depends_on=["parent"], payload={"to": "ann", "relay": "a"})
    await site.task(id="listed", depends_on=["parent"], payload=["a", "list"])
    ids.append("listed")
    await dead(site, ids)
    body = {"action": "replay", "ids": ids, "args": {"patch": {"relay": "b", "to": None}}}
    foreseen = (await site.ask("POST", "/operations", body | {"dry_run": True})).json()
    assert (foreseen["count"], foreseen["eligible"]) == (3, 2)
    assert foreseen["skipped"] == [{"reason": "invalid-input", "count": 1}]
    example = foreseen["example"]
    assert (example["before"], example["after"]) == ({"to": "ann", "relay": "a"}, {"relay": "b"})
    named = (await site.ask("POST", "/operations", body)).json()["id"]
    run = await look(site, named)
    assert (run["done"], run["failed"], run["args"]) == (2, 1, body["args"])
    shown = [(await site.ask("GET", f"/tasks/{name}")).json() for name in ids]
    assert [task["payload"] for task in shown] == [{"relay": "b"}] * 2 + [["a", "list"]]
    assert [task["status"] for task in shown][2] == "failed"


async def test_dead_letters_that_match_a_filter_are_patched(site: Site) -> None:
    await site.task(id="parent")
    ids = await fill(site, 2, depends_on=["parent"], payload={"n": 1})
    await dead(site, ids)
    one = {"patch": {"n": 2}}
    answer = await site.ask("POST", f"/dead-letters/{ids[0]}/replay", one)
    assert answer.json()["payload"] == {"n": 2}
    assert (await site.ask("POST", "/dead-letters/replay", {"patch": {"n": 3}})).status_code == 200
    assert (await site.ask("GET", f"/tasks/{ids[1]}")).json()["payload"] == {"n": 3}
    wrong = await site.ask("POST", "/dead-letters/replay", {"patch": {}})
    assert (wrong.status_code, wrong.json()["code"]) == (422, "invalid-input")


async def test_a_replay_stops_when_its_tasks_are_dead_again(site: Site) -> None:
    await site.task(id="parent")
    ids = await fill(site, 20, depends_on=["parent"])
    await dead(site, ids)
    runs = site.services.bulk.runs
    [group] = (await site.ask("GET", "/dead-letters/groups")).json()["items"]
    for token in (ADMIN, await site.token("viewer", projects=["default"])):
        trend = (await site.ask("GET", "/dead-letters/trend", token=token)).json()["causes"]
        assert trend == {group["fingerprint"]: [0] * 23 + [20]}
    q = f"status:failed fingerprint:{group['fingerprint']}"
    body = {"action": "replay", "q": q, "stop_on_fail_share": 0.2}
    named = await begin_only(site, body)

    assert (await look(site, named))["cause"] == group["error"]
    ids = await runs.ids(named)

    async def step(most: int) -> Any:
        return await runs.advance(await runs.get(named), ids, most=most)

    assert (await step(12)).done == 12
    assert (await step(12)).progress.again == 0, "a look, at tasks that wait"
    claim = ClaimRequest(
        node="node-1", queues=("default",), types=("mail",), limit=20, lease_seconds=60.0
    )
    await site.services.store.claim(claim)
    await dead(site, ids[:3])
    run = await runs.get(named)
    looked = replace(run.progress, looked_at=0.0)
    await site.services.store.run(lambda *_: rows.write(replace(run, progress=looked)))
    shown = await look(site, (await step(12)).id)
    assert (shown["state"], shown["done"], shown["failed_again"]) == ("stopped", 12, 3)
    assert shown["detail"] == "3 of 12 tasks failed again: more than 20%"
    await site.ask("POST", f"/operations/{named}/resume", {})
    assert (await look(site, named))["done"] == 20
