"""What pages show beside a list: tasks counted by what they are, and the rates of the last hour."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast.bus.port import FEED
from holdfast.gateway import flow
from holdfast.gateway.flow import PART_SECONDS
from holdfast.gateway.operations import facets
from tests.integration.gateway.support import Site, open_site, problem


async def counted(site: Site, q: str = "", **options: Any) -> dict[str, Any]:
    response = await site.ask("GET", "/tasks/facets", q=q, **options)
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    return body


async def test_tasks_are_counted_by_status_type_and_queue(site: Site) -> None:
    for n in range(3):
        await site.task(queue="fast", delay_seconds=100 + n)
    aborted = (await site.task())["id"]
    await site.ask("POST", f"/tasks/{aborted}/interventions", {"type": "ABORT", "reason": "x"})
    found = await counted(site)
    assert (found["count"], found["capped"]) == (4, False)
    assert found["status"] == {"queued": 3, "aborted": 1}
    assert found["type"] == {"mail": 4}
    assert found["queue"] == {"fast": 3, "default": 1}
    assert sum(sum(bucket.values()) for bucket in found["buckets"]) == 4
    assert found["from"] < found["to"]
    assert (await counted(site, "status:aborted"))["count"] == 1
    nothing = await counted(site, "status:failed")
    assert (nothing["count"], nothing["status"], nothing["buckets"]) == (0, {}, [])


async def test_a_count_has_a_bound_and_says_so(site: Site, monkeypatch: Any) -> None:
    monkeypatch.setattr(facets, "COUNTED_MAX", 2)
    for _ in range(3):
        await site.task(delay_seconds=100)
    found = await counted(site)
    assert (found["count"], found["capped"], found["status"]) == (2, True, {"queued": 2})


async def test_a_count_is_of_the_projects_of_the_reader(site: Site) -> None:
    await site.task(project="web")
    await site.task()
    token = await site.token("viewer", projects=["web"])
    assert (await counted(site, token=token))["count"] == 1
    assert (await counted(site, "attempt:<5", token=token))["count"] == 1


async def test_a_query_that_cannot_be_read_is_refused_at_its_place(site: Site) -> None:
    response = await site.ask("GET", "/tasks/facets", q="status:")
    assert problem(response)[0] == 422
    assert response.json()["at"] == 7


async def rates(site: Site) -> dict[str, Any]:
    response = await site.ask("GET", "/flow", minutes=5)
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    return body


async def test_rates_count_each_event_once(site: Site) -> None:
    await site.task(delay_seconds=100)
    first = await rates(site)
    assert first["seconds"] == PART_SECONDS
    series = first["series"]["task.enqueued"]
    assert len(series) == 5 * 60 // PART_SECONDS
    assert sum(n or 0 for n in series) == 1
    for _ in range(2):
        await site.task(delay_seconds=100)
    again = await rates(site)
    assert sum(n or 0 for n in again["series"]["task.enqueued"]) == 3
    assert sum(n or 0 for n in again["series"]["task.failed"]) == 0


async def test_what_was_not_counted_is_null(site: Site, monkeypatch: Any) -> None:
    await site.task(delay_seconds=100)
    await rates(site)
    monkeypatch.setattr(flow, "LOOK_EVENTS", 2)
    for _ in range(6):
        await site.task(delay_seconds=100)
    found = await rates(site)
    assert sum(n or 0 for n in found["series"]["task.enqueued"]) == 3  # one before, two of six


async def test_rates_are_for_those_who_may_read_everything(site: Site) -> None:
    token = await site.token("viewer", projects=["web"])
    assert problem(await site.ask("GET", "/flow", token=token))[0] in (403, 404)
    assert problem(await site.ask("GET", "/flow", minutes=0)) == (422, "invalid-input")


async def test_watchers_get_a_hint_of_a_new_task_that_does_not_start(tmp_path: Path) -> None:
    """A worker in the process of the gateway takes new tasks without a hint if it is idle; a task that is not
    due then has no event of a start either."""
    async with open_site(f"sqlite:///{tmp_path}/hints.db") as site:
        await site.services.queue.start()
        hints: list[str] = []
        end = site.services.bus.subscribe(lambda hint: hints.append(hint), FEED)
        task = await site.task(delay_seconds=100)
        assert hints
        hints.clear()
        assert (await site.ask("POST", f"/tasks/{task['id']}/copy", {})).status_code == 201
        assert hints
        hints.clear()
        body = {"tasks": [{"type": "mail", "delay_seconds": 100}]}
        assert (await site.ask("POST", "/tasks/batch", body)).status_code == 201
        assert hints
        end()
