"""Use cases of webhooks: sources of signed requests, and endpoints that get events.

Promises: a secret is returned once, by the call that makes it. While one secret replaces another both count.
A request is accepted only under a signature of an active source, within the tolerance. A request whose
`webhook-id` was answered within a day gets that answer. Never: logs a secret, or shows one again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from holdfast.core import codec
from holdfast.core.access import ALL_PROJECTS
from holdfast.core.check import check_choice, check_page
from holdfast.core.errors import BadSignature
from holdfast.core.fleet.model import (
    WEBHOOK_PREFIX,
    OutboxEntry,
    Webhook,
    WebhookDirection,
    WebhookState,
)
from holdfast.core.fleet.webhooks import signature
from holdfast.core.fleet.webhooks.address import AddressRules
from holdfast.core.fleet.webhooks.rules import WebhookMessage, check_kinds
from holdfast.core.fleet.webhooks.signature import SignatureMethod
from holdfast.core.wire import WHOLE_MAX, check_new_id, check_project, time_text
from holdfast.errors import InvalidInput, MissingExtra
from holdfast.fleet.webhooks import figures, keys, scripts
from holdfast.metrics import Meter, NullMeter
from holdfast.queue.by import By
from holdfast.store.backends import secret_ids
from holdfast.store.store import Store
from holdfast.sync.access.recorded import Repeatable

ANSWER_SECONDS: Final = 86_400.0
"""How long the answer to a `webhook-id` is kept."""
TEST_KIND: Final = "webhook.test"


class IssuedWebhook(NamedTuple):
    """A webhook with its newest secret, which is not readable again."""

    webhook: Webhook
    secret: str
    """Empty with ed25519: the public key is readable, and the private one never leaves the server."""


class Incoming(NamedTuple):
    """A request with a valid signature."""

    source: Webhook
    message_id: str
    body_sha256: str

    @property
    def principal(self) -> str:
        return scripts.SOURCE_ACTOR + self.source.name

    def repeatable(self, operation: str, owner: str) -> Repeatable:
        """The entry of the request's `webhook-id`, for the transaction of its effect."""
        request = {"body": self.body_sha256}
        return Repeatable(
            f"webhook:{self.source.name}",
            operation,
            self.message_id,
            request,
            owner,
            answer_seconds=ANSWER_SECONDS,
        )


