"""Operations on webhooks: sources of signed requests, and endpoints that get events.

Promises: a secret is in the answer that makes it, and in no other; a repeat of the request gets null.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from holdfast.core.access import ALL_PROJECTS
from holdfast.core.fleet.model import OutboxEntry, Webhook, WebhookState
from holdfast.core.fleet.webhooks.signature import SignatureMethod
from holdfast.core.rights import Operation
from holdfast.core.wire import make_cursor, parse_cursor
from holdfast.errors import InvalidInput, NotFound
from holdfast.fleet.webhooks import views
from holdfast.gateway.operations.call import Answer, Call, missing
from holdfast.gateway.operations.fleet.job_control import OrderBody
from holdfast.gateway.operations.fleet.scope import page, place, project_of
from holdfast.queue.by import By

O: Final = Operation  # noqa: E741
NOUN: Final = "webhook"


class WebhookBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """With a `url`: an endpoint that gets events of these kinds, of a project or of `all`. Without one: a
    source of signed requests of a project, by its name; with a `public_key` (`whpk_…`) it signs with ed25519.
    `signature`: how events for an endpoint are signed."""

    name: str = ""
    url: str | None = None
    kinds: list[str] = []
    public_key: str | None = None
    signature: SignatureMethod = SignatureMethod.HMAC
    project: str | None = None
    reason: str = ""


class RotateBody(OrderBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`public_key`: the next one of a source. `signature`: of an endpoint, if it changes."""

    public_key: str | None = None
    signature: SignatureMethod | None = None


