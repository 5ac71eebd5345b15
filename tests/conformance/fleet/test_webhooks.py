"""Sources and endpoints of webhooks, and requests of sources."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from standardwebhooks.webhooks import Webhook as Reference

from holdfast.clock import VirtualClock
from holdfast.core.errors import BadSignature
from holdfast.core.fleet.model import WebhookState
from holdfast.core.fleet.webhooks import signature
from holdfast.core.fleet.webhooks.address import AddressRules
from holdfast.core.fleet.webhooks.rules import KINDS_DEFAULT
from holdfast.errors import (
    BatchTooLarge,
    Conflict,
    IdempotencyConflict,
    InvalidInput,
    MissingExtra,
    NotFound,
    VersionConflict,
)
from holdfast.fleet.webhooks import keys, scripts as webhook_scripts
from holdfast.fleet.webhooks.webhooks import Incoming, Webhooks
from holdfast.queue.by import By
from holdfast.store.audit import AuditStore
from holdfast.store.script import Script
from holdfast.store.store import Store
from holdfast.sync.access.recorded import Recorded, Replayed
from holdfast.sync.access.tokens import Tokens
from tests.conformance.fleet.support import BY, PROJECT, audited, events

URL = "https://hooks.example/x"


def signed(secret: str, now: float, body: bytes, message: str = "msg_1") -> dict[str, str]:
    """The headers of a request, by the reference."""
    at = datetime.fromtimestamp(now, UTC)
    signature = Reference(secret).sign(message, at, body.decode())
    return {
        "webhook-id": message,
        "webhook-timestamp": str(int(now)),
        "webhook-signature": signature,
    }


async def test_a_source_is_known_by_its_signature(store: Store, clock: VirtualClock) -> None:
    hooks = Webhooks(store)
    issued = await hooks.add_source(PROJECT, "ci", audited("webhook:ci"))
    other = await hooks.add_source("shop", "other", BY)
    assert issued.secret.startswith("whsec_")
    body = b'{"a": 1}'
    now = store.now()
    headers = signed(issued.secret, now, body)
    for source in ("ci", None):
        incoming = await hooks.authenticate(headers, body, source=source)
        assert (incoming.source.id, incoming.message_id) == (issued.webhook.id, "msg_1")
        assert incoming.principal == "webhook:ci"
    for wrong_source, wrong_headers, wrong_body in (
        ("other", headers, body),
        ("none", headers, body),
        ("ci", headers, body + b" "),
        ("ci", headers | {"webhook-id": "msg_2"}, body),
        ("ci", signed(other.secret, now, body), body),
        ("ci", {}, body),
    ):
        with pytest.raises(BadSignature):
            await hooks.authenticate(wrong_headers, wrong_body, source=wrong_source)
    for seconds in (-301.0, 301.0):
        with pytest.raises(BadSignature, match="301 s"):
            await hooks.authenticate(signed(issued.secret, now + seconds, body), body, source="ci")
    assert (await AuditStore(store).after(0, 10))[0].subject == "webhook:ci"
    [added, _] = await events(store)
    assert added.data["name"] == "ci"
    assert issued.secret not in str(added.data)


async def test_those_that_got_the_secret_of_a_source_are_related_to_it(store: Store) -> None:
    """They may not approve what it asks for."""
    hooks, tokens = Webhooks(store), Tokens(store)
    source = await hooks.add_source(PROJECT, "ci", By("user:ann"))
    assert await tokens.are_related("user:ann", "webhook:ci")
    assert not await tokens.are_related("user:bob", "webhook:ci")
    await hooks.rotate(source.webhook.id, By("user:bob"))
    assert await tokens.are_related("user:bob", "webhook:ci")
    assert not await tokens.are_related("user:bob", "user:ann")


async def test_two_secrets_count_while_one_replaces_the_other(store: Store) -> None:
    hooks = Webhooks(store)
    first = await hooks.add_source(PROJECT, "ci", BY)
    second = await hooks.rotate(first.webhook.id, BY)
    body = b"{}"

    async def counts(secret: str) -> bool:
        try:
            await hooks.authenticate(signed(secret, store.now(), body), body, source="ci")
        except BadSignature:
            return False
        return True

    assert [await counts(first.secret), await counts(second.secret)] == [True, True]
    third = await hooks.rotate(first.webhook.id, By("user:ann", expected_version=2))
    secrets = (first.secret, second.secret, third.secret)
    assert [await counts(secret) for secret in secrets] == [False, True, True]
    retired = await hooks.retire(first.webhook.id, BY)
    assert [await counts(secret) for secret in secrets] == [False, False, True]
    assert await hooks.retire(first.webhook.id, BY) == retired
    await hooks.edit(first.webhook.id, BY, state="disabled")
    assert not await counts(third.secret)
    await hooks.edit(first.webhook.id, BY, state="active")
    assert await counts(third.secret)
    with pytest.raises(VersionConflict):
        await hooks.rotate(first.webhook.id, By("user:ann", expected_version=1))
    await hooks.remove(first.webhook.id, BY)
    assert not await counts(third.secret)
    with pytest.raises(NotFound):
        await hooks.get(first.webhook.id)


async def test_a_repeated_request_gets_the_answer_that_was_kept(
    store: Store, clock: VirtualClock
) -> None:
    hooks = Webhooks(store)
    issued = await hooks.add_source(PROJECT, "ci", BY)
    effects: list[int] = []

    async def request(body: bytes, message: str = "msg_1") -> object:
        headers = signed(issued.secret, store.now(), body, message)
        return await act(store, await hooks.authenticate(headers, body, source="ci"), effects)

    assert await request(b"1") == {"n": 1}
    with pytest.raises(Replayed) as replayed:
        await request(b"1")
    assert replayed.value.answer == {"n": 1}
    with pytest.raises(IdempotencyConflict):
        await request(b"2")
    assert await request(b"2", "msg_2") == {"n": 2}
    clock.set(clock.now() + 86_401)
    await store.upkeep.prune_entries(now=store.now(), limit=10)
    assert await request(b"1") == {"n": 3}


async def act(store: Store, incoming: Incoming, effects: list[int]) -> object:
    """The effect of a request and the entry of its id, in one transaction."""
    beside = Recorded(
        lambda *_: [],
        repeatable=incoming.repeatable("jobs.create", "req_1"),
        answer=lambda outcome: outcome,
    )

    def script(now: float) -> Script[object]:
        yield from beside.before(now)
        effects.append(1)
        answer = {"n": len(effects)}
        yield from beside.after(answer, now)
        return answer

    return await store.run(lambda _dialect, _ids, now: script(now))


async def test_an_endpoint_is_added_changed_and_removed(store: Store) -> None:
    hooks = Webhooks(store, AddressRules(["10.0.0.0/8", "internal"]))
    issued = await hooks.add_endpoint(PROJECT, URL, audited())
    hook = issued.webhook
    assert (tuple(hook.kinds), hook.name) == (KINDS_DEFAULT, hook.id)
    assert hook.position == str(await store.feed.head()).replace(":1", ":0")
    edited = await hooks.edit(hook.id, BY, url="http://internal:8080", kinds=["job.finished"])
    assert (edited.url, edited.kinds, edited.version) == (
        "http://internal:8080",
        ["job.finished"],
        2,
    )
    assert await hooks.edit(hook.id, BY, kinds=["job.finished"]) == edited
    stopped = await hooks.edit(hook.id, BY, state="disabled")
    assert stopped.state is WebhookState.DISABLED
    resumed = await hooks.edit(hook.id, BY, state="active")
    assert resumed.position != hook.position
    with pytest.raises(VersionConflict):
        await hooks.edit(hook.id, By("user:ann", expected_version=1), state="disabled")
    changed = [e.data["changed"] for e in await events(store, "webhook.changed")]
    assert changed == [["url", "kinds"], ["state"], ["state"]]
    await hooks.remove(hook.id, BY)
    assert await hooks.list() == []


async def test_what_an_endpoint_must_not_be_is_refused(store: Store) -> None:
    hooks = Webhooks(store)
    for url in ("http://hooks.example/", "https://127.0.0.1/", "https://a:b@hooks.example/", "x"):
        with pytest.raises(InvalidInput, match="url"):
            await hooks.add_endpoint(PROJECT, url, BY)
    for kinds in (["job"], ["token.created"], ["task.output"], ["webhook.*"]):
        with pytest.raises(InvalidInput, match="kinds"):
            await hooks.add_endpoint(PROJECT, URL, BY, kinds=kinds)
    source = (await hooks.add_source(PROJECT, "ci", BY)).webhook
    with pytest.raises(InvalidInput, match="a source has no url"):
        await hooks.edit(source.id, BY, url=URL)
    with pytest.raises(Conflict, match="is a source"):
        await hooks.test(source.id, BY)
    with pytest.raises(Conflict, match="source 'ci' exists"):
        await hooks.add_source("shop", "ci", BY)


async def test_lists_have_pages_and_a_bound(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_scripts, "WEBHOOKS_MAX", 2)
    hooks = Webhooks(store)
    one = (await hooks.add_source(PROJECT, "a", BY)).webhook
    two = (await hooks.add_source("shop", "b", BY)).webhook
    out = (await hooks.add_endpoint("all", URL, BY)).webhook
    with pytest.raises(BatchTooLarge):
        await hooks.add_source(PROJECT, "c", BY)
    assert await hooks.list() == [one, two, out]
    assert await hooks.list(limit=1) == [one]
    assert await hooks.list(after=one.id, limit=1) == [two]
    assert await hooks.list(projects=["shop"]) == [two]
    assert await hooks.list(direction="out") == [out]


async def test_a_source_signs_with_a_key_and_changes_to_it_from_a_secret(store: Store) -> None:
    hooks = Webhooks(store)
    first = await hooks.add_source(PROJECT, "ci", BY)
    private = keys.make_private_key(bytes(range(32)))
    [public] = signature.public_keys([private])
    second = await hooks.rotate(first.webhook.id, BY, public_key=public)
    assert (second.secret, second.webhook.secrets[0]) == ("", public)
    body = b"{}"

    async def counts(secret: str) -> bool:
        made = signature.sign(
            [secret], "msg_1", store.now(), body, signers=keys.signers_of([secret])
        )
        try:
            await hooks.authenticate(made.headers(), body, source="ci")
        except BadSignature:
            return False
        return True

    assert [await counts(first.secret), await counts(private)] == [True, True]
    await hooks.retire(first.webhook.id, BY)
    assert [await counts(first.secret), await counts(private)] == [False, True]
    assert not await counts(keys.make_private_key(bytes(32)))
    with pytest.raises(InvalidInput, match="give public_key"):
        await hooks.rotate(first.webhook.id, BY)


async def test_a_source_that_cannot_be_verified_here_stops_no_other(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = Webhooks(store)
    [public] = signature.public_keys([keys.make_private_key(bytes(range(32)))])
    await hooks.add_source(PROJECT, "a-partner", BY, public_key=public)
    ci = await hooks.add_source(PROJECT, "ci", BY)

    def missing() -> None:
        raise MissingExtra("ed25519 needs cryptography")

    monkeypatch.setattr(keys, "check_library", missing)
    headers = signed(ci.secret, store.now(), b"{}")
    assert (await hooks.authenticate(headers, b"{}")).source == ci.webhook
    headers = signed("whsec_" + "A" * 32, store.now(), b"{}")
    with pytest.raises(MissingExtra):
        await hooks.authenticate(headers, b"{}")
