"""The JSON objects of webhooks, as in `models`: sources, endpoints and deliveries."""

from __future__ import annotations

import msgspec


class WebhookView(msgspec.Struct, frozen=True, kw_only=True):
    """A source of signed requests (`in`), or an endpoint that gets events (`out`)."""

    id: str
    project: str
    direction: str
    name: str
    url: str
    kinds: list[str]
    state: str
    secrets: int
    """How many secrets or keys count: two while one replaces the other."""
    signature: str = "hmac"
    """`hmac` (`v1`) or `ed25519` (`v1a`), of the newest secret or key."""
    public_keys: list[str] = []
    """Of ed25519, the newest first: with these the other side verifies events, or we verify its requests."""
    created_by: str
    created_at: str | None
    version: int


class IssuedWebhook(WebhookView, frozen=True, kw_only=True):
    """A webhook with its newest secret, which is not readable again."""

    secret: str | None
    """Null in the answer to a repeated request, and with ed25519."""


class DeliveryView(msgspec.Struct, frozen=True, kw_only=True):
    """A message for an endpoint."""

    id: int
    webhook_id: str
    message_id: str
    type: str
    state: str
    """`waiting`, `done` or `failed`."""
    attempts: int
    error: str
    created_at: str | None
    due_at: str | None
    done_at: str | None
    resent_of: int | None
    body: str
