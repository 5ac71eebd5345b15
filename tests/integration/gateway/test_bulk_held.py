"""Runs over many tasks that meet held rows, failed tries, pauses, revoked tokens and revoked nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from holdfast.core import bulk as rules
from holdfast.core.bulk import BulkState
from holdfast.errors import StoreUnavailable
from holdfast.gateway import bulk_runner
from holdfast.gateway.bulk_runner import BulkRunner
from holdfast.queue.by import By
from holdfast.store.port import RowHeld
from holdfast.sync.bulk.bulk import REVOKED, BulkRuns
from tests.integration.gateway.support import Site, open_site, problem
from tests.integration.gateway.test_bulk_runs import begin, begin_only, fill, look

SECRET = "password=hunter2-hunter2"


@asynccontextmanager
async def held(dsn: str, statement: str, *values: object) -> AsyncIterator[None]:
    """Rows that an open transaction has locked."""
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction():
            assert await connection.fetch(statement, *values)
            yield
    finally:
        await connection.close()


def other_gateway(site: Site) -> BulkRunner:
    services = site.services
    return BulkRunner(
        services.store,
        services.clock,
        make_beside=services.bulk._make_beside,
        on_changed=services.wake,
    )


async def ended(bulk: BulkRunner) -> None:
    """Waits for the drivers of a gateway."""
    async with asyncio.timeout(20):
        while bulk._driven:
            await asyncio.wait([driven.task for driven in bulk._driven.values()])


async def moved(bulk: BulkRunner, run_id: str, version: int) -> Any:
    """The run when it has a later version."""
    async with asyncio.timeout(20):
        while (run := await bulk.runs.get(run_id)).version <= version:
            await asyncio.wait([bulk._driven[run_id].task], timeout=0.02)
    return run


async def test_a_held_task_delays_no_other(pg_dsn: str) -> None:
    async with open_site(pg_dsn) as site:
        ids = await fill(site, 5)
        run_id = await begin_only(site, {"action": "pause", "ids": ids})
        bulk = site.services.bulk
        async with held(pg_dsn, "SELECT 1 FROM holdfast_task WHERE id = $1 FOR UPDATE", ids[1]):
            run = await bulk.runs.advance(await bulk.runs.get(run_id), ids)
            assert (run.done, run.failed, run.state) == (4, 0, BulkState.RUNNING)
            shown = await look(site, run_id)
            assert shown["detail"].startswith("1 task is held by another transaction")
            run = await bulk.runs.advance(run, ids)
            assert (run.done, run.progress.aside) == (4, (ids[1],))
        await bulk.drive(run_id)
        shown = await look(site, run_id)
        assert (shown["state"], shown["done"], shown["detail"]) == ("done", 5, "")


async def test_tasks_that_need_a_row_that_is_held_delay_no_other(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E.g. the row of a limit, which the transaction of a batch waits for."""
    ids = await fill(site, 4)
    run_id = await begin_only(site, {"action": "pause", "ids": ids})
    advance = BulkRuns.advance
    batches: list[list[str]] = []

    async def needs_a_row(self: BulkRuns, run: Any, ids: Any, beside: Any, most: int) -> Any:
        batches.append(list(run.next_tasks(ids, most)))
        if ids[1] in batches[-1] and len(batches) < 6:
            raise RowHeld("a limit is held")
        return await advance(self, run, ids, beside, most)

    monkeypatch.setattr(BulkRuns, "advance", needs_a_row)
    monkeypatch.setattr(rules, "HELD_SECONDS", 0.01)
    await site.services.bulk.drive(run_id)
    a, b, c, d = ids
    assert batches == [[a, b, c, d], [a], [b, c], [b], [c], [d], [b]]
    assert (await look(site, run_id))["done"] == 4


