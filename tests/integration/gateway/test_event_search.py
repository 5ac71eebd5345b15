"""Search in the feed and the audit by subject, actor and kind, on both databases."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.gateway.operations import events
from tests.integration.gateway.support import Site, problem


async def found(site: Site, **params: Any) -> list[str]:
    answer = await site.ask("GET", "/events", **params)
    assert answer.status_code == 200, answer.text
    return [item["kind"] for item in answer.json()["items"]]


async def paused(site: Site, task_id: str, reason: str) -> None:
    act = {"type": "PAUSE", "reason": reason}
    answer = await site.ask("POST", f"/tasks/{task_id}/interventions", act)
    assert answer.is_success, answer.text


async def test_events_are_found_by_subject_actor_and_kind(site: Site) -> None:
    task = await site.task()
    other = await site.task()
    await paused(site, task["id"], "look first")
    await site.ask("POST", "/queues/default/pause", {"reason": "night"})
    assert await found(site, q=f"task_id:{task['id']}", before="head") == [
        "intervention.applied",
        "intervention.issued",
        "task.held",
        "task.enqueued",
    ]
    assert await found(site, q="subject:default") == ["queue.paused"]
    assert await found(site, q=other["id"][:30]) == ["task.enqueued"]
    assert "task.enqueued" not in await found(site, q="actor:*")
    assert await found(site, q="kind:~PAUSED data.reason:night") == ["queue.paused"]
    assert await found(site, q="kind:task.* age:<1h -kind:task.held") == ["task.enqueued"] * 2
    assert problem(await site.ask("GET", "/events", q="colour:red")) == (422, "invalid-input")
    assert problem(await site.ask("GET", "/events", q="sort:kind")) == (422, "invalid-input")
    both = await site.ask("GET", "/events", before="head", after="x:1")
    assert problem(both) == (422, "invalid-input")


async def test_pages_go_back_to_the_oldest_event(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However small the pages and the looks are, each event that matches comes once."""
    for nth in range(7):
        await site.task(priority="normal" if nth % 3 else "low")
    monkeypatch.setattr(events, "LOOK", 2)
    monkeypatch.setattr(events, "LOOK_MAX", 3)
    for query, limit, count in (
        ("", 2, 7),
        ("data.priority:normal", 1, 4),
        ("data.priority:low", 5, 3),
    ):
        before: str | None = "head"
        seen: list[str] = []
        page: dict[str, Any] = {}
        while before is not None:
            params: dict[str, Any] = {
                "before": before,
                "limit": limit,
                "q": query,
                "kinds": "task.enqueued",
            }
            page = (await site.ask("GET", "/events", **params)).json()
            assert len(page["items"]) <= limit
            seen += [item["task_id"] for item in page["items"]]
            before = page["next"]
        assert len(seen) == len(set(seen)) == count
        after = page["oldest"]
        forward: list[str] = []
        while after != page["head"]:
            params = {"after": after, "limit": limit, "q": query, "kinds": "task.enqueued"}
            page = (await site.ask("GET", "/events", **params)).json()
            assert len(page["items"]) <= limit
            forward += [item["task_id"] for item in page["items"]]
            after = page["next"]
        assert forward == seen[::-1]


async def test_a_position_of_another_history_is_a_reset(site: Site) -> None:
    assert problem(await site.ask("GET", "/events", before="other:5")) == (410, "feed-reset")


async def test_a_search_finds_no_secret(site: Site) -> None:
    """What is hidden in an answer is not found by guessing either."""
    task = await site.task()
    await paused(site, task["id"], "password=hunter22")
    [event] = (await site.ask("GET", "/events", kinds="task.held")).json()["items"]
    assert "hunter22" not in event["data"]["reason"]
    assert await found(site, q="kind:task.held data.reason:~hunter") == []


async def test_acts_are_found_by_subject_actor_and_age(site: Site) -> None:
    task = await site.task()
    await paused(site, task["id"], "look first")
    for q in (task["id"][:30], "operation:~INTERVENE actor:~admin age:<1h reason:look*"):
        items = (await site.ask("GET", "/audit", q=q)).json()["items"]
        assert [item["subject"] for item in items][:1] == [task["id"]], q
