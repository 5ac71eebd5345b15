"""The API on both databases: lists, versions, repeats, the audit of acts."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from holdfast.errors import StoreUnavailable
from holdfast.gateway.feed.prepare import named
from holdfast.gateway.operations import tasks
from holdfast.store import search as store_search
from holdfast.store.feed import Page
from holdfast.store.reads import Reads
from tests.integration.gateway.support import ADMIN, Site, open_site, problem
from tests.integration.gateway.test_hub_admin import joined

KEY = {"Idempotency-Key": "key-1"}


async def audited(site: Site) -> list[tuple[str, str]]:
    rows = (await site.ask("GET", "/audit")).json()["items"]
    assert (await site.ask("GET", "/audit/verify")).json()["ok"] is True
    return [(row["operation"], row["subject"]) for row in reversed(rows)]


async def test_a_task_is_enqueued_listed_and_shown(site: Site) -> None:
    made = await site.ask("POST", "/tasks", {"type": "mail", "payload": {"to": "ann"}})
    assert made.status_code == 201
    task = made.json()["task"]
    assert made.headers["ETag"] == '"v1"'
    listed = await site.ask("GET", "/tasks", q="type:mail args.to:ann")
    (row,) = listed.json()["items"]
    assert row["id"] == task["id"]
    assert "payload" not in row
    assert row["payload_preview"] == '{"to":"ann"}'
    shown = (await site.ask("GET", f"/tasks/{task['id']}")).json()
    assert shown["payload"] == {"to": "ann"}
    assert shown["depends_on"] == []
    assert (await site.ask("GET", f"/tasks/{task['id']}/why")).json()["status"] == "queued"
    events = (await site.ask("GET", f"/tasks/{task['id']}/history")).json()["items"]
    assert [event["kind"] for event in events] == ["task.enqueued"]


@pytest.mark.parametrize(
    "fields",
    [
        {"payload": {"b": [1, "ü", None], "a": 2.5}},
        {"delay_seconds": 30.0, "priority": "low", "metadata": {"trace": "abc"}, "max_attempts": 7},
        {"timeout_seconds": None, "project": "forge"},
        {"tags": ["vip", "eu"], "delay_seconds": 30.0},
    ],
    ids=["plain", "options", "project", "tags"],
)
async def test_the_answer_to_an_enqueue_is_the_row_of_the_store(
    site: Site, fields: dict[str, Any]
) -> None:
    body = {"type": "mail", **fields}
    # The first is written alone, those that wait for it together.
    answers = await asyncio.gather(*(site.ask("POST", "/tasks", body) for _ in range(5)))
    for answer in answers:
        made = answer.json()["task"]
        shown = (await site.ask("GET", f"/tasks/{made['id']}")).json()
        assert made == {name: shown[name] for name in made}
        assert shown.keys() - made.keys() == {"depends_on", "dependents"}


ORIGINS = {"origins": ("https://app.example",)}
BASE = {"base_path": "/hub"}


@pytest.mark.parametrize("settings", [{}, ORIGINS, BASE, {**ORIGINS, **BASE}], ids=str)
async def test_an_api_is_found_with_and_without_other_layers(settings: dict[str, Any]) -> None:
    headers = {"Origin": "https://app.example"}
    base = settings.get("base_path", "")
    async with open_site("sqlite://", **settings) as site:

        async def ask(method: str, path: str, **sent: str) -> tuple[int, str | None]:
            token = {"Authorization": f"Bearer {ADMIN}"}
            answers = [
                await site.client.request(
                    method, start + path, headers={**token, **headers, **sent}
                )
                for start in {"", base}
            ]
            (same,) = {
                (answer.status_code, answer.headers.get("access-control-allow-origin"))
                for answer in answers
            }
            return same

        allowed = "https://app.example" if "origins" in settings else None
        assert await ask("GET", "/api/v1/whoami") == (200, allowed)
        assert await ask("GET", "/api/v1/tasks/nothing") == (404, allowed)
        assert await ask("DELETE", "/api/v1/tasks") == (405, allowed)
        assert await ask("GET", "/api/v1") == (404, allowed)
        asked = {"Access-Control-Request-Method": "POST"}
        assert (await ask("OPTIONS", "/api/v1/tasks", **asked))[0] == (200 if allowed else 405)


async def test_a_list_has_pages_and_lines(site: Site) -> None:
    batch = {"tasks": [{"type": "mail", "payload": n} for n in range(7)]}
    made = await site.ask("POST", "/tasks/batch", batch)
    ids = [item["id"] for item in made.json()["items"]]
    first = (await site.ask("GET", "/tasks", limit=4)).json()
    second = (await site.ask("GET", "/tasks", limit=4, after=first["next"])).json()
    assert [row["id"] for row in first["items"] + second["items"]] == sorted(ids, reverse=True)
    assert second["next"] is None
    assert problem(await site.ask("GET", "/tasks", q="type:x", after=first["next"]))[0] == 422
    lines = await site.ask("GET", "/tasks", limit=2, headers={"Accept": "application/x-ndjson"})
    *rows, last = [json.loads(line) for line in lines.text.splitlines()]
    assert [row["id"] for row in rows] == sorted(ids, reverse=True)
    assert last == {"end": True, "count": 7}
    wrong = await site.ask("GET", "/tasks", q="x:y", headers={"Accept": "application/x-ndjson"})
    assert problem(wrong)[0] == 422


@pytest.mark.parametrize(
    ("error", "code"), [(StoreUnavailable("away"), "store-unavailable"), (ValueError(), "internal")]
)
async def test_a_list_that_fails_in_the_middle_says_so(
    memory_site: Site, monkeypatch: pytest.MonkeyPatch, error: Exception, code: str
) -> None:
    for _ in range(4):
        await memory_site.task()
    pages: list[int] = []
    found = store_search.search

    async def search(*args: Any, **options: Any) -> Any:
        pages.append(options["limit"])
        if len(pages) == 2:
            raise error
        return await found(*args, **options)

    monkeypatch.setattr(tasks, "search", search)
    lines = await memory_site.ask(
        "GET", "/tasks", limit=2, headers={"Accept": "application/x-ndjson"}
    )
    *rows, last = [json.loads(line) for line in lines.text.splitlines()]
    assert (len(rows), pages) == (2, [2, 2])
    assert (lines.status_code, last["problem"]["code"]) == (200, code)


async def test_a_get_has_the_position_before_its_data(site: Site) -> None:
    await site.task()
    answer = await site.ask("GET", "/tasks")
    position = answer.headers["Holdfast-Position"]
    await site.task()
    events = (await site.ask("GET", "/events", after=position)).json()
    assert [event["kind"] for event in events["items"]] == ["task.enqueued"]


async def test_events_wait_for_the_next_one(site: Site) -> None:
    head = (await site.ask("GET", "/stats")).json()["feed_head"]
    waiting = asyncio.create_task(site.ask("GET", "/events", after=head, wait_seconds=20))
    task = await site.task()
    events = (await waiting).json()["items"]
    assert [event["task_id"] for event in events] == [task["id"]]


async def test_a_position_that_is_not_covered_is_a_reset(site: Site) -> None:
    answer = await site.ask("GET", "/events", after="other:5")
    assert problem(answer) == (410, "feed-reset")
    assert answer.json()["reset"]["reason"] == "epoch"


async def test_versions_guard_a_change(site: Site) -> None:
    task = await site.task(payload={"a": 1, "b": 2})
    path = f"/tasks/{task['id']}"
    edited = await site.ask("PATCH", path, {"payload": {"b": None, "c": 3}})
    assert edited.json()["payload"] == {"a": 1, "c": 3}
    assert edited.headers["ETag"] == '"v2"'
    stale = await site.ask("PATCH", path, {"payload": 1}, headers={"If-Match": '"v1"'})
    assert problem(stale) == (412, "precondition-failed")
    assert stale.json()["current"] == {"status": "queued", "version": 2}
    stale = await site.ask("PATCH", path, {"payload": 1, "expected_version": 1})
    assert problem(stale) == (409, "version-conflict")
    fresh = await site.ask("PATCH", path, {"payload": 1}, headers={"If-Match": '"v2"'})
    assert fresh.json()["version"] == 3
    both = {"payload": 1, "expected_version": 2}
    assert problem(await site.ask("PATCH", path, both, headers={"If-Match": '"v3"'}))[0] == 422
    assert problem(await site.ask("PATCH", path, both, headers={"If-Match": "3"}))[0] == 400
    assert await audited(site) == [("tasks.edit", task["id"])] * 2


async def test_acts_are_audited_and_repeats_replayed(site: Site) -> None:
    task = (await site.task(payload={"n": 1}))["id"]
    await site.services.locks._locks.acquire("host:1", ttl=600)
    acts: list[tuple[str, str, Any, tuple[str, str]]] = [
        ("PATCH", f"/tasks/{task}", {"payload": {"n": 2}}, ("tasks.edit", task)),
        ("POST", f"/tasks/{task}/copy", {}, ("tasks.copy", task)),
        ("POST", "/queues/default/pause", {"reason": "a"}, ("queues.pause", "default")),
        ("POST", "/queues/default/resume", {}, ("queues.pause", "default")),
        ("PUT", "/types/mail/weights", {"key": "a", "weight": 2}, ("types.weigh", "type:mail")),
        ("PUT", "/schedules/n", {"spec": "0 3 * * *", "type": "mail"}, ("schedules.write", "n")),
        ("POST", "/schedules/n/pause", {}, ("schedules.write", "n")),
        ("POST", "/schedules/n/resume", {}, ("schedules.write", "n")),
        ("DELETE", "/schedules/n", None, ("schedules.write", "n")),
        ("POST", "/operations", {"action": "abort", "ids": [task]}, ("tasks.intervene", task)),
        ("POST", "/locks/host%3A1/revoke", {}, ("locks.revoke", "host:1")),
    ]
    expected = []
    for n, (method, path, body, row) in enumerate(acts):
        key = {"Idempotency-Key": f"key-{n}"}
        first = await site.ask(method, path, body, headers=key)
        assert first.status_code < 300, (path, first.text)
        again = await site.ask(method, path, body, headers=key)
        assert (again.status_code, again.json()) == (first.status_code, first.json()), path
        assert again.headers["Idempotency-Replayed"] == "true"
        assert again.headers.get("ETag") == first.headers.get("ETag")
        if path == "/operations":
            expected.append(("operations.run", first.json()["id"]))
        expected.append(row)
        assert await audited(site) == expected
    assert len((await site.ask("GET", "/tasks")).json()["items"]) == 2


async def test_a_key_enqueues_once(site: Site) -> None:
    body = {"type": "mail", "payload": {"n": 1, "m": 2}}
    first = await site.ask("POST", "/tasks", body, headers=KEY)
    same = {"payload": {"m": 2, "n": 1}, "type": "mail"}
    again = await site.ask("POST", "/tasks", same, headers=KEY)
    assert (again.status_code, again.json()) == (201, first.json())
    other = await site.ask("POST", "/tasks", {"type": "mail"}, headers=KEY)
    assert problem(other) == (422, "idempotency-conflict")
    batch = {"tasks": [body, body]}
    made = await site.ask("POST", "/tasks/batch", batch, headers={"Idempotency-Key": "b"})
    again = await site.ask("POST", "/tasks/batch", batch, headers={"Idempotency-Key": "b"})
    assert made.json() == again.json()
    assert len((await site.ask("GET", "/tasks")).json()["items"]) == 3
    viewer = await site.token("operator")
    elsewhere = await site.ask("POST", "/tasks", body, headers=KEY, token=viewer)
    assert elsewhere.json()["task"]["id"] != first.json()["task"]["id"], (
        "keys belong to a principal"
    )


async def test_requests_with_one_key_at_once_enqueue_once(site: Site) -> None:
    answers = await asyncio.gather(
        *(site.ask("POST", "/tasks", {"type": "mail"}, headers=KEY) for _ in range(8))
    )
    ids = {answer.json()["task"]["id"] for answer in answers if answer.status_code == 201}
    assert len(ids) == 1
    assert {answer.status_code for answer in answers} <= {201, 409, 503}
    assert len((await site.ask("GET", "/tasks")).json()["items"]) == 1


async def test_the_secret_of_a_token_is_not_kept_for_a_repeat(site: Site) -> None:
    body = {"name": "ci", "roles": ["viewer"]}
    first = await site.ask("POST", "/tokens", body, headers=KEY)
    again = await site.ask("POST", "/tokens", body, headers=KEY)
    assert first.json()["token"].startswith("hf_user_")
    assert again.json() == {**first.json(), "token": None}
    assert len((await site.ask("GET", "/tokens")).json()["items"]) == 1


async def test_dead_letters_are_replayed_by_query(site: Site) -> None:
    ids = [(await site.task(max_attempts=1))["id"] for _ in range(3)]
    await site.ask("POST", "/operations", {"action": "abort", "ids": ids[:1]})
    dry = {"action": "abort", "q": "status:queued", "dry_run": True}
    assert (await site.ask("POST", "/operations", dry)).json()["count"] == 2
    wrong = {"action": "abort", "q": "status:queued", "expect_count": 5}
    assert problem(await site.ask("POST", "/operations", wrong)) == (409, "conflict")
    assert problem(await site.ask("POST", "/operations", {"action": "abort"}))[0] == 422
    made = await site.ask("POST", "/operations", {"action": "abort", "q": "status:queued"})
    done = await site.ask("GET", f"/operations/{made.json()['id']}")
    assert (done.json()["total"], done.json()["done"]) == (2, 2)


@pytest.mark.parametrize("task_id", ["a/b", "a b", "\u017c", "a%2Fb", "a?b#c"])
async def test_an_id_may_hold_any_character(memory_site: Site, task_id: str) -> None:
    from urllib.parse import quote

    queue = memory_site.services.queue
    await queue.enqueue("mail", id=task_id)
    shown = await memory_site.ask("GET", f"/tasks/{quote(task_id, safe='')}/why")
    assert shown.json()["task_id"] == task_id


async def test_probes_need_no_token(site: Site) -> None:
    assert (await site.client.get("/healthz")).json() == {"status": "ok"}
    ready = await site.client.get("/readyz")
    assert (ready.status_code, ready.json()["status"]) == (200, "ok")
    names = [check["name"] for check in ready.json()["checks"]]
    assert names == ["store", "schema", "clock", "server"]
    metrics = await site.client.get("/metrics")
    assert metrics.status_code == 200, "the client is on this machine"
    assert "holdfast_" in metrics.text


async def test_a_repeat_in_a_full_queue_has_the_first_answer(url: str) -> None:
    async with open_site(url, queue_settings={"max_depth": 10}) as site:
        pressures = []
        for n in range(10):
            key = {"Idempotency-Key": f"key-{n}"}
            made = await site.ask("POST", "/tasks", {"type": "mail"}, headers=key)
            again = await site.ask("POST", "/tasks", {"type": "mail"}, headers=key)
            assert (again.status_code, again.json()) == (made.status_code, made.json())
            pressures.append(made.json()["pressure"])
        assert (pressures[0], pressures[-1]) == ("accepted", "under_pressure")
        refused = await site.ask(
            "POST", "/tasks", {"type": "mail"}, headers={"Idempotency-Key": "new"}
        )
        assert problem(refused) == (429, "queue-full")
        batch = {"tasks": [{"type": "mail"}]}
        refused = await site.ask("POST", "/tasks/batch", batch, headers={"Idempotency-Key": "new"})
        assert problem(refused) == (429, "queue-full")


async def test_a_migrated_store_is_not_ready(
    memory_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await memory_site.client.get("/readyz")).status_code == 200

    async def newer(_: object) -> int:
        return 999

    monkeypatch.setattr(Reads, "schema_number", newer)
    ready = await memory_site.client.get("/readyz")
    assert ready.status_code == 503
    (schema,) = [check for check in ready.json()["checks"] if check["name"] == "schema"]
    assert not schema["ok"]
    assert "999" in schema["detail"]


async def test_the_live_feed_names_tasks_as_nodes_do(site: Site) -> None:
    """Also in events that no push has caused. The events of the API are those of the store."""
    node = await joined(site, project="default")
    await node.push(id="job-1", expectedVersion=0)
    plain = await site.task()
    task_id = (await site.ask("GET", "/tasks", q="type:external")).json()["items"][0]["id"]
    for id in (task_id, plain["id"]):
        body = {"type": "PAUSE", "reason": "r"}
        await site.ask("POST", f"/tasks/{id}/interventions", body)
    page = await site.services.store.feed.read(None, 100)
    assert isinstance(page, Page)
    held = [event for event in page.events if event.kind == "task.held"]
    for _ in range(2):  # the second time from the cache
        shown = await named(site.services.names, held)
        names = {event.task_id: event.data.get("client_id") for event in shown}
        assert names == {task_id: "job-1", plain["id"]: None}
    items = (await site.ask("GET", "/events", kinds="task.held")).json()
    assert not any("client_id" in item["data"] for item in items["items"])
    assert items["oldest"].endswith(":0")
