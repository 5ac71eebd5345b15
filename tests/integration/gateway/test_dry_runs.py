"""Dry runs of changes, and search in lists, on every store."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.gateway.rest.apis import APIS
from holdfast.gateway.rest.running import FORESEEN
from tests.integration.gateway.fleet_support import FleetSite
from tests.integration.gateway.support import Site

DRY = {"Holdfast-Dry-Run": "true"}


async def figures(site: Site) -> tuple[str, int]:
    """The end of the feed and the number of audit rows."""
    audit = await site.ask("GET", "/audit", limit=1000)
    return str(await site.services.store.feed.head()), len(audit.json()["items"])


async def test_a_dry_run_answers_like_the_change_and_writes_nothing(site: Site) -> None:
    await site.task()
    before = await figures(site)
    body = {"reason": "outage"}
    dry = await site.ask("POST", "/queues/default/pause", body, headers=DRY)
    assert dry.headers["holdfast-dry-run"] == "true"
    assert await figures(site) == before
    real = await site.ask("POST", "/queues/default/pause", body)
    assert "holdfast-dry-run" not in real.headers
    without = ("paused_at", "oldest_due_seconds")
    assert plain(dry.json(), *without) == plain(real.json(), *without)
    assert await figures(site) != before


async def test_a_dry_run_keeps_no_answer_for_its_key(site: Site) -> None:
    await site.task()
    body = {"reason": "outage"}
    headers = {"Idempotency-Key": "k1"}
    await site.ask("POST", "/queues/default/pause", body, headers={**headers, **DRY})
    real = await site.ask("POST", "/queues/default/pause", body, headers=headers)
    assert "idempotency-replayed" not in real.headers
    assert (await site.ask("GET", "/queues/default")).json()["paused_at"] is not None


async def test_a_dry_run_is_refused_like_the_change(site: Site) -> None:
    task, viewer = await site.task(), await site.token("viewer")
    before = await figures(site)
    path = f"/tasks/{task['id']}"
    wrong = {"payload": {"n": 1}, "expected_version": 99}
    for headers in (DRY, {}):
        refused = await site.ask("PATCH", path, wrong, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (409, "version-conflict")
    forbidden = await site.ask("PATCH", path, {"payload": {}}, headers=DRY, token=viewer)
    assert forbidden.status_code == 403
    assert await figures(site) == before


async def test_an_enqueue_of_a_dry_run_makes_no_task(site: Site) -> None:
    before = await figures(site)
    made = await site.ask("POST", "/tasks", {"type": "mail", "id": "mine"}, headers=DRY)
    assert made.json()["task"]["id"] == "mine"
    assert (await site.ask("GET", "/tasks/mine")).status_code == 404
    assert await figures(site) == before


async def test_a_token_of_a_dry_run_has_no_secret(site: Site) -> None:
    made = await site.ask("POST", "/tokens", {"name": "ci", "roles": ["viewer"]}, headers=DRY)
    assert made.json()["token"] is None
    assert (await site.ask("GET", "/tokens")).json()["items"] == []


async def test_a_call_of_several_transactions_has_no_dry_run(site: Site) -> None:
    for path, body in (
        ("/hosts/import", {"text": "a", "format": "text"}),
        ("/operations", {"action": "abort", "q": "type:mail"}),
        ("/dead-letters/discard", {}),
    ):
        refused = await site.ask("POST", path, body, headers=DRY)
        assert (refused.status_code, refused.json()["code"]) == (501, "not-supported")
    odd = await site.ask("POST", "/tasks", {"type": "mail"}, headers={"Holdfast-Dry-Run": "yes"})
    assert odd.status_code == 400


async def test_a_vote_of_a_dry_run_does_not_ask_again(site: Site) -> None:
    """A vote about a job that has changed meanwhile makes a new request, in a second transaction."""
    fleet = FleetSite(site)
    (name,) = await fleet.hosts(1)
    await site.ask("PATCH", f"/hosts/{name}", {"driver": "ssh", "address": "root@10.0.0.1"})
    asked = await fleet.asked()
    await site.ask("PATCH", f"/hosts/{name}", {"address": "root@10.0.0.2"})
    before = await figures(site)
    path = f"/jobs/{asked['job_id']}/approve"
    for headers, is_same in ((DRY, True), ({}, False)):
        answer = await site.ask("POST", path, {"reason": "r"}, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (409, "approval-void")
        assert (await figures(site) == before) is is_same


def test_the_table_of_dry_runs_has_only_calls_of_the_api() -> None:
    handlers = {route.handler for api in APIS for route in api.routes.all if route.method != "GET"}
    assert handlers >= FORESEEN


def plain(item: dict[str, Any], *without: str) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name not in without}


# -- search in lists ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("q", "expected"),
    [
        ("", ["a", "b", "bulk"]),
        ("b", ["b", "bulk"]),
        ("name:b", ["b"]),
        ("name:b* -name:bulk", ["b"]),
        ("paused:*", ["a"]),
        ("-paused:*", ["b", "bulk"]),
        ("reason:~OUT", ["a"]),
        ("version:>=1 OR name:bulk", ["a", "bulk"]),
        ("counts.queued:2", ["bulk"]),
        ("paused:<-1h", []),
    ],
)
async def test_a_short_list_is_searched_by_its_fields(
    site: Site, q: str, expected: list[str]
) -> None:
    for queue in ("a", "b", "bulk", "bulk"):
        await site.task(queue=queue)
    await site.ask("POST", "/queues/a/pause", {"reason": "an outage"})
    found = (await site.ask("GET", "/queues", q=q)).json()
    assert [item["name"] for item in found["items"]] == expected


async def test_pages_of_a_search_are_those_of_the_list(site: Site) -> None:
    for n in range(12):
        await site.ask("POST", "/tokens", {"name": f"t{n}", "roles": ["viewer"]})
    found, after, pages = [], None, 0
    while True:
        given: dict[str, Any] = {"q": "name:t1*", "limit": 3}
        given |= {} if after is None else {"after": after}
        page = (await site.ask("GET", "/tokens", **given)).json()
        found += [item["name"] for item in page["items"]]
        assert len(page["items"]) <= 3
        after, pages = page["next"], pages + 1
        if after is None:
            break
    assert found == ["t1", "t10", "t11"]
    assert pages > 1


@pytest.mark.parametrize(
    ("path", "q", "at"),
    [
        ("/queues", "nme:b", 0),
        ("/queues", "sort:created", 0),
        ("/tokens", "roles:>x", 6),
        ("/jobs", "host:a OR host:b", 0),
        ("/decisions", "state:", 6),
    ],
)
async def test_a_query_that_cannot_be_read_names_the_character(
    site: Site, path: str, q: str, at: int
) -> None:
    refused = await site.ask("GET", path, q=q)
    assert refused.status_code == 422
    assert refused.json()["at"] == at


async def test_keys_of_an_operation_and_of_the_objects_mix(site: Site) -> None:
    viewer = {"name": "v", "roles": ["viewer"]}
    await site.ask("POST", "/tokens", viewer)
    found = (await site.ask("GET", "/tokens", q="roles:viewer age:<1h state:*")).json()
    assert [item["name"] for item in found["items"]] == ["v"]
    for q in ("state:open assignee:me", "state:open,decided -question:~no", "assignee:a,b"):
        assert (await site.ask("GET", "/decisions", q=q)).json()["items"] == []


async def test_a_page_of_no_rows_is_refused(memory_site: Site) -> None:
    for path in ("/approvals", "/jobs", "/tokens", "/blocks", "/webhooks"):
        assert (await memory_site.ask("GET", path, limit=0)).status_code == 422, path
