"""The JSON form of webhooks and deliveries (`client.webhook_models`). Never: a secret, but a new one."""

from __future__ import annotations

from typing import Any

from holdfast.client import webhook_models as models
from holdfast.core.fleet.model import OutboxEntry, Webhook
from holdfast.core.fleet.webhooks.signature import method_of, public_keys
from holdfast.core.wire import preview
from holdfast.fleet.webhooks.webhooks import read_message
from holdfast.queue.views import View, at, shown


def webhook(of: Webhook) -> View:
    return shown(models.WebhookView(**_webhook(of)))


def issued(of: Webhook, secret: str | None) -> View:
    """`secret` None: it was shown before, or there is none."""
    return shown(models.IssuedWebhook(**_webhook(of), secret=secret))


def _webhook(of: Webhook) -> dict[str, Any]:
    return {
        "id": of.id,
        "project": of.project,
        "direction": of.direction.value,
        "name": of.name,
        "url": of.url,
        "kinds": of.kinds,
        "state": of.state.value,
        "secrets": len(of.secrets),
        "signature": method_of(of.secrets[0]).value,
        "public_keys": public_keys(of.secrets),
        "created_by": of.created_by,
        "created_at": at(of.created_at),
        "version": of.version,
    }


def delivery(of: OutboxEntry) -> View:
    """A delivery in a list. Its body is cut."""
    message = read_message(of)
    state = "waiting"
    if of.done_at is not None:
        state = "failed" if of.error else "done"
    return shown(
        models.DeliveryView(
            id=of.id,
            webhook_id=of.subject,
            message_id=message.id,
            type=message.type,
            state=state,
            attempts=of.attempts,
            error=of.error,
            created_at=at(of.created_at),
            due_at=at(of.due_at) if of.done_at is None else None,
            done_at=at(of.done_at),
            resent_of=message.resent_of,
            body=preview(message.body),
        )
    )
