"""Every call that changes something honours `Idempotency-Key`, or is listed here with its reason."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.core.bulk import BulkAction, BulkSpec
from holdfast.core.decision import make_question
from holdfast.gateway.rest.apis import APIS
from holdfast.store.scripts.decisions import Asked
from tests.integration.gateway.fleet_support import FleetSite
from tests.integration.gateway.support import ADMIN, Site, problem
from tests.integration.gateway.test_hub_admin import conflict_of, joined

EXEMPT = {
    "POST /api/v2/sync/nodes/register": "bootId: a repeat within a minute gets the same incarnation",
    "POST /agent/v1/enrol": "a host has one agent: a repeat is refused, or gets a new credential",
    "POST /agent/v1/start": "boot and journal: a repeat starts an incarnation more",
    "POST /agent/v1/sync": "(incarnation, seq); each part is idempotent by itself",
    "POST /api/v1/ws-tickets": "a ticket opens one connection; a repeat makes another",
    "PUT /api/v1/types": "writes the same rows again",
    "POST /api/v2/sync/nodes/{node_id}/heartbeat": "says that a node lives; its acks end commands once",
    "POST /api/v2/sync/handshake/{project}": "compares",
    "POST /api/v2/sync/pull/{project}": "reads",
    "POST /api/v2/sync/push/{project}": "mutationId of each item",
    "POST /api/v2/sync/tasks/{task_id}/claim": "claimId",
    "POST /api/v2/sync/tasks/{task_id}/heartbeat": "the fence; totals and progress only rise",
    "POST /api/v2/sync/tasks/{task_id}/release": "a repeat is answered released: false",
    "POST /api/v2/sync/tasks/{task_id}/output": "start: bytes that are stored are recognised",
    "POST /api/v2/sync/tasks/{task_id}/checkpoints": "checkpointId",
    "POST /api/v2/sync/fix-expired-locks": "a lock expires once",
}
Case = Callable[[Site], Awaitable[tuple[str, Any]]]
"""Prepares a call; returns its path and body."""


def fixed(path: str, body: Any = None) -> Case:
    async def case(_: Site) -> tuple[str, Any]:
        return path, body

    return case


def of_task(suffix: str, body: Any) -> Case:
    async def case(site: Site) -> tuple[str, Any]:
        return f"/tasks/{(await site.task())['id']}{suffix}", body

    return case


def of_dead(suffix: str, body: Any) -> Case:
    async def case(site: Site) -> tuple[str, Any]:
        task_id = (await site.task())["id"]
        node = await joined(site, "runner", "default")
        claim = await node.post(f"/tasks/{task_id}/claim", lockDuration=60_000)
        assert claim.status_code == 200, claim.text
        fence = claim.json()["lock"]["fence"]
        error = {"message": "no", "retryable": False}
        await node.push(id=task_id, expectedVersion=1, status="failed", error=error, fence=fence)
        shown = (await site.ask("GET", f"/tasks/{task_id}")).json()
        assert shown["status"] == "failed", shown
        return suffix.format(task_id=task_id), body

    return case


def of_node(verb: str) -> Case:
    async def case(site: Site) -> tuple[str, Any]:
        await joined(site)
        return f"/nodes/plugin-a/{verb}", {"reason": "r"}

    return case


def of_queue(verb: str) -> Case:
    async def case(site: Site) -> tuple[str, Any]:
        await site.task()
        if verb == "resume":
            await site.ask("POST", "/queues/default/pause", {})
        return f"/queues/default/{verb}", {"reason": "r"}

    return case


def of_schedule(suffix: str, body: Any) -> Case:
    async def case(site: Site) -> tuple[str, Any]:
        await site.ask("PUT", "/schedules/nightly", SCHEDULE)
        if suffix == "/resume":
            await site.ask("POST", "/schedules/nightly/pause", {})
        return f"/schedules/nightly{suffix}", body

    return case


async def of_weight(site: Site) -> tuple[str, Any]:
    await site.task(type="mail")
    return "/types/mail/weights", {"key": "acme", "weight": 2, "reason": "r"}


async def of_task_group(site: Site) -> tuple[str, Any]:
    made = await site.ask("POST", "/task-groups", {"tasks": [{"type": "mail"}]})
    return f"/task-groups/{made.json()['id']}/cancel", {"reason": "r"}


def of_token(suffix: str) -> Case:
    async def case(site: Site) -> tuple[str, Any]:
        made = await site.ask("POST", "/tokens", {"name": "t", "roles": ["viewer"]})
        return f"/tokens/{made.json()['id']}{suffix}", None

    return case


async def settled(site: Site) -> tuple[str, Any]:
    return f"/conflicts/{await conflict_of(site)}/settle", {"take": "server", "reason": "r"}


async def decided(site: Site) -> tuple[str, Any]:
    task_id = (await site.task())["id"]
    node = await joined(site, "runner", "default")
    claim = await node.post(f"/tasks/{task_id}/claim", lockDuration=60_000)
    question = make_question("Go?", key="go", options=("yes",))
    fence = claim.json()["lock"]["fence"]
    asked = await site.services.store.decisions.ask(task_id, fence, question)
    assert isinstance(asked, Asked)
    return f"/decisions/{asked.decision.id}", {"choice": "yes"}


async def revoked_lock(site: Site) -> tuple[str, Any]:
    await site.services.locks._locks.acquire("door", wait=1)
    return "/locks/door/revoke", {"reason": "r"}


async def intervened(site: Site) -> tuple[str, Any]:
    task_id = (await site.task())["id"]
    return "!/intervene", {"type": "PAUSE", "taskId": task_id, "reason": "r"}


def of_operation(verb: str) -> Case:
    async def case(site: Site) -> tuple[str, Any]:
        """A run that nothing advances."""
        spec = BulkSpec(action=BulkAction.ABORT, actor="user:ann")
        task_id = (await site.task(delay_seconds=60))["id"]
        run = await site.services.bulk.runs.create(spec, [task_id], None)
        return f"/operations/{run.id}/{verb}", {"reason": "r"}

    return case


async def undone(site: Site) -> tuple[str, Any]:
    """A pause that has ended."""
    await site.task(delay_seconds=60)
    body = {"action": "pause", "q": "status:queued", "reason": "r"}
    made = await site.ask("POST", "/operations", body)
    return f"/operations/{made.json()['id']}/undo", {"reason": "r"}


def of_host(path: str, body: Any) -> Case:
    async def case(site: Site) -> tuple[str, Any]:
        await site.ask("POST", "/hosts", {"name": "web-1"})
        await site.ask("POST", "/groups", {"name": "front", "selector": "*"})
        return path, body

    return case


def of_block(body: Any) -> Case:
    async def case(site: Site) -> tuple[str, Any]:
        made = await site.ask("POST", "/blocks", {"selector": "*", "reason": "r"})
        return f"/blocks/{made.json()['id']}", body

    return case


def of_job(suffix: str, body: Any) -> Case:
    async def case(site: Site) -> tuple[str, Any]:
        fleet = FleetSite(site)
        await fleet.hosts(2)
        gate = {"waves": [1, "rest"], "gate": "ask"}
        made = await fleet.job(rollout=gate if suffix == "/promote" else {})
        if suffix == "/resume":
            await fleet.do("pause", made)
        if suffix in ("/promote", "/retry"):
            await fleet.run_out(made, failing="web-001" if suffix == "/retry" else "")
        return f"/jobs/{made['job_id']}{suffix}", body

    return case


def of_asked_job(suffix: str, body: Any) -> Case:
    async def case(site: Site) -> tuple[str, Any]:
        fleet = FleetSite(site)
        await fleet.hosts(2)
        asked = await fleet.asked()
        if suffix == "/withdraw":
            await fleet.do("approve", asked)
        if suffix == "/break-glass/review":
            other = (await site.ask("POST", "/tokens", {"name": "ann", "roles": ["admin"]})).json()
            await fleet.do("break-glass", asked, token=other["token"], ticket="T-1")
        return f"/jobs/{asked['job_id']}{suffix}", body

    return case


def of_webhook(suffix: str, body: Any) -> Case:
    async def case(site: Site) -> tuple[str, Any]:
        url = "https://hooks.example/in"
        made = (await site.ask("POST", "/webhooks", {"url": url})).json()
        sent = (await site.ask("POST", f"/webhooks/{made['id']}/test", {})).json()
        return f"/webhooks/{made['id']}{suffix.format(delivery_id=sent['id'])}", body

    return case


JOB = {"command_type": "noop", "selector": "*"}
SCHEDULE = {"spec": "0 3 * * *", "type": "mail"}
PAUSE = {"type": "PAUSE", "reason": "r"}
V1 = "/api/v1"
V2 = "/api/v2/sync"
PRESET = {"body": {"q": "status:queued"}}


async def of_preset(site: Site) -> tuple[str, Any]:
    await site.ask("PUT", "/presets/view/late", PRESET)
    return "/presets/view/late", None


CASES: dict[str, Case] = {
    f"POST {V1}/tasks": fixed("/tasks", {"type": "mail"}),
    f"POST {V1}/tasks/batch": fixed("/tasks/batch", {"tasks": [{"type": "mail"}]}),
    f"PATCH {V1}/tasks/{{task_id}}": of_task("", {"payload": {"n": 2}, "reason": "r"}),
    f"POST {V1}/tasks/{{task_id}}/copy": of_task("/copy", {"reason": "r"}),
    f"POST {V1}/tasks/{{task_id}}/interventions": of_task("/interventions", PAUSE),
    f"POST {V1}/decisions/{{decision_id}}": decided,
    f"POST {V1}/conflicts/{{conflict_id}}/settle": settled,
    f"POST {V1}/queues/{{name}}/pause": of_queue("pause"),
    f"POST {V1}/queues/{{name}}/resume": of_queue("resume"),
    f"POST {V1}/dead-letters/replay": of_dead("/dead-letters/replay", {"reason": "r"}),
    f"POST {V1}/dead-letters/discard": of_dead("/dead-letters/discard", {"reason": "r"}),
    f"POST {V1}/dead-letters/{{task_id}}/replay": of_dead(
        "/dead-letters/{task_id}/replay", {"reason": "r"}
    ),
    f"POST {V1}/dead-letters/{{task_id}}/discard": of_dead(
        "/dead-letters/{task_id}/discard", {"reason": "r"}
    ),
    f"POST {V1}/operations": fixed(
        "/operations", {"action": "pause", "q": "status:queued", "reason": "r"}
    ),
    f"POST {V1}/operations/{{operation_id}}/stop": of_operation("stop"),
    f"POST {V1}/operations/{{operation_id}}/resume": of_operation("resume"),
    f"POST {V1}/operations/{{operation_id}}/undo": undone,
    **{
        f"POST {V1}/nodes/{{node_id}}/{verb}": of_node(verb)
        for verb in ("cordon", "uncordon", "drain", "quarantine", "revoke")
    },
    f"POST {V1}/join-tokens": fixed("/join-tokens", {"project": "web"}),
    f"POST {V1}/locks/{{resource}}/revoke": revoked_lock,
    f"PUT {V1}/schedules/{{name}}": fixed("/schedules/nightly", SCHEDULE),
    f"DELETE {V1}/schedules/{{name}}": of_schedule("", None),
    f"POST {V1}/schedules/{{name}}/pause": of_schedule("/pause", {"reason": "r"}),
    f"POST {V1}/schedules/{{name}}/resume": of_schedule("/resume", {"reason": "r"}),
    f"POST {V1}/schedules/{{name}}/run": of_schedule("/run", {"reason": "r"}),
    f"POST {V1}/schedules/{{name}}/backfill": of_schedule(
        "/backfill", {"since": "2020-08-01", "until": "2020-08-03", "reason": "r"}
    ),
    f"POST {V1}/task-groups": fixed("/task-groups", {"tasks": [{"type": "mail"}]}),
    f"POST {V1}/task-groups/{{group_id}}/cancel": of_task_group,
    f"PUT {V1}/types/{{name}}/weights": of_weight,
    f"POST {V1}/tokens": fixed("/tokens", {"name": "t", "roles": ["viewer"]}),
    f"DELETE {V1}/tokens/{{token_id}}": of_token(""),
    f"POST {V1}/tokens/{{token_id}}/rotate": of_token("/rotate"),
    f"POST {V1}/projects": fixed("/projects", {"id": "shop"}),
    f"PATCH {V1}/projects/{{project}}": fixed("/projects/default", {"strategy": "manual"}),
    f"PUT {V1}/presets/{{kind}}/{{name}}": fixed("/presets/view/late", PRESET),
    f"DELETE {V1}/presets/{{kind}}/{{name}}": of_preset,
    f"POST {V1}/hosts": fixed("/hosts", {"name": "web-1"}),
    f"POST {V1}/hosts/import": fixed("/hosts/import", {"hosts": [{"name": "web-1"}]}),
    f"PATCH {V1}/hosts/{{host}}": of_host("/hosts/web-1", {"state": "cordoned"}),
    f"DELETE {V1}/hosts/{{host}}": of_host("/hosts/web-1", None),
    f"POST {V1}/groups": fixed("/groups", {"name": "front", "selector": "*"}),
    f"PATCH {V1}/groups/{{group}}": of_host("/groups/front", {"selector": "role=web"}),
    f"DELETE {V1}/groups/{{group}}": of_host("/groups/front", None),
    f"POST {V1}/blocks": fixed(
        "/blocks", {"selector": "*", "reason": "r", "expires_in_seconds": 60}
    ),
    f"PATCH {V1}/blocks/{{block_id}}": of_block({"reason": "s"}),
    f"DELETE {V1}/blocks/{{block_id}}": of_block(None),
    f"POST {V1}/jobs": of_host("/jobs", JOB),
    f"POST {V1}/webhook/jobs": of_host("/webhook/jobs", JOB),
    f"POST {V1}/webhook/jobs/{{source}}": of_host("/webhook/jobs/ci", JOB),
    f"PATCH {V1}/jobs/{{job_id}}": of_job("", {"max_in_flight": 1}),
    f"POST {V1}/jobs/{{job_id}}/pause": of_job("/pause", {"reason": "r"}),
    f"POST {V1}/jobs/{{job_id}}/resume": of_job("/resume", {"reason": "r"}),
    f"POST {V1}/jobs/{{job_id}}/abort": of_job("/abort", {"reason": "r"}),
    f"POST {V1}/jobs/{{job_id}}/promote": of_job("/promote", {"reason": "r"}),
    f"POST {V1}/jobs/{{job_id}}/approve": of_asked_job("/approve", {"reason": "r"}),
    f"POST {V1}/jobs/{{job_id}}/reject": of_asked_job("/reject", {"reason": "r"}),
    f"POST {V1}/jobs/{{job_id}}/withdraw": of_asked_job("/withdraw", {"reason": "r"}),
    f"POST {V1}/jobs/{{job_id}}/break-glass": of_asked_job(
        "/break-glass", {"reason": "r", "ticket": "T-1"}
    ),
    f"POST {V1}/jobs/{{job_id}}/break-glass/review": of_asked_job("/break-glass/review", {}),
    f"POST {V1}/jobs/{{job_id}}/retry": of_job("/retry", {"reason": "r"}),
    f"POST {V1}/webhooks": fixed("/webhooks", {"name": "ci"}),
    f"PATCH {V1}/webhooks/{{webhook_id}}": of_webhook("", {"state": "disabled"}),
    f"DELETE {V1}/webhooks/{{webhook_id}}": of_webhook("", None),
    f"POST {V1}/webhooks/{{webhook_id}}/rotate": of_webhook("/rotate", {"reason": "r"}),
    f"POST {V1}/webhooks/{{webhook_id}}/retire": of_webhook("/retire", {"reason": "r"}),
    f"POST {V1}/webhooks/{{webhook_id}}/test": of_webhook("/test", {"reason": "r"}),
    f"POST {V1}/webhooks/{{webhook_id}}/deliveries/{{delivery_id}}/resend": of_webhook(
        "/deliveries/{delivery_id}/resend", {"reason": "r"}
    ),
    f"POST {V2}/intervene": intervened,
}
SECRETS = ("token", "credential", "secret")


def changing() -> set[str]:
    return {
        f"{route.method} {api.prefix}{route.path}"
        for api in APIS
        for route in api.routes.all
        if route.method != "GET"
    }


def test_every_call_that_changes_something_is_here() -> None:
    assert changing() == CASES.keys() | EXEMPT.keys()
    assert not CASES.keys() & EXEMPT.keys()


@pytest.mark.parametrize("name", CASES)
async def test_a_repeat_gets_the_first_answer(memory_site: Site, name: str) -> None:
    site = memory_site
    path, body = await CASES[name](site)
    prefix = V2 if path.startswith("!") else V1
    headers = {"Authorization": f"Bearer {ADMIN}", "Idempotency-Key": "k1"}
    given: dict[str, Any] = {"headers": headers} | ({} if body is None else {"json": body})
    method = name.partition(" ")[0]
    url = prefix + path.removeprefix("!")
    first = await site.client.request(method, url, **given)
    assert first.status_code in (200, 201, 202), first.text
    assert "Idempotency-Replayed" not in first.headers
    events = (await site.services.store.feed.head()).offset
    again = await site.client.request(method, url, **given)
    assert again.headers.get("Idempotency-Replayed") == "true", again.text
    assert again.status_code == first.status_code
    assert (await site.services.store.feed.head()).offset == events
    shown, repeated = first.json(), again.json()
    for secret in SECRETS:  # a secret is shown once
        if shown.get(secret) is not None and isinstance(shown[secret], str):
            shown.pop(secret), repeated.pop(secret, None)
    assert repeated == shown
    if body is not None:
        other = await site.client.request(
            method, url, headers=headers, json={**body, "reason": "another"}
        )
        assert other.status_code == 422, other.text


@pytest.mark.parametrize("act", ["replay", "discard"])
async def test_a_refused_act_with_a_key_says_why_each_time(site: Site, act: str) -> None:
    task = await site.task()
    path, headers = f"/dead-letters/{task['id']}/{act}", {"Idempotency-Key": "k-refused"}
    for _ in range(2):
        refused = await site.ask("POST", path, {"reason": "r"}, headers=headers)
        assert problem(refused) == (409, "illegal-transition")
