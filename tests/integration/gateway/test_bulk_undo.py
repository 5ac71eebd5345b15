"""The undo of a change of many tasks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.gateway.support import Site, problem
from tests.integration.gateway.test_bulk_runs import begin, begin_only, dead, fill, look


async def ended(site: Site, run_id: str) -> dict[str, Any]:
    return await look(site, run_id)


async def held(site: Site, ids: list[str]) -> list[bool]:
    return [(await site.ask("GET", f"/tasks/{id}")).json()["held_by"] is not None for id in ids]


async def test_an_undo_resumes_what_the_pause_holds(site: Site) -> None:
    ids = await fill(site, 5)
    by_hand = {"type": "PAUSE", "reason": "tidy"}
    assert (await site.ask("POST", f"/tasks/{ids[0]}/interventions", by_hand)).status_code == 200
    pause = await begin(site, {"action": "pause", "ids": ids, "reason": "tidy"})
    assert (await ended(site, pause["id"]))["done"] == 4
    for kind in ("RESUME", "PAUSE"):
        body = {"type": kind, "reason": "by another hand"}
        await site.ask("POST", f"/tasks/{ids[1]}/interventions", body)
    path = f"/operations/{pause['id']}/undo"
    foreseen = (await site.ask("POST", path, {"dry_run": True})).json()
    assert (foreseen["count"], foreseen["eligible"]) == (3, 3)
    assert await held(site, ids) == [True] * 5
    key = {"Idempotency-Key": "once"}
    answer = await site.ask("POST", path, {"reason": "wrong query"}, headers=key)
    assert answer.status_code == 202
    made = answer.json()
    assert (made["action"], made["args"]) == ("resume", {"undoes": pause["id"]})
    assert (made["total"], made["reason"]) == (3, "wrong query")
    assert (await ended(site, made["id"]))["done"] == 3
    assert await held(site, ids) == [True, True, False, False, False]
    repeat = await site.ask("POST", path, {"reason": "wrong query"}, headers=key)
    assert repeat.json()["id"] == made["id"]
    again = (await site.ask("POST", path, {})).json()
    assert (again["total"], again["state"]) == (0, "done")


async def test_a_task_that_changes_meanwhile_is_not_resumed(site: Site) -> None:
    ids = await fill(site, 2)
    pause = await begin(site, {"action": "pause", "ids": ids})
    await ended(site, pause["id"])
    runs = site.services.bulk.runs

    async def nothing(run: Any) -> None:
        del run

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(site.services.bulk, "begin", nothing)
        made = (await site.ask("POST", f"/operations/{pause['id']}/undo", {})).json()["id"]
    for kind in ("RESUME", "PAUSE"):
        body = {"type": kind, "reason": "by another hand"}
        await site.ask("POST", f"/tasks/{ids[0]}/interventions", body)
    run = await runs.advance(await runs.get(made), await runs.ids(made))
    assert (run.done, run.errors) == (1, {"version-conflict": 1})
    assert await held(site, ids) == [True, False]


async def test_holds_of_the_same_actor_for_the_same_reason_stay(site: Site) -> None:
    """One from before the run whose task was changed since, and one from after a resume."""
    ids = await fill(site, 3)

    async def by_hand(id: str, kind: str) -> None:
        done = await site.ask(
            "POST", f"/tasks/{id}/interventions", {"type": kind, "reason": "tidy"}
        )
        assert done.status_code == 200

    await by_hand(ids[0], "PAUSE")
    pause = await begin(site, {"action": "pause", "ids": ids, "reason": "tidy"})
    assert (await ended(site, pause["id"]))["done"] == 2
    assert (await site.ask("PATCH", f"/tasks/{ids[0]}", {"payload": {"n": 7}})).status_code == 200
    for kind in ("RESUME", "PAUSE"):
        await by_hand(ids[1], kind)
    undo = (await site.ask("POST", f"/operations/{pause['id']}/undo", {})).json()
    assert (await ended(site, undo["id"]))["done"] == 1
    assert await held(site, ids) == [True, True, False]


async def test_only_a_pause_that_has_ended_is_undone(site: Site) -> None:
    ids = await fill(site, 2)
    running = await begin_only(site, {"action": "pause", "ids": ids})
    refused = await site.ask("POST", f"/operations/{running}/undo", {})
    assert problem(refused) == (409, "illegal-transition")
    assert "is running: stop it" in refused.json()["detail"]
    await dead(site, ids)
    replay = await begin(site, {"action": "replay", "ids": ids})
    await ended(site, replay["id"])
    refused = await site.ask("POST", f"/operations/{replay['id']}/undo", {})
    assert problem(refused) == (409, "illegal-transition")
    assert "may have run: abort those that wait" in refused.json()["detail"]
    assert problem(await site.ask("POST", "/operations/op_none/undo", {})) == (404, "not-found")
