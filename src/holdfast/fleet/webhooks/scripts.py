"""Transactions of webhooks.

Promises: a change of a source or endpoint, its event and what a caller writes beside it (the audit) are one
transaction. Deliveries for an endpoint are added by the transaction that moves its position in the feed, so
each event becomes one delivery. Never: puts a secret into an event.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from holdfast.core import codec
from holdfast.core.fleet.model import OutboxEntry, Webhook, WebhookDirection, WebhookState
from holdfast.core.ids import Ids
from holdfast.errors import BatchTooLarge, Conflict, NotFound
from holdfast.fleet.hosts.scripts import check_version
from holdfast.fleet.rows import OUTBOX, WEBHOOKS, own
from holdfast.queue.by import By
from holdfast.store.beside import begin, end
from holdfast.store.port import Dialect
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts.work import Work
from holdfast.sync.access.scripts import add_holder
from holdfast.sync.rows import event_of

WEBHOOKS_MAX: Final = 100
"""Sources of a store, and endpoints of a store."""
SOURCE_ACTOR: Final = "webhook:"
"""How the name of a principal begins that is a source of signed requests."""
STOPPED: Final = "the endpoint gets no more events"


def add(dialect: Dialect, ids: Ids, now: float, *, webhook: Webhook, by: By) -> Script[Webhook]:
    """Conflict if there is one of the name."""
    yield from begin(by.beside, now)
    direction = webhook.direction.value
    if (yield call(own("count_webhooks"), direction=direction))[0][0] >= WEBHOOKS_MAX:
        raise BatchTooLarge(f"there are {WEBHOOKS_MAX} webhooks of this kind: remove one first")
    webhook = replace(webhook, created_at=now)
    if not (yield call_rows(own("add_webhook"), [WEBHOOKS.row(webhook)])):
        noun = "source" if webhook.direction is WebhookDirection.IN else "endpoint"
        raise Conflict(f"{noun} '{webhook.name}' exists: use another name")
    yield from _add_holder(webhook, by)
    yield from end(by.beside, webhook, now)
    yield from _tell(dialect, ids, now, "webhook.added", webhook, by=by, more={})
    return webhook


def change(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    webhook_id: str,
    fields: dict[str, Any],
    head: str | None,
    by: By,
) -> Script[Webhook]:
    """Changes fields. An endpoint that becomes active again goes on from `head`; what waits for one that is
    disabled is given up."""
    yield from begin(by.beside, now)
    before = yield from _locked(webhook_id)
    check_version(f"webhook '{before.name}'", before.version, by.expected_version)
    after = replace(before, **fields)
    is_out = before.direction is WebhookDirection.OUT
    if is_out and before.state is not after.state and after.state is WebhookState.ACTIVE:
        after = replace(after, position=head)
    if after != before:
        after = replace(after, version=before.version + 1)
        yield call_rows(own("write_webhook"), [WEBHOOKS.row(after)])
        if is_out and after.state is WebhookState.DISABLED:
            yield call(own("end_deliveries"), webhook=webhook_id, now=now, error=STOPPED)
    yield from end(by.beside, after, now)
    if after != before:
        more = {"changed": _changed(before, after), "state": after.state.value}
        yield from _tell(dialect, ids, now, "webhook.changed", after, by=by, more=more)
    return after


def _add_holder(webhook: Webhook, by: By) -> Script[None]:
    """A person who gets the secret of a source may speak in its name."""
    if webhook.direction is WebhookDirection.IN:
        yield from add_holder(SOURCE_ACTOR + webhook.name, by.actor)


def rotate(
    dialect: Dialect, ids: Ids, now: float, *, webhook_id: str, secret: str, by: By
) -> Script[Webhook]:
    """Puts another secret before the newest one, which counts too until it is retired."""
    yield from begin(by.beside, now)
    before = yield from _locked(webhook_id)
    check_version(f"webhook '{before.name}'", before.version, by.expected_version)
    after = with_secrets(before, [secret, *before.secrets[:1]])
    yield call_rows(own("write_webhook"), [WEBHOOKS.row(after)])
    yield from _add_holder(after, by)
    yield from end(by.beside, after, now)
    more = {"changed": ["secrets"], "state": after.state.value}
    yield from _tell(dialect, ids, now, "webhook.changed", after, by=by, more=more)
    return after


def retire(dialect: Dialect, ids: Ids, now: float, *, webhook_id: str, by: By) -> Script[Webhook]:
    """Only the newest secret counts from this commit on."""
    yield from begin(by.beside, now)
    before = yield from _locked(webhook_id)
    check_version(f"webhook '{before.name}'", before.version, by.expected_version)
    after = before
    if len(before.secrets) > 1:
        after = with_secrets(before, before.secrets[:1])
        yield call_rows(own("write_webhook"), [WEBHOOKS.row(after)])
    yield from end(by.beside, after, now)
    if after != before:
        more = {"changed": ["secrets"], "state": after.state.value}
        yield from _tell(dialect, ids, now, "webhook.changed", after, by=by, more=more)
    return after


def remove(dialect: Dialect, ids: Ids, now: float, *, webhook_id: str, by: By) -> Script[Webhook]:
    """Its secrets count no more, and what waits for it is given up."""
    yield from begin(by.beside, now)
    webhook = yield from _locked(webhook_id)
    check_version(f"webhook '{webhook.name}'", webhook.version, by.expected_version)
    yield call(own("end_deliveries"), webhook=webhook_id, now=now, error=STOPPED)
    yield call(own("delete_webhook"), id=webhook_id)
    yield from end(by.beside, webhook, now)
    yield from _tell(dialect, ids, now, "webhook.removed", webhook, by=by, more={})
    return webhook


def deliver(now: float, *, webhook_id: str, payload_json: str, by: By) -> Script[OutboxEntry]:
    """Adds one delivery. Conflict if the endpoint is disabled."""
    yield from begin(by.beside, now)
    webhook = yield from _locked(webhook_id)
    if webhook.direction is WebhookDirection.IN:
        raise Conflict(f"'{webhook.name}' is a source of requests: it gets no events")
    if webhook.state is not WebhookState.ACTIVE:
        raise Conflict(f"endpoint '{webhook.name}' is disabled: enable it first")
    rows = yield call_rows(own("add_deliveries"), [(webhook_id, payload_json)], now=now)
    entry = yield from read_delivery(webhook_id, rows[0][0])
    yield from end(by.beside, entry, now)
    return entry


def pass_events(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    webhook: Webhook,
    position: str,
    payloads: Sequence[str],
    skipped: str = "",
) -> Script[bool]:
    """Moves an endpoint in the feed and adds the deliveries of the events that it passes. False: another
    process has done it, or the endpoint was changed. `skipped`: why events before `position` are missing."""
    moved = yield call(
        own("move_webhook"), id=webhook.id, before=webhook.position, position=position
    )
    if not moved:
        return False
    if payloads:
        rows: list[tuple[Any, ...]] = [(webhook.id, payload) for payload in payloads]
        yield call_rows(own("add_deliveries"), rows, now=now)
    if skipped:
        more = {"reason": skipped, "before": webhook.position, "position": position}
        yield from _tell(dialect, ids, now, "webhook.skipped", webhook, by=None, more=more)
    return True


def read(webhook_id: str) -> Script[Webhook]:
    rows = yield call(own("get_webhook"), id=webhook_id)
    if not rows:
        raise _missing(webhook_id)
    return WEBHOOKS.read(rows[0])


def active(direction: WebhookDirection, name: str | None = None) -> Script[list[Webhook]]:
    """All that are active, or the one of a name."""
    rows = yield call(own("active_webhooks"), direction=direction.value, name=name)
    return WEBHOOKS.read_all(rows)


def page(
    projects: Sequence[str] | None, direction: str | None, after: str, limit: int
) -> Script[list[Webhook]]:
    rows = yield call(
        own("list_webhooks"),
        projects=None if projects is None else list(projects),
        direction=direction,
        after=after,
        limit=limit,
    )
    return WEBHOOKS.read_all(rows)


def deliveries(webhook_id: str, before: int, limit: int) -> Script[list[OutboxEntry]]:
    rows = yield call(own("list_deliveries"), webhook=webhook_id, before=before, limit=limit)
    return OUTBOX.read_all(rows)


def read_delivery(webhook_id: str, delivery_id: int) -> Script[OutboxEntry]:
    rows = yield call(own("get_delivery"), id=delivery_id, webhook=webhook_id)
    if not rows:
        raise NotFound(f"there is no delivery {delivery_id} of webhook {webhook_id}")
    return OUTBOX.read(rows[0])


def count_waiting(webhook_id: str, most: int) -> Script[int]:
    n: int = (yield call(own("count_waiting"), webhook=webhook_id, most=most))[0][0]
    return n


def claim(
    now: float, *, webhook_id: str, owner: str, until: float, limit: int
) -> Script[list[OutboxEntry]]:
    rows = yield call(
        own("claim_deliveries"), webhook=webhook_id, owner=owner, now=now, until=until, limit=limit
    )
    return sorted(OUTBOX.read_all(rows), key=lambda entry: entry.id)


def end_delivery(
    entry: OutboxEntry, *, done_at: float | None, due_at: float, error: str
) -> Script[None]:
    """Writes the outcome of an attempt. `done_at` None: it is tried again at `due_at`."""
    yield call(
        own("end_delivery"),
        id=entry.id,
        attempts=entry.attempts,
        done_at=done_at,
        due_at=due_at,
        error=error,
    )


def next_due() -> Script[float | None]:
    rows = yield call(own("next_delivery"))
    return rows[0][0] if rows else None


def with_secrets(webhook: Webhook, secrets: Sequence[str]) -> Webhook:
    text = codec.dumps(list(secrets))
    return replace(webhook, secrets_json=text, version=webhook.version + 1)


def _locked(webhook_id: str) -> Script[Webhook]:
    rows = yield call(own("lock_webhook"), id=webhook_id)
    if not rows:
        raise _missing(webhook_id)
    return WEBHOOKS.read(rows[0])


def _missing(webhook_id: str) -> NotFound:
    return NotFound(f"there is no webhook {webhook_id}: see the list of webhooks")


def _changed(before: Webhook, after: Webhook) -> list[str]:
    fields = {"url": "url", "kinds_json": "kinds", "state": "state"}
    return [name for key, name in fields.items() if getattr(before, key) != getattr(after, key)]


def _tell(
    dialect: Dialect,
    ids: Ids,
    now: float,
    kind: str,
    webhook: Webhook,
    *,
    by: By | None,
    more: dict[str, Any],
) -> Script[None]:
    work = Work(now)
    data = {
        "webhook": webhook.id,
        "name": webhook.name,
        "direction": webhook.direction.value,
        "actor": "webhooks" if by is None else by.actor,
        **({} if by is None else {"reason": by.reason}),
        **more,
    }
    work.events.append(event_of(kind, now, webhook.project, data))
    yield from work.save(dialect, ids.record(now))