async def test_runs_that_fail_do_not_starve_the_others(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await fill(site, 2)
    failing = [
        await begin_only(site, {"action": "pause", "ids": ids[:1]})
        for _ in range(bulk_runner.TAKEN_MAX)
    ]
    healthy = await begin_only(site, {"action": "pause", "ids": ids[1:]})
    advance = BulkRuns.advance

    async def partly(self: BulkRuns, run: Any, *args: Any) -> Any:
        if run.id in failing:
            raise StoreUnavailable("away")
        return await advance(self, run, *args)

    monkeypatch.setattr(BulkRuns, "advance", partly)
    monkeypatch.setattr(bulk_runner, "IDLE_SECONDS", -60.0)
    other = other_gateway(site)
    for _ in range(2):
        await other.take_over()
        await ended(other)
    assert (await look(site, healthy))["state"] == "done"
    assert (await look(site, failing[0]))["detail"] == "the last try failed: away"


async def test_a_process_may_look_after_its_own_runs_only(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await fill(site, 2)
    foreign = await begin_only(site, {"action": "pause", "ids": ids[:1]})
    advance, tries = BulkRuns.advance, []

    async def first_fails(self: BulkRuns, run: Any, *args: Any) -> Any:
        tries.append(run.id)
        if len(tries) == 1:
            raise StoreUnavailable("away")
        return await advance(self, run, *args)

    monkeypatch.setattr(BulkRuns, "advance", first_fails)
    monkeypatch.setattr(bulk_runner, "IDLE_SECONDS", -60.0)
    monkeypatch.setattr(bulk_runner, "LOOK_SECONDS", 0.01)
    bulk = site.services.bulk
    async with bulk.running(only_own=True):
        made = await begin(site, {"action": "pause", "ids": ids[1:]})
        async with asyncio.timeout(20):
            while (await look(site, made["id"]))["state"] == "running":
                await site.services.clock.sleep(0.01)
    assert tries == [made["id"]] * 2
    assert (await look(site, foreign))["done"] == 0


async def test_one_gateway_takes_an_idle_run_over(site: Site) -> None:
    run_id = await begin_only(site, {"action": "pause", "ids": await fill(site, 1)})
    runs, before = site.services.bulk.runs, site.services.store.now() + 1.0
    assert await runs.take(run_id, before)
    assert not await runs.take(run_id, site.services.store.now() - 1.0)


async def test_a_run_that_is_stopped_and_resumed_in_its_pause_goes_on(site: Site) -> None:
    """The rate leaves a pause of 1,000 seconds, in which nothing but the resume wakes the driver."""
    ids = await fill(site, 3)
    bulk = site.services.bulk
    async with bulk.running():
        made = await begin(site, {"action": "pause", "ids": ids, "rate_per_second": 0.001})
        first = await moved(bulk, made["id"], 1)
        assert (first.done, first.next_at) == (1, pytest.approx(first.updated_at + 1000.0))
        await site.ask("POST", f"/operations/{made['id']}/stop", {})
        await ended(bulk)
        resumed = (await site.ask("POST", f"/operations/{made['id']}/resume", {})).json()
        assert (resumed["state"], resumed["done"]) == ("running", 1)
        assert made["id"] in bulk._driven
        assert await bulk.runs.idle(site.services.store.now() - 30.0) == []


async def test_a_resume_before_the_driver_noticed_the_stop_keeps_the_driver(site: Site) -> None:
    ids = await fill(site, 2)
    bulk = site.services.bulk
    async with bulk.running():
        made = await begin(site, {"action": "pause", "ids": ids, "rate_per_second": 1.9})
        run = await moved(bulk, made["id"], 1)
        await bulk.runs.stop(run.id, By("user:test"))
        await bulk.begin(await bulk.runs.resume(run.id, By("user:test")))
        await ended(bulk)
        assert (await look(site, run.id))["state"] == "done"


async def test_a_canary_is_of_the_first_ids_that_the_request_names(site: Site) -> None:
    ids = list(reversed(await fill(site, 4)))
    await site.ask("POST", f"/tasks/{ids[0]}/interventions", {"type": "ABORT", "reason": "r"})
    made = await begin(site, {"action": "pause", "ids": [*ids, ids[0]], "canary": 1})
    run = await look(site, made["id"])
    assert (run["state"], run["done"], run["failed"], run["total"]) == ("stopped", 0, 1, 4)
    await site.ask("POST", f"/operations/{made['id']}/resume", {})
    run = await look(site, made["id"])
    assert (run["state"], run["done"], run["failed"]) == ("done", 3, 1)


@pytest.mark.parametrize("task_id", ["a\0", "", "x" * 201])
async def test_ids_that_no_task_has_are_refused_alike(site: Site, task_id: str) -> None:
    answer = await site.ask("POST", "/operations", {"action": "pause", "ids": [task_id]})
    assert problem(answer) == (422, "invalid-input")


async def test_reasons_are_redacted(site: Site) -> None:
    ids = await fill(site, 1)
    made = await begin(site, {"action": "pause", "ids": ids, "reason": SECRET, "canary": 1})
    assert "hunter2" not in str(made)
    run_id = await begin_only(site, {"action": "resume", "ids": ids})
    stopped = await site.ask("POST", f"/operations/{run_id}/stop", {"reason": SECRET})
    assert stopped.json()["detail"] == "password=***"
    assert "hunter2" not in (await site.ask("GET", "/operations")).text


async def test_a_run_stops_when_its_token_is_revoked(site: Site) -> None:
    secret = await site.token("operator")
    ids = await fill(site, 3)
    bulk = site.services.bulk
    run_id = await begin_only(site, {"action": "pause", "ids": ids}, token=secret)
    run = await bulk.runs.advance(await bulk.runs.get(run_id), ids, lambda _: None, 1)
    [token] = (await site.ask("GET", "/tokens")).json()["items"]
    assert (await site.ask("DELETE", f"/tokens/{token['id']}")).status_code == 200
    after = await bulk.runs.advance(run, ids)
    assert (after.state, after.done, after.detail) == (BulkState.STOPPED, 1, REVOKED)
    resumed = await site.ask("POST", f"/operations/{run_id}/resume", {})
    assert resumed.status_code == 200
    assert (await look(site, run_id))["done"] == 3


async def test_a_run_outlives_its_token_until_the_token_is_revoked(site: Site) -> None:
    """Expiry says how long a token may begin things, revocation that it is no longer trusted."""
    await site.token("operator", expires_in_seconds=1e-6)
    [token] = (await site.ask("GET", "/tokens")).json()["items"]
    assert token["state"] == "expired"
    ids = await fill(site, 3)
    runs = site.services.bulk.runs
    run_id = await begin_only(site, {"action": "pause", "ids": ids})
    await runs.stop(run_id, By("test"))
    run = await runs.resume(run_id, By("test"), token_id=token["id"])
    run = await runs.advance(run, ids, lambda _: None, 2)
    assert (run.state, run.done) == (BulkState.RUNNING, 2)
    assert (await site.ask("DELETE", f"/tokens/{token['id']}")).status_code == 200
    after = await runs.advance(run, ids)
    assert (after.state, after.done, after.detail) == (BulkState.STOPPED, 2, REVOKED)


async def test_a_node_that_is_revoked_gets_no_further_task(site: Site) -> None:
    ids = await fill(site, 2)
    headers = {"Authorization": f"Bearer {await site.token('admin')}"}
    await site.client.post("/api/v2/sync/nodes/register", json={"nodeId": "n1"}, headers=headers)
    body = {"action": "reassign", "ids": ids, "args": {"to_node": "n1"}, "reason": "data"}
    run_id = await begin_only(site, body)
    runs = site.services.bulk.runs
    run = await runs.advance(await runs.get(run_id), ids, lambda _: None, 1)
    revoked = await site.ask("POST", "/nodes/n1/revoke", {"reason": "lost"})
    assert revoked.status_code == 200
    after = await runs.advance(run, ids)
    assert (after.state, after.done) == (BulkState.STOPPED, 1)
    assert after.detail == "to_node 'n1' is revoked: it cannot claim the task"
    assert (await site.services.parts.tasks.get(ids[1])).assigned_to is None
