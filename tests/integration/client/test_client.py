"""`Client` against the gateway's own application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest

from holdfast.client.client import Client, TaskEdit
from holdfast.client.models import NewTask, TaskView
from holdfast.core.errors import Forbidden, Unauthenticated
from holdfast.errors import (
    BadConfig,
    Conflict,
    IllegalTransition,
    InvalidInput,
    NotFound,
    UnknownType,
    UnserialisablePayload,
    VersionConflict,
    WaitTimeout,
)
from holdfast.gateway.rest.app import make_app
from tests.integration.gateway.support import ADMIN, Site, open_site
from tests.unit.client.client_support import QuickClock


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with open_site("sqlite://") as made:
        yield made


def client_of(site: Site, token: str | None = ADMIN) -> Client:
    transport = httpx2.ASGITransport(app=make_app(site.gateway))
    return Client("http://gateway", token, clock=QuickClock(), transport=transport)


@pytest.fixture
async def client(site: Site) -> AsyncIterator[Client]:
    async with client_of(site) as made:
        yield made


async def test_a_task_from_submit_to_history(client: Client) -> None:
    ref = await client.submit("mail", {"to": "ann"}, queue="letters", metadata={"by": "test"})
    assert (ref.created, ref.status) == (True, "queued")
    task = await client.get(ref.id)
    assert (task.payload, task.queue, task.metadata) == ({"to": "ann"}, "letters", {"by": "test"})
    [row] = [row async for row in client.tasks("type:mail")]
    assert (row.id, row.payload_preview) == (ref.id, '{"to":"ann"}')
    assert (await client.why(ref.id)).status == "queued"
    assert [event.kind async for event in client.history(ref.id)] == ["task.enqueued"]
    with pytest.raises(WaitTimeout):
        await client.wait(ref.id, timeout=0.0)


async def test_the_same_key_enqueues_once(client: Client) -> None:
    first = await client.submit("mail", 1, idempotency_key="k")
    again = await client.submit("mail", 1, idempotency_key="k")
    assert (again.id, again.created) == (first.id, False)


class Losing(httpx2.AsyncBaseTransport):
    """The gateway carries out each request, but the client does not see the first answers to its writes."""

    def __init__(self, site: Site, lost: int) -> None:
        self._inner = httpx2.ASGITransport(app=make_app(site.gateway))
        self._lost = lost

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = await self._inner.handle_async_request(request)
        if request.method == "POST" and self._lost:
            self._lost -= 1
            raise httpx2.ReadError("the connection was lost")
        return answer


async def test_an_answer_that_was_lost_is_repeated(site: Site) -> None:
    losing = Losing(site, 2)
    async with Client("http://gateway", ADMIN, clock=QuickClock(), transport=losing) as client:
        ref = await client.submit("mail", {"to": "ann"})
        assert [row.id async for row in client.tasks()] == [ref.id]


@pytest.mark.parametrize("verb", ["create", "create_join", "rotate"])
async def test_a_token_whose_answer_was_lost_has_a_secret(site: Site, verb: str) -> None:
    """The server does not keep the secret, so the repeated request alone cannot show it."""
    async with client_of(site) as client:
        made = await client.tokens.create("ann", ["viewer"])
    losing = Losing(site, 1)
    async with Client("http://gateway", ADMIN, clock=QuickClock(), transport=losing) as client:
        match verb:
            case "create":
                token = await client.tokens.create("bob", ["viewer"])
            case "create_join":
                token = await client.tokens.create_join()
            case _:
                token = await client.tokens.rotate(made.id)
        assert token.token is not None
        [kept] = [each for each in await client.tokens.list() if each.name == token.name]
        assert kept.id == token.id
    if verb != "create_join":
        async with client_of(site, token.token) as client:
            assert [row async for row in client.tasks()] == []


async def test_many_tasks_and_pages(client: Client) -> None:
    tasks = [NewTask(type="mail", payload=n) for n in range(450)]
    refs = await client.submit_many(tasks)
    assert len({ref.id for ref in refs}) == 450
    assert {row.id async for row in client.tasks()} == {ref.id for ref in refs}
    assert len([row async for row in client.tasks(limit=201)]) == 201


async def test_wait_and_result(site: Site, client: Client) -> None:
    ref = await client.submit("mail")
    waiting = asyncio.create_task(client.result(ref.id, timeout=60))
    await site.services.queue.start()
    assert await waiting == "ok"


async def test_update_with_retry_reads_again(client: Client) -> None:
    ref = await client.submit("mail", {"n": 0})
    versions: list[int] = []

    async def add(task: TaskView) -> TaskEdit | None:
        versions.append(task.version)
        if len(versions) == 1:
            await client.edit(ref.id, {"n": 10, "other": True})
        return TaskEdit({"n": task.payload["n"] + 1}, "count")

    task = await client.update_with_retry(ref.id, add)
    assert task.payload == {"n": 11, "other": True}
    assert versions == [1, 2]
    assert await client.update_with_retry(ref.id, lambda task: None) == await client.get(ref.id)
    with pytest.raises(VersionConflict) as raised:
        await client.edit(ref.id, 1, expected_version=1)
    assert raised.value.__dict__["problem"]["current"]["version"] == 3
    with pytest.raises(BadConfig):
        await client.update_with_retry(ref.id, add, attempts=0)


async def test_update_with_retry_ends(client: Client) -> None:
    ref = await client.submit("mail", 0)

    async def disturbed(task: TaskView) -> TaskEdit | None:
        await client.edit(ref.id, task.version)
        return TaskEdit(-1)

    with pytest.raises(VersionConflict):
        await client.update_with_retry(ref.id, disturbed, attempts=2)


async def test_copy(client: Client) -> None:
    ref = await client.submit("mail", {"to": "ann"})
    copy = await client.copy(ref.id, reason="again")
    assert (copy.payload, copy.metadata) == ({"to": "ann"}, {"copy_of": ref.id})
    assert (await client.copy(ref.id, payload=None)).payload is None


async def test_queues_schedules_locks_and_nodes(site: Site, client: Client) -> None:
    await client.submit("mail", queue="letters")
    assert "letters" in [queue.name for queue in await client.queues.list()]
    assert (await client.queues.pause("letters", reason="moving")).paused_at is not None
    assert (await client.queues.resume("letters")).paused_at is None
    assert (await client.queues.get("letters")).counts["queued"] == 1
    made = await client.schedules.put("daily", "0 6 * * *", "mail", {"to": "ann"})
    assert (made.spec, made.paused) == ("0 6 * * *", False)
    assert (await client.schedules.pause("daily")).paused is True
    assert (await client.schedules.resume("daily")).paused is False
    ran = await client.schedules.run("daily", reason="missed")
    assert (ran.type, ran.payload, ran.metadata) == ("mail", {"to": "ann"}, {"schedule": "daily"})
    filled = await client.schedules.backfill("daily", "2020-08-01", "2020-08-03", reason="missed")
    assert ([row.at[:10] for row in filled.items], filled.created) == (
        ["2020-08-01", "2020-08-02"],
        2,
    )
    again = await client.schedules.backfill("daily", "2020-08-02", "2020-08-04")
    assert ([row.created for row in again.items], again.created) == ([False, True], 1)
    assert again.items[0].id == filled.items[1].id
    assert [schedule.name for schedule in await client.schedules.list()] == ["daily"]
    assert (await client.schedules.remove("daily")).name == "daily"
    with pytest.raises(NotFound):
        await client.schedules.get("daily")
    await site.services.locks._locks.acquire("host:1/a", ttl=600)
    assert [lock.resource async for lock in client.locks.list()] == ["host:1/a"]
    assert (await client.locks.get("host:1/a")).held
    await client.locks.revoke("host:1/a", reason="stuck")
    assert isinstance(await client.nodes.list(), list)


async def test_dead_letters_and_operations(client: Client) -> None:
    refs = await client.submit_many([NewTask(type="mail")] * 3)
    dry = await client.operations.run("abort", q="type:mail", dry_run=True)
    assert dry.count == 3
    made = await client.operations.run(
        "abort", ids=[ref.id for ref in refs], reason="not needed", expect_count=3
    )
    assert made.id is not None
    assert made.total == 3
    for ref in refs:
        await client.wait(ref.id)
    assert (await client.operations.get(made.id)).state == "done"
    assert [row.done async for row in client.operations.list()] == [3]
    with pytest.raises(Conflict):
        await client.operations.stop(made.id)
    with pytest.raises(Conflict):
        await client.operations.run("abort", q="type:mail", expect_count=7)
    assert [row async for row in client.dead_letters.list()] == []
    assert await client.dead_letters.groups() == []


async def test_tokens_and_principals(site: Site, client: Client) -> None:
    assert (await client.whoami()).roles == ["admin"]
    made = await client.tokens.create("ann", ["viewer"], expires_in_seconds=3600)
    assert made.token is not None
    async with client_of(site, made.token) as viewer:
        assert (await viewer.whoami()).name == "user:ann"
        with pytest.raises(Forbidden):
            await viewer.submit("mail")
    assert made.id in [token.id async for token in client.tokens.list()]
    await client.tokens.revoke(made.id)
    async with client_of(site, made.token) as viewer:
        with pytest.raises(Unauthenticated):
            await viewer.whoami()
    join = await client.tokens.create_join(uses=2)
    assert join.token is not None
    assert join.uses_left == 2


async def test_errors_have_their_classes(site: Site, client: Client) -> None:
    with pytest.raises(NotFound):
        await client.get("missing/with a slash")
    with pytest.raises(UnknownType):
        await client.submit("unknown")
    with pytest.raises(InvalidInput, match="priority"):
        await client.submit("mail", priority="soon")
    with pytest.raises(InvalidInput):
        [row async for row in client.tasks("status:(")]
    async with client_of(site, "hf_user_wrong") as stranger:
        with pytest.raises(Unauthenticated):
            await stranger.whoami()


async def test_a_position_comes_before_what_follows(client: Client) -> None:
    position = await client.position()
    ref = await client.submit("mail")
    events = await client._api.call("GET", "events", query={"after": position})
    assert [event["task_id"] for event in events.body["items"]] == [ref.id]
    assert isinstance((await client.stats())["feed_head"], str)


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_GATEWAY", "http://one, http://two")
    monkeypatch.setenv("HOLDFAST_TOKEN", "secret")
    client = Client()
    assert client._http.urls == ["http://one", "http://two"]
    assert client._http.token == "secret"
    monkeypatch.delenv("HOLDFAST_GATEWAY")
    with pytest.raises(BadConfig):
        Client()


async def test_lists_are_iterated_or_awaited(client: Client) -> None:
    await client.submit("mail")
    assert [row.type for row in await client.tasks()] == ["mail"]
    assert [queue.name async for queue in client.queues.list()] == [
        queue.name for queue in await client.queues.list()
    ]


async def test_options_have_the_names_of_the_queue(client: Client) -> None:
    ref = await client.submit("mail", delay=60, timeout=5)
    assert ref.task is not None
    assert ref.task.due_at is not None
    assert ref.task.created_at is not None
    assert ref.task.due_at > ref.task.created_at
    [many] = await client.submit_many([{"type": "mail", "delay_seconds": 60}])
    assert many.status == "queued"


async def test_projects_and_the_audit(client: Client) -> None:
    made = await client.projects.create("web", strategy="manual", reason="new site")
    assert (made.id, made.strategy) == ("web", "manual")
    changed = await client.projects.set("web", strategy="merge", reason="quicker")
    assert changed.strategy == (await client.projects.get("web")).strategy == "merge"
    assert "web" in [project.id for project in await client.projects.list()]
    assert "new site" in [act.reason for act in await client.audit.list()]
    assert (await client.audit.verify())["ok"] is True


async def test_only_a_dead_letter_is_replayed_or_discarded(client: Client) -> None:
    ref = await client.submit("mail", {"to": "ann"})
    with pytest.raises(NotFound):
        await client.dead_letters.replay("none", payload={"to": "bob"}, delay=5, reason="mended")
    with pytest.raises(InvalidInput, match="patch is"):
        await client.dead_letters.replay(ref.id, patch={})
    with pytest.raises(IllegalTransition, match="is queued"):
        await client.dead_letters.discard(ref.id, reason="too old")


async def test_a_preview_says_what_an_intervention_would_do(client: Client) -> None:
    task = await client.submit("mail", 1)
    seen = await client.preview(task.id, "ABORT", expected_version=1)
    assert seen.effect is not None
    assert (seen.effect.before, seen.effect.after, seen.runner) == ("queued", "aborted", None)
    forced = await client.preview(task.id, "FORCE_STATUS", args={"status": "paused"})
    assert forced.effect is not None
    assert (await client.get(task.id)).version == 1
    assert [row async for row in client.interventions(task.id)] == []
    with pytest.raises(VersionConflict):
        await client.preview(task.id, "ABORT", expected_version=7)
    with pytest.raises(IllegalTransition):
        await client.preview(task.id, "RESUME")
    done = await client.intervene(task.id, "ABORT", reason="not needed")
    assert (done.intervention.state, done.task and done.task.status) == ("applied", "aborted")


@pytest.mark.parametrize("payload", [{"n": float("nan")}, {1: 2}, object(), {"text": "\ud800"}])
async def test_what_is_not_json_is_refused_before_it_is_sent(
    client: Client, payload: object
) -> None:
    """As `TaskQueue` does. The encoder alone would send null for NaN, and "1" for the key 1."""
    with pytest.raises(UnserialisablePayload, match="cannot be written as JSON"):
        await client.submit("mail", payload)
    assert [row async for row in client.tasks("type:mail")] == []
