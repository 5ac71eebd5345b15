"""Events become deliveries, each once, and deliveries reach endpoints on this machine."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook as Reference, WebhookVerificationError

from holdfast.clock import VirtualClock
from holdfast.core.event import NewEvent
from holdfast.core.fleet.model import Webhook, WebhookDirection, WebhookState
from holdfast.core.fleet.webhooks import signature
from holdfast.core.fleet.webhooks.address import AddressRules
from holdfast.core.fleet.webhooks.rules import BODY_BYTES_MAX, RETRY_SECONDS, DeliveryVerdict
from holdfast.core.fleet.webhooks.signature import SignatureMethod
from holdfast.errors import Conflict, NotFound
from holdfast.fleet.webhooks import feed as webhook_feed, keys, scripts as webhook_scripts
from holdfast.fleet.webhooks.feed import WebhookFeed
from holdfast.fleet.webhooks.http import Attempt, WebhookHttp
from holdfast.fleet.webhooks.sender import CLAIM_SECONDS, WebhookSender
from holdfast.fleet.webhooks.webhooks import IssuedWebhook, Webhooks
from holdfast.store.scripts.work import Work
from holdfast.store.store import Store
from holdfast.sync.rows import event_of
from tests.conformance.fleet.endpoint import Endpoint, open_endpoint
from tests.conformance.fleet.support import BY, PROJECT, events
from tests.integration.worker.served import make_ca, make_certificate

HERE = AddressRules(["127.0.0.0/8"])


async def write(store: Store, *new: NewEvent) -> None:
    def script(dialect: Any, ids: Any, now: float) -> Any:
        work = Work(now)
        work.events += new
        yield from work.save(dialect, ids.record(now))

    await store.run(script)


def job_event(store: Store, n: int, project: str = PROJECT, **data: Any) -> NewEvent:
    return event_of("job.finished", store.now(), project, {"job": f"job_{n}", **data})


class Site:
    """The loops of one process, and an endpoint."""

    def __init__(self, store: Store, clock: VirtualClock, endpoint: Endpoint) -> None:
        self.store = store
        self.clock = clock
        self.endpoint = endpoint
        self.hooks = Webhooks(store, HERE)
        self.http = WebhookHttp(HERE, timeout_seconds=5.0)
        self.feed = WebhookFeed(store, clock)
        self.sender = WebhookSender(store, self.http, clock, owner="p1")

    async def add(self, kinds: Sequence[str] = (), project: str = PROJECT) -> IssuedWebhook:
        return await self.hooks.add_endpoint(project, self.endpoint.url, BY, kinds=kinds)

    async def step(self) -> None:
        """Makes deliveries and tries all that are due."""
        while await self.feed.step() == 0.0:
            pass
        await self.sender.step()
        await self.sender.settle()
        assert (self.feed.troubles, self.sender.troubles) == (0, 0)

    def later(self, seconds: float) -> None:
        self.clock.set(self.clock.now() + seconds)


@asynccontextmanager
async def open_site(store: Store, clock: VirtualClock) -> AsyncIterator[Site]:
    async with open_endpoint() as endpoint:
        site = Site(store, clock, endpoint)
        try:
            yield site
        finally:
            await site.sender.stop()
            await site.http.close()


async def test_an_event_is_delivered_signed(store: Store, clock: VirtualClock) -> None:
    async with open_site(store, clock) as site:
        await write(store, job_event(store, 0))
        issued = await site.add()
        await write(store, job_event(store, 1, password="p", note="token=abcdefgh"))
        await write(store, job_event(store, 2, "shop"), event_of("host.added", 1.0, PROJECT, {}))
        await site.step()
        [received] = site.endpoint.received
        assert received.path == "/hook?x=1"
        assert received.headers["content-type"] == "application/json"
        assert received.headers["host"] == f"127.0.0.1:{site.endpoint.port}"
        body = received.json
        assert body.keys() == {"type", "timestamp", "data"}
        assert (body["type"], body["timestamp"]) == ("job.finished", "2027-01-15T08:00:00.000Z")
        data = {"job": "job_1", "password": "***", "note": "token=***", "project": PROJECT}
        assert body["data"] == data
        reference = Reference(issued.secret)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                type(reference), "_Webhook__verify_timestamp", lambda *_: clock_time(clock)
            )
            assert reference.verify(received.body, received.headers) == body
            with pytest.raises(WebhookVerificationError):
                Reference("whsec_" + "A" * 32).verify(received.body, received.headers)
        [delivery] = await site.hooks.deliveries(issued.webhook.id)
        assert (delivery.attempts, delivery.error, delivery.done_at) == (1, "", store.now())
        await site.step()
        assert len(site.endpoint.received) == 1


def clock_time(clock: VirtualClock) -> datetime:
    return datetime.fromtimestamp(int(clock.now()), UTC)


async def test_two_secrets_sign_while_one_replaces_the_other(
    store: Store, clock: VirtualClock
) -> None:
    async with open_site(store, clock) as site:
        issued = await site.add()
        await site.hooks.rotate(issued.webhook.id, BY)
        await write(store, job_event(store, 1))
        await site.step()
        [received] = site.endpoint.received
        assert len(received.headers["webhook-signature"].split()) == 2


async def test_a_failed_delivery_is_tried_again_and_then_given_up(
    store: Store, clock: VirtualClock
) -> None:
    async with open_site(store, clock) as site:
        issued = await site.add()
        await write(store, job_event(store, 1))
        site.endpoint.answers = [500, 302, *[503] * (len(RETRY_SECONDS) - 1)]
        await site.step()
        for n, pause in enumerate(RETRY_SECONDS):
            [delivery] = await site.hooks.deliveries(issued.webhook.id)
            assert (delivery.attempts, delivery.done_at) == (n + 1, None)
            assert pause <= delivery.due_at - store.now() <= 1.2 * pause
            site.later(pause - 1)
            await site.step()
            assert len(site.endpoint.received) == n + 1
            site.later(0.2 * pause + 1)
            await site.step()
            assert len(site.endpoint.received) == n + 2
        [delivery] = await site.hooks.deliveries(issued.webhook.id)
        assert delivery.done_at == store.now()
        assert delivery.error == "HTTP 503: because ?[31m"
        assert len({received.headers["webhook-id"] for received in site.endpoint.received}) == 1
        again = await site.hooks.resend(issued.webhook.id, delivery.id, BY)
        await site.step()
        assert site.endpoint.received[-1].body == site.endpoint.received[0].body
        newest, oldest = await site.hooks.deliveries(issued.webhook.id)
        assert (newest.id, newest.done_at, oldest.id) == (again.id, store.now(), delivery.id)
        assert await site.hooks.deliveries(issued.webhook.id, before=newest.id) == [oldest]
        with pytest.raises(NotFound):
            await site.hooks.resend(issued.webhook.id, 10**6, BY)


async def test_an_endpoint_says_how_long_to_wait(store: Store, clock: VirtualClock) -> None:
    async with open_site(store, clock) as site:
        issued = await site.add()
        site.endpoint.answers, site.endpoint.extra = [429], "retry-after: 77\r\n"
        await site.hooks.test(issued.webhook.id, BY)
        await site.step()
        [delivery] = await site.hooks.deliveries(issued.webhook.id)
        assert delivery.due_at == store.now() + 77
        assert site.endpoint.types == ["webhook.test"]


async def test_an_endpoint_that_is_gone_is_disabled(store: Store, clock: VirtualClock) -> None:
    async with open_site(store, clock) as site:
        issued = await site.add()
        await write(store, *(job_event(store, n) for n in range(9)))
        site.endpoint.answers = [410] * 9
        await site.step()
        hook = await site.hooks.get(issued.webhook.id)
        assert hook.state is WebhookState.DISABLED
        assert len(site.endpoint.received) <= 4
        left = await site.hooks.deliveries(issued.webhook.id)
        assert len(left) == 9
        assert all(delivery.done_at for delivery in left)
        [event] = await events(store, "webhook.changed")
        assert "410" in event.data["reason"]
        await write(store, job_event(store, 10))
        await site.step()
        with pytest.raises(Conflict, match="disabled"):
            await site.hooks.test(issued.webhook.id, BY)
        await site.hooks.edit(issued.webhook.id, BY, state="active")
        site.endpoint.answers = []
        await write(store, job_event(store, 11))
        await site.step()
        assert site.endpoint.received[-1].json["data"]["job"] == "job_11"


async def test_each_event_is_one_delivery_by_any_reader(
    store: Store, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_feed, "PAGE", 3)
    async with open_site(store, clock) as site:
        endpoints = [await site.add(["job.*"]), await site.add(["job.finished"], "all")]
        feeds = [WebhookFeed(store, clock) for _ in range(3)]
        for n in range(20):
            await write(store, job_event(store, n), event_of("host.added", 1.0, PROJECT, {}))
            await asyncio.gather(*(feed.step() for feed in feeds[: n % 3 + 1]))
        for feed in feeds:
            while await feed.step() == 0.0:
                pass
        for issued in endpoints:
            made = await site.hooks.deliveries(issued.webhook.id)
            assert len(made) == 20
            await site.step()
        ids = [received.headers["webhook-id"] for received in site.endpoint.received]
        assert (len(ids), len(set(ids))) == (40, 40)


async def test_a_crash_between_read_and_commit_loses_nothing(
    store: Store, clock: VirtualClock
) -> None:
    async with open_site(store, clock) as site:
        issued = await site.add()
        await write(store, job_event(store, 1))
        [hook] = await store.read(lambda: webhook_scripts.active(WebhookDirection.OUT))
        await site.feed.step()
        # A process that read the same events before commits too late.
        assert not await pass_events(store, hook)
        assert len(await site.hooks.deliveries(issued.webhook.id)) == 1
        # A process claims the delivery and dies.
        claimed = await store.run(
            lambda _d, _i, now: webhook_scripts.claim(
                now, webhook_id=hook.id, owner="dead", until=now + CLAIM_SECONDS, limit=9
            )
        )
        await site.step()
        assert site.endpoint.received == []
        site.later(CLAIM_SECONDS + 1)
        await site.step()
        assert len(site.endpoint.received) == 1
        # What the dead process writes after all changes nothing.
        await store.run(
            lambda *_: webhook_scripts.end_delivery(claimed[0], done_at=None, due_at=0, error="x")
        )
        [delivery] = await site.hooks.deliveries(issued.webhook.id)
        assert (delivery.done_at, delivery.error) == (store.now(), "")


async def pass_events(store: Store, hook: Webhook) -> bool:
    return await store.run(
        lambda dialect, ids, now: webhook_scripts.pass_events(
            dialect, ids, now, webhook=hook, position=hook.position or "", payloads=["{}"]
        )
    )


async def test_unwanted_events_move_the_position_now_and_then(
    store: Store, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_feed, "KEPT_EVENTS", 10)
    monkeypatch.setattr(webhook_feed, "PAGES", 2)
    async with open_site(store, clock) as site:
        issued = await site.add(["job.finished"])
        position = issued.webhook.position
        await site.step()
        hook = await site.hooks.get(issued.webhook.id)
        assert hook.position != position, "the first round stores it"
        position = hook.position
        for _ in range(9):
            await write(store, event_of("host.added", 1.0, PROJECT, {}))
            await site.step()
            assert (await site.hooks.get(issued.webhook.id)).position == position
        await write(store, event_of("host.added", 1.0, PROJECT, {}))
        await site.step()
        assert (await site.hooks.get(issued.webhook.id)).position == str(await store.feed.head())
        await write(store, job_event(store, 1, "shop"))
        await site.step()
        assert (await site.hooks.get(issued.webhook.id)).position != str(await store.feed.head())
        site.later(webhook_feed.KEPT_SECONDS)
        await site.step()
        assert (await site.hooks.get(issued.webhook.id)).position == str(await store.feed.head())
        assert site.feed._passed.keys() == {issued.webhook.id}
        await site.hooks.remove(issued.webhook.id, BY)
        await site.step()
        assert site.feed._passed == {}


async def test_an_endpoint_that_is_far_behind_waits_and_skips_what_is_gone(
    store: Store, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_feed, "WAITING_MAX", 1)
    async with open_site(store, clock) as site:
        issued = await site.add()
        site.endpoint.answers = [500]
        await write(store, job_event(store, 1))
        await site.step()
        await write(store, job_event(store, 2))
        await site.step()
        assert len(await site.hooks.deliveries(issued.webhook.id)) == 1
        await store.feed.new_epoch()
        await write(store, job_event(store, 3))
        site.later(10)
        await site.step()
        assert site.endpoint.types == ["job.finished"] * 2
        await site.step()
        [skipped] = await events(store, "webhook.skipped")
        assert skipped.data["reason"] == "epoch"
        await write(store, job_event(store, 4))
        await site.step()
        assert site.endpoint.received[-1].json["data"]["job"] == "job_4"


async def test_a_slow_endpoint_delays_no_other(store: Store, clock: VirtualClock) -> None:
    async with open_site(store, clock) as site, open_endpoint() as slow:
        slow.holds.clear()
        await site.hooks.add_endpoint(PROJECT, slow.url, BY)
        await site.add()
        await write(store, *(job_event(store, n) for n in range(9)))
        await site.feed.step()
        await site.sender.step()
        await site.endpoint.has_received(9)
        assert len(slow.received) <= 4
        slow.holds.set()
        await site.sender.settle()
        assert len(slow.received) == 9


async def test_a_large_event_is_shortened(store: Store, clock: VirtualClock) -> None:
    async with open_site(store, clock) as site:
        await site.add()
        await write(store, job_event(store, 1, detail="x" * BODY_BYTES_MAX, reason="why"))
        await site.step()
        [received] = site.endpoint.received
        assert len(received.body) < BODY_BYTES_MAX
        data = {"job": "job_1", "reason": "why", "project": PROJECT, "omitted": ["detail"]}
        assert received.json["data"] == data


async def test_no_answer_is_a_failure(store: Store, clock: VirtualClock) -> None:
    async with open_endpoint() as endpoint:
        endpoint.holds.clear()
        http = WebhookHttp(HERE, timeout_seconds=0.05)
        attempt = await http.send(endpoint.url, {}, b"{}")
        assert attempt.error == "no answer within 0.05 s"
        url = endpoint.url
        endpoint.holds.set()
        await http.close()
    http = WebhookHttp(HERE)
    attempt = await http.send(url, {}, b"{}")
    assert "ConnectError" in attempt.error
    await http.close()


async def test_the_address_is_checked_after_it_is_resolved_and_pinned() -> None:
    asked: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return {"inner.example": ["127.0.0.1"], "mixed.example": ["8.8.8.8", "10.0.0.1"]}[host]

    http = WebhookHttp(AddressRules(), resolver=resolve)
    for host in ("inner.example", "mixed.example"):
        attempt = await http.send(f"https://{host}/", {}, b"{}")
        assert "no public address" in attempt.error
    assert asked == ["inner.example", "mixed.example"]
    await http.close()


async def test_the_certificate_is_that_of_the_name(tmp_path: Path) -> None:
    ca = make_ca(tmp_path)
    own = make_certificate(tmp_path, ca, "server")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(own.certificate, own.key)

    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    trusted = ssl.create_default_context(cafile=str(ca.certificate))
    async with open_endpoint(tls) as endpoint:
        rules = AddressRules(["localhost", "other.example"])
        http = WebhookHttp(rules, resolver=resolve, verify=trusted)
        attempt = await http.send(f"https://localhost:{endpoint.port}/a", {}, b"{}")
        assert attempt.error == ""
        assert endpoint.received[0].headers["host"] == f"localhost:{endpoint.port}"
        attempt = await http.send(f"https://other.example:{endpoint.port}/a", {}, b"{}")
        assert "certificate" in attempt.error.lower()
        await http.close()


async def test_an_event_is_signed_with_the_keys_that_count(
    store: Store, clock: VirtualClock
) -> None:
    async with open_site(store, clock) as site:
        issued = await site.hooks.add_endpoint(
            PROJECT, site.endpoint.url, BY, method=SignatureMethod.ED25519
        )
        assert issued.secret == ""
        rotated = await site.hooks.rotate(issued.webhook.id, BY)
        public = signature.public_keys(rotated.webhook.secrets)
        assert public[1:] == signature.public_keys(issued.webhook.secrets)
        await write(store, job_event(store, 1))
        await site.step()
        [received] = site.endpoint.received
        signed = signature.read_headers(received.headers)
        assert signed is not None
        assert [text[:4] for text in signed.signatures.split()] == ["v1a,", "v1a,"]
        for key in public:
            verifiers = keys.verifiers_of([key])
            signature.verify(
                signed, received.body, secrets=(), now=store.now(), verifiers=verifiers
            )


async def test_a_late_410_says_nothing_about_an_endpoint_that_was_edited(
    store: Store, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_site(store, clock) as site:
        made = await site.add()
        old = made.webhook.url

        async def send(url: str, headers: object, body: bytes) -> Attempt:
            if url != old:
                return Attempt(DeliveryVerdict.DELIVERED)
            await site.hooks.edit(made.webhook.id, BY, url=f"{old}&new=1")
            return Attempt(DeliveryVerdict.GONE, "HTTP 410")

        monkeypatch.setattr(site.http, "send", send)
        await write(store, job_event(store, 1))
        await site.step()
        assert (await site.hooks.get(made.webhook.id)).state is WebhookState.ACTIVE
        site.later(2 * RETRY_SECONDS[0])
        await site.step()
        [delivery] = await site.hooks.deliveries(made.webhook.id)
        assert (delivery.attempts, delivery.error) == (2, "")
        assert delivery.done_at is not None
