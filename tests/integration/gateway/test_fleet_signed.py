"""Jobs that webhook sources ask for with a signature."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import httpx2
import pytest

from holdfast.core.fleet.webhooks import signature
from holdfast.fleet.webhooks import keys
from holdfast.fleet.webhooks.webhooks import IssuedWebhook
from holdfast.gateway.settings import BODY_BYTES
from holdfast.queue.by import By
from tests.integration.gateway.fleet_support import FleetSite
from tests.integration.gateway.support import Site, problem

BODY = {"command_type": "noop", "selector": "*", "external_id": "deploy-42"}


class Sender:
    """A source that signs what it sends."""

    def __init__(self, fleet: FleetSite, source: IssuedWebhook) -> None:
        self.fleet = fleet
        self.source = source

    def headers(
        self, content: bytes, *, id: str = "msg_1", age: float = 0.0, secret: str | None = None
    ) -> dict[str, str]:
        now = self.fleet.site.services.now() - age
        secrets = [self.source.secret if secret is None else secret]
        signed = signature.sign(secrets, id, now, content).headers()
        return {**signed, "Content-Type": "application/json"}

    async def send(
        self,
        body: Any = BODY,
        *,
        path: str = "/webhook/jobs",
        content: bytes | None = None,
        change: dict[str, str] | None = None,
        **options: Any,
    ) -> httpx2.Response:
        data = json.dumps(body).encode() if content is None else content
        headers = {**self.headers(data, **options), **(change or {})}
        return await self.fleet.site.client.post(path, content=data, headers=headers)


@pytest.fixture
async def sender(site: Site) -> Sender:
    fleet = FleetSite(site)
    await fleet.hosts(2)
    source = await site.services.fleet.webhooks.add_source("default", "ci", By("user:ann"))
    return Sender(fleet, source)


async def test_a_source_makes_a_job(sender: Sender) -> None:
    answer = await sender.send()
    assert answer.status_code == 202, answer.text
    job = await sender.fleet.get("/jobs/deploy-42")
    assert (job["created_by"], job["project"]) == ("webhook:ci", "default")
    audit = (await sender.fleet.get("/audit"))["items"]
    assert audit[0]["actor"] == "webhook:ci"
    named = await sender.send(path="/webhook/jobs/ci", id="msg_2")
    assert (named.status_code, named.json()["created"]) == (200, False)
    below = await sender.send(path="/api/v1/webhook/jobs/ci", id="msg_3")
    assert below.status_code == 200


async def test_a_repeated_delivery_gets_the_kept_answer(sender: Sender) -> None:
    body = {"command_type": "noop", "selector": "*"}
    first = await sender.send(body)
    again = await sender.send(body)
    assert (again.status_code, again.json()) == (202, first.json())
    assert again.headers["Idempotency-Replayed"] == "true"
    assert len((await sender.fleet.get("/jobs"))["items"]) == 1
    other = await sender.send({**body, "reason": "x"})
    assert problem(other) == (422, "idempotency-conflict")


async def test_a_hundred_equal_deliveries_at_once_make_one_job(sender: Sender) -> None:
    body = {"command_type": "noop", "selector": "*"}
    same = await asyncio.gather(*(sender.send(body) for _ in range(100)))
    assert {answer.status_code for answer in same} == {202}
    assert len({answer.json()["job_id"] for answer in same}) == 1
    several = await asyncio.gather(*(sender.send(id=f"other_{n}") for n in range(100)))
    counts = Counter(answer.status_code for answer in several)
    assert (counts[202], counts[202] + counts[200]) == (1, 100), counts
    assert len((await sender.fleet.get("/jobs"))["items"]) == 2


@pytest.mark.parametrize(
    "options",
    [
        {"age": 301.0},
        {"age": -301.0},
        {"secret": "whsec_" + "A" * 44},
        {"change": {"webhook-id": "msg_2"}},
        {"change": {"webhook-signature": "v1,AAAA"}},
        {"change": {"webhook-signature": ""}},
        {"change": {"webhook-timestamp": "soon"}},
        {"path": "/webhook/jobs/other"},
    ],
)
async def test_a_bad_signature_is_refused(memory_site: Site, options: dict[str, Any]) -> None:
    fleet = FleetSite(memory_site)
    await fleet.hosts(1)
    source = await memory_site.services.fleet.webhooks.add_source("default", "ci", By("user:ann"))
    answer = await Sender(fleet, source).send(**options)
    assert problem(answer) == (401, "bad-signature")
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert (await fleet.get("/jobs"))["items"] == []


async def test_the_body_is_signed_byte_by_byte(sender: Sender) -> None:
    content = json.dumps(BODY).encode()
    headers = sender.headers(content)
    client = sender.fleet.site.client
    changed = await client.post("/webhook/jobs", content=content + b" ", headers=headers)
    assert problem(changed) == (401, "bad-signature")
    same = await client.post("/webhook/jobs", content=content, headers=headers)
    assert same.status_code == 202


async def test_without_any_credential(sender: Sender) -> None:
    client = sender.fleet.site.client
    answer = await client.post("/webhook/jobs", json=BODY)
    assert problem(answer) == (401, "bad-signature")
    other = await client.post("/jobs", json=BODY)
    assert problem(other) == (401, "unauthenticated")
    wrong = {"Authorization": "Bearer hf_user_x"}
    headers = {**sender.headers(json.dumps(BODY).encode()), **wrong}
    token = await client.post("/webhook/jobs", content=json.dumps(BODY).encode(), headers=headers)
    assert problem(token) == (401, "unauthenticated"), "a token that is given has to be valid"


async def test_a_signature_opens_nothing_else(sender: Sender) -> None:
    headers = sender.headers(b"")
    for path in ("/jobs", "/api/v1/tasks", "/hosts"):
        answer = await sender.fleet.site.client.get(path, headers=headers)
        assert problem(answer) == (401, "unauthenticated"), path


async def test_a_source_stays_in_its_project(sender: Sender) -> None:
    foreign = await sender.send({**BODY, "project": "shop"})
    assert problem(foreign) == (404, "not-found")


async def test_rotated_and_disabled_sources(sender: Sender) -> None:
    webhooks = sender.fleet.site.services.fleet.webhooks
    rotated = await webhooks.rotate(sender.source.webhook.id, By("user:ann"))
    assert (await sender.send()).status_code == 202
    assert (await sender.send(secret=rotated.secret, id="msg_2")).status_code == 200
    await webhooks.retire(sender.source.webhook.id, By("user:ann"))
    assert problem(await sender.send(id="msg_3")) == (401, "bad-signature")
    await webhooks.edit(sender.source.webhook.id, By("user:ann"), state="disabled")
    assert problem(await sender.send(secret=rotated.secret, id="m4")) == (401, "bad-signature")


async def test_too_large_a_body_and_too_many_failures(sender: Sender) -> None:
    large = await sender.send(content=b"x" * (BODY_BYTES + 1))
    assert problem(large) == (413, "too-large")
    malformed = await sender.send(content=b"{", id="msg_2")
    assert problem(malformed) == (400, "malformed")
    codes = [problem(await sender.send(age=1e6))[1] for _ in range(30)]
    assert codes[0] == "bad-signature"
    assert codes[-1] == "rate-limited"


async def test_who_made_a_source_does_not_approve_its_jobs(sender: Sender) -> None:
    body = {"command_type": "shell", "command": "uptime", "selector": "*"}
    assert (await sender.send(body)).status_code == 202
    [waiting] = (await sender.fleet.get("/approvals"))["items"]
    assert waiting["excluded"] == ["user:ann", "webhook:ci"]


async def test_a_source_with_a_public_key_makes_a_job(site: Site) -> None:
    fleet = FleetSite(site)
    await fleet.hosts(2)
    private = keys.make_private_key(bytes(range(32)))
    [public] = signature.public_keys([private])
    for wrong in (
        {"name": "ci", "signature": "ed25519"},
        {"name": "ci", "public_key": "whpk_x"},
        {"url": "https://a.example/hook", "public_key": public},
    ):
        assert problem(await site.ask("POST", "/webhooks", wrong)) == (422, "invalid-input")
    made = (await site.ask("POST", "/webhooks", {"name": "ci", "public_key": public})).json()
    assert (made["secret"], made["signature"], made["public_keys"]) == (None, "ed25519", [public])
    content = json.dumps(BODY).encode()
    signed = signature.sign(
        [], "msg_1", site.services.now(), content, signers=keys.signers_of([private])
    )
    headers = {**signed.headers(), "Content-Type": "application/json"}
    answer = await site.client.post("/webhook/jobs/ci", content=content, headers=headers)
    assert answer.status_code == 202, answer.text
    changed = await site.client.post("/webhook/jobs/ci", content=content + b" ", headers=headers)
    assert problem(changed) == (401, "bad-signature")