class WebhookChange(OrderBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields to change. What is absent stays as it is."""

    url: str | None = None
    kinds: list[str] | None = None
    state: WebhookState | None = None


async def find(
    call: Call,
    *,
    project: str | None = None,
    direction: str | None = None,
    after: str | None = None,
    limit: int = 100,
) -> Answer:
    """One page by time of creation."""
    call.authorise_any(O.WEBHOOKS_MANAGE)
    projects = None if call.projects is None else sorted(call.projects)
    if project is not None and project != ALL_PROJECTS:
        projects = [project_of(call, O.WEBHOOKS_MANAGE, project)]
    of = f"webhooks {project} {direction}"
    rows = await call.services.fleet.webhooks.list(
        projects=projects, direction=direction, after=place(after, of=of), limit=limit
    )
    items = [views.webhook(row) for row in rows]
    return Answer(page(rows, limit, of=of, key=lambda row: row.id, items=items))


async def get(call: Call, webhook_id: str) -> Answer:
    row = await _known(call, webhook_id)
    return Answer(views.webhook(row), version=row.version)


async def add(call: Call, body: WebhookBody) -> Answer:
    """Adds a source or an endpoint. The answer has its secret, which is not readable again."""
    webhooks = call.services.fleet.webhooks
    if body.url is not None and body.project == ALL_PROJECTS:
        call.authorise_store(O.WEBHOOKS_MANAGE)
        project = ALL_PROJECTS
    else:
        project = project_of(call, O.WEBHOOKS_MANAGE, body.project)
    by = _by(
        call,
        project,
        lambda row: row.id,
        body.reason,
        answer=lambda row: _issued(row, None, 201),
        detail={"name": body.name, "url": body.url},
    )
    if body.url is None:
        if body.kinds:
            raise InvalidInput("kinds belong to an endpoint: give its url, or leave them out")
        if body.signature is SignatureMethod.ED25519 and body.public_key is None:
            raise InvalidInput("a source that signs with ed25519 has its key: give public_key")
        made = await webhooks.add_source(project, body.name, by, public_key=body.public_key)
    else:
        if body.public_key is not None:
            raise InvalidInput("an endpoint gets its key here: leave public_key out")
        made = await webhooks.add_endpoint(
            project, body.url, by, kinds=body.kinds, name=body.name, method=body.signature
        )
    return _issued(made.webhook, made.secret, 201)


async def change(call: Call, webhook_id: str, body: WebhookChange) -> Answer:
    row = await _changeable(call, webhook_id)
    by = _by(call, row.project, row.id, body.reason, answer=_answer, version=body.expected_version)
    with call.preconditions():
        row = await call.services.fleet.webhooks.edit(
            row.id, by, url=body.url, kinds=body.kinds, state=body.state
        )
    return _answer(row)


async def remove(call: Call, webhook_id: str, *, reason: str = "") -> Answer:
    row = await _changeable(call, webhook_id)
    by = _by(call, row.project, row.id, reason, answer=_answer)
    with call.preconditions():
        return _answer(await call.services.fleet.webhooks.remove(row.id, by))


async def rotate(call: Call, webhook_id: str, body: RotateBody) -> Answer:
    """Makes another secret or key. The one before counts too, until it is retired."""
    row = await _changeable(call, webhook_id)
    by = _by(
        call,
        row.project,
        row.id,
        body.reason,
        answer=lambda row: _issued(row, None, 200),
        version=body.expected_version,
        detail={"rotated": True},
    )
    with call.preconditions():
        made = await call.services.fleet.webhooks.rotate(
            row.id, by, public_key=body.public_key, method=body.signature
        )
    return _issued(made.webhook, made.secret, 200)


async def retire(call: Call, webhook_id: str, body: OrderBody) -> Answer:
    """Ends a rotation: only the newest secret counts."""
    row = await _changeable(call, webhook_id)
    by = _by(call, row.project, row.id, body.reason, answer=_answer, version=body.expected_version)
    with call.preconditions():
        return _answer(await call.services.fleet.webhooks.retire(row.id, by))


async def deliveries(
    call: Call, webhook_id: str, *, after: str | None = None, limit: int = 100
) -> Answer:
    """One page of the messages for an endpoint, the newest first."""
    row = await _known(call, webhook_id)
    of = f"deliveries {row.id}"
    before = None
    if after is not None:
        values = parse_cursor(after, of=of)
        if len(values) != 1 or not isinstance(values[0], int):
            raise InvalidInput("after is not a cursor of this list: give one that it gave")
        before = values[0]
    found = await call.services.fleet.webhooks.deliveries(row.id, before=before, limit=limit)
    following = make_cursor((found[-1].id,), of=of) if len(found) == limit else None
    return Answer({"items": [views.delivery(entry) for entry in found], "next": following})


async def resend(call: Call, webhook_id: str, delivery_id: str, body: OrderBody) -> Answer:
    """Delivers a message again, under its id."""
    row = await _changeable(call, webhook_id)
    if not delivery_id.isdecimal() or len(delivery_id) > 15:
        raise missing("delivery", delivery_id)
    by = _delivery_by(call, row, body)
    return _queued(await call.services.fleet.webhooks.resend(row.id, int(delivery_id), by))


async def test(call: Call, webhook_id: str, body: OrderBody) -> Answer:
    """Delivers an event of kind `webhook.test`."""
    row = await _changeable(call, webhook_id)
    return _queued(await call.services.fleet.webhooks.test(row.id, _delivery_by(call, row, body)))


# -- parts -------------------------------------------------------------------------------------------


async def _known(call: Call, webhook_id: str) -> Webhook:
    call.authorise_any(O.WEBHOOKS_MANAGE)
    try:
        row = await call.services.fleet.webhooks.get(webhook_id)
    except NotFound:
        raise missing(NOUN, webhook_id) from None
    call.authorise(O.WEBHOOKS_MANAGE, project=row.project, noun=NOUN, id=webhook_id)
    return row


async def _changeable(call: Call, webhook_id: str) -> Webhook:
    await call.check_answered(O.WEBHOOKS_MANAGE)
    return await _known(call, webhook_id)


def _delivery_by(call: Call, row: Webhook, body: OrderBody) -> By:
    return _by(
        call, row.project, row.id, body.reason, answer=_queued, version=body.expected_version
    )


def _by(
    call: Call,
    project: str,
    subject: str | Callable[[Webhook], str],
    reason: str,
    *,
    answer: Callable[[Any], Answer],
    version: int | None = None,
    detail: object = None,
) -> By:
    return call.by(
        O.WEBHOOKS_MANAGE,
        project=project,
        subject=subject,
        actor=call.authorise(O.WEBHOOKS_MANAGE, project=project).actor,
        reason=reason,
        expected_version=version,
        answer=answer,
        detail=detail,
    )


def _answer(row: Webhook) -> Answer:
    return Answer(views.webhook(row), version=row.version)


def _issued(row: Webhook, secret: str | None, status: int) -> Answer:
    return Answer(views.issued(row, secret or None), status, row.version, secret=bool(secret))


def _queued(entry: OutboxEntry) -> Answer:
    return Answer(views.delivery(entry), 202)