class Webhooks:
    """The use cases of webhooks."""

    def __init__(
        self,
        store: Store,
        rules: AddressRules | None = None,
        *,
        tolerance_seconds: float = signature.TOLERANCE_SECONDS,
        meter: Meter | None = None,
    ) -> None:
        self._meter: Meter = NullMeter() if meter is None else meter
        self._store = store
        self._rules = rules or AddressRules()
        self._tolerance_seconds = tolerance_seconds
        self._secrets = secret_ids()

    # -- changes -----------------------------------------------------------------------------------

    async def add_source(
        self, project: str, name: str, by: By, *, public_key: str | None = None
    ) -> IssuedWebhook:
        """A sender of requests of a project, under a name that no other source of the store has.
        `public_key`: the sender signs with ed25519, and no secret is made."""
        check_project("project", project)
        checked = check_new_id("name", name)
        secret = self._secret_of(WebhookDirection.IN, SignatureMethod.HMAC, public_key)
        return await self._add(project, WebhookDirection.IN, checked, by, secret=secret)

    async def add_endpoint(
        self,
        project: str,
        url: str,
        by: By,
        *,
        kinds: Sequence[str] = (),
        name: str = "",
        method: SignatureMethod = SignatureMethod.HMAC,
    ) -> IssuedWebhook:
        """An address that gets events of a project, or of all (`all`), from now on."""
        if project != ALL_PROJECTS:
            check_project("project", project)
        self._rules.parse(url)
        chosen = check_kinds(kinds)
        if name:
            check_new_id("name", name)
        secret = self._secret_of(WebhookDirection.OUT, method, None)
        return await self._add(
            project, WebhookDirection.OUT, name, by, secret=secret, url=url, kinds=chosen
        )

    async def _add(
        self,
        project: str,
        direction: WebhookDirection,
        name: str,
        by: By,
        *,
        secret: str,
        url: str = "",
        kinds: Sequence[str] = (),
    ) -> IssuedWebhook:
        by.of_unversioned("a new webhook")
        now = self._store.now()
        webhook_id = WEBHOOK_PREFIX + self._store.ids.task(now).replace("-", "")
        is_out = direction is WebhookDirection.OUT
        webhook = Webhook(
            id=webhook_id,
            project=project,
            direction=direction,
            name=name or webhook_id,
            url=url,
            kinds_json=codec.dumps(list(kinds)),
            secrets_json=codec.dumps([secret]),
            position=str(await self._store.feed.head()) if is_out else None,
            created_by=by.actor,
            created_at=now,
        )
        return IssuedWebhook(
            await self._store.run(partial(scripts.add, webhook=webhook, by=by)), _shown(secret)
        )

    async def edit(
        self,
        webhook_id: str,
        by: By,
        *,
        url: str | None = None,
        kinds: Sequence[str] | None = None,
        state: str | None = None,
    ) -> Webhook:
        """Changes fields. None leaves a field as it is. One that is disabled accepts no requests and gets no
        events, those that happen meanwhile neither."""
        fields: dict[str, object] = {}
        is_source = (await self.get(webhook_id)).direction is WebhookDirection.IN
        if is_source and (url is not None or kinds is not None):
            raise InvalidInput("a source has no url and no kinds: leave them out")
        if url is not None:
            self._rules.parse(url)
            fields["url"] = url
        if kinds is not None:
            fields["kinds_json"] = codec.dumps(list(check_kinds(kinds)))
        if state is not None:
            fields["state"] = check_choice("state", state, WebhookState)
        head = str(await self._store.feed.head())
        return await self._store.run(
            partial(scripts.change, webhook_id=webhook_id, fields=fields, head=head, by=by)
        )

    async def rotate(
        self,
        webhook_id: str,
        by: By,
        *,
        public_key: str | None = None,
        method: SignatureMethod | None = None,
    ) -> IssuedWebhook:
        """Makes another secret, or takes another public key of a source. The one before counts too, until
        `retire`; older ones do not. `method`: of an endpoint, if it changes."""
        webhook = await self.get(webhook_id)
        known = signature.method_of(webhook.secrets[0])
        secret = self._secret_of(webhook.direction, method or known, public_key)
        script = partial(scripts.rotate, webhook_id=webhook_id, secret=secret, by=by)
        return IssuedWebhook(await self._store.run(script), _shown(secret))

    async def retire(self, webhook_id: str, by: By) -> Webhook:
        """Ends a rotation: only the newest secret counts. A second call changes nothing."""
        return await self._store.run(partial(scripts.retire, webhook_id=webhook_id, by=by))

    async def remove(self, webhook_id: str, by: By) -> Webhook:
        """Returns the webhook as it was."""
        return await self._store.run(partial(scripts.remove, webhook_id=webhook_id, by=by))

    # -- reads -------------------------------------------------------------------------------------

    async def get(self, webhook_id: str) -> Webhook:
        """NotFound if there is none."""
        return await self._store.read(lambda: scripts.read(webhook_id))

    async def deliveries(
        self, webhook_id: str, *, before: int | None = None, limit: int = 100
    ) -> list[OutboxEntry]:
        """One page of the deliveries of an endpoint, the newest first. `before`: the last id of the page
        before."""
        check_page(limit)
        start = WHOLE_MAX if before is None else before
        return await self._store.read(lambda: scripts.deliveries(webhook_id, start, limit))

    async def list(
        self,
        *,
        projects: Sequence[str] | None = None,
        direction: str | None = None,
        after: str = "",
        limit: int = 100,
    ) -> list[Webhook]:
        """One page by time of creation. `after`: the last id of the page before."""
        check_page(limit)
        if direction is not None:
            direction = check_choice("direction", direction, WebhookDirection).value
        return await self._store.read(lambda: scripts.page(projects, direction, after, limit))

    # -- deliveries --------------------------------------------------------------------------------

    async def resend(self, webhook_id: str, delivery_id: int, by: By) -> OutboxEntry:
        """Delivers a message again, under its id. It is a new delivery."""
        by.of_unversioned("a delivery")
        entry = await self._store.read(lambda: scripts.read_delivery(webhook_id, delivery_id))
        message = read_message(entry)
        again = WebhookMessage(message.id, message.type, message.body, delivery_id)
        return await self._deliver(webhook_id, again, by)

    async def test(self, webhook_id: str, by: By) -> OutboxEntry:
        """Delivers an event of kind `webhook.test`."""
        by.of_unversioned("a delivery")
        now = self._store.now()
        data = {"webhook": webhook_id, "actor": by.actor}
        body = codec.dumps({"type": TEST_KIND, "timestamp": time_text(now), "data": data})
        name = "msg_" + self._store.ids.task(now).replace("-", "")
        return await self._deliver(webhook_id, WebhookMessage(name, TEST_KIND, body), by)

    async def _deliver(self, webhook_id: str, message: WebhookMessage, by: By) -> OutboxEntry:
        text = write_message(message)
        return await self._store.run(
            lambda _dialect, _ids, now: scripts.deliver(
                now, webhook_id=webhook_id, payload_json=text, by=by
            )
        )

    # -- requests ----------------------------------------------------------------------------------

    async def authenticate(
        self, headers: Mapping[str, str], body: bytes, *, source: str | None = None
    ) -> Incoming:
        """The source whose secret signed the request. BadSignature if there is none. `source`: the name that
        the request gives; without it all active sources are tried."""
        signed = signature.read_headers(headers)
        if signed is None:
            raise BadSignature("the request has no signature: send a token, or sign it as a source")
        sources = await self._store.read(lambda: scripts.active(WebhookDirection.IN, source))
        refusal = BadSignature(signature.UNSIGNED)
        missing: MissingExtra | None = None
        for candidate in sources:
            try:
                message_id = signature.verify(
                    signed,
                    body,
                    secrets=candidate.secrets,
                    now=self._store.now(),
                    tolerance_seconds=self._tolerance_seconds,
                    verifiers=keys.verifiers_of(candidate.secrets),
                )
            except BadSignature as error:
                refusal = error
            except MissingExtra as error:
                # Of one source, which others need not wait for.
                missing = error
            else:
                figures.count_in(self._meter, is_accepted=True)
                return Incoming(candidate, message_id, hashlib.sha256(body).hexdigest())
        figures.count_in(self._meter, is_accepted=False)
        raise missing or refusal

    def _secret_of(
        self, direction: WebhookDirection, method: SignatureMethod, public_key: str | None
    ) -> str:
        """A new secret or key, or the public key that a source has given."""
        if public_key is not None:
            if direction is WebhookDirection.OUT:
                raise InvalidInput("an endpoint gets its key here: leave public_key out")
            return keys.check_public_key(public_key)
        raw = bytes.fromhex(self._secrets.secret() + self._secrets.secret())
        if method is SignatureMethod.HMAC:
            return signature.make_secret(raw)
        if direction is WebhookDirection.IN:
            raise InvalidInput("a source that signs with ed25519 has its key: give public_key")
        return keys.make_private_key(raw)


def _shown(secret: str) -> str:
    """What the answer that makes it shows."""
    return secret if signature.method_of(secret) is SignatureMethod.HMAC else ""


def write_message(message: WebhookMessage) -> str:
    return codec.dumps(
        {
            "id": message.id,
            "type": message.type,
            "body": message.body,
            "resent_of": message.resent_of,
        }
    )


def read_message(entry: OutboxEntry) -> WebhookMessage:
    value = codec.loads_object(entry.payload_json)
    return WebhookMessage(value["id"], value["type"], value["body"], value.get("resent_of"))
