"""The part of a client for webhooks. `scripts/client_fronts.py` writes its blocking form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from holdfast.client.api import Rows, decoded, given
from holdfast.client.fleet_groups import OfProject
from holdfast.client.webhook_models import DeliveryView, IssuedWebhook, WebhookView

WebhookDirection = Literal["in", "out"]
WebhookState = Literal["active", "disabled"]
Signature = Literal["hmac", "ed25519"]


class Webhooks(OfProject):
    """Sources of signed requests, and endpoints that get events. Only an admin may use them."""

    def list(
        self,
        *,
        direction: WebhookDirection | None = None,
        project: str | None = None,
        limit: int | None = None,
    ) -> Rows[WebhookView]:
        """The webhooks by time of creation, without their secrets."""
        query = {"direction": direction, "project": self._of(project)}
        return self._api.rows(WebhookView, "webhooks", limit=limit, **query)

    async def get(self, webhook_id: str) -> WebhookView:
        """One webhook."""
        return await self._api.get(WebhookView, "webhooks", webhook_id)

    async def add_source(
        self,
        name: str,
        *,
        public_key: str | None = None,
        project: str | None = None,
        reason: str = "",
    ) -> IssuedWebhook:
        """A sender of signed requests. The answer has its secret, which is not readable again. `public_key`:
        `whpk_…` of a sender that signs with ed25519, which needs no secret."""
        body = given(project=self._of(project), public_key=public_key)
        body |= {"name": name, "reason": reason}
        return await self._api.send(IssuedWebhook, "POST", "webhooks", body=body)

    async def add_endpoint(
        self,
        url: str,
        *,
        kinds: Sequence[str] = (),
        name: str = "",
        signature: Signature | None = None,
        project: str | None = None,
        reason: str = "",
    ) -> IssuedWebhook:
        """An address that gets events of a project, or of `all`. The answer has its secret, or, with
        `ed25519`, the public key that verifies its messages."""
        body = given(project=self._of(project), signature=signature)
        body |= {"url": url, "kinds": list(kinds), "name": name, "reason": reason}
        return await self._api.send(IssuedWebhook, "POST", "webhooks", body=body)

    async def edit(
        self,
        webhook_id: str,
        *,
        url: str | None = None,
        kinds: Sequence[str] | None = None,
        state: WebhookState | None = None,
        reason: str = "",
        expected_version: int | None = None,
    ) -> WebhookView:
        """Changes fields of a webhook. One that is disabled accepts and gets nothing."""
        body = given(url=url, kinds=kinds, state=state, expected_version=expected_version)
        body["reason"] = reason
        return await self._api.send(WebhookView, "PATCH", "webhooks", webhook_id, body=body)

    async def remove(self, webhook_id: str, *, reason: str = "") -> WebhookView:
        """Returns the webhook as it was."""
        answer = await self._api.call("DELETE", "webhooks", webhook_id, query={"reason": reason})
        return decoded(answer.body, WebhookView)

    async def rotate(
        self,
        webhook_id: str,
        *,
        public_key: str | None = None,
        signature: Signature | None = None,
        reason: str = "",
    ) -> IssuedWebhook:
        """Makes another secret or key, or takes the next public key of a source. The one before counts too,
        until `retire`. `signature`: of an endpoint, if it changes."""
        body = given(public_key=public_key, signature=signature)
        body["reason"] = reason
        return await self._api.send(
            IssuedWebhook, "POST", "webhooks", webhook_id, "rotate", body=body
        )

    async def retire(self, webhook_id: str, *, reason: str = "") -> WebhookView:
        """Ends a rotation: only the newest secret counts."""
        body = {"reason": reason}
        return await self._api.send(
            WebhookView, "POST", "webhooks", webhook_id, "retire", body=body
        )

    def deliveries(self, webhook_id: str, *, limit: int | None = None) -> Rows[DeliveryView]:
        """The messages for an endpoint, the newest first."""
        return self._api.rows(DeliveryView, "webhooks", webhook_id, "deliveries", limit=limit)

    async def resend(self, webhook_id: str, delivery_id: int, *, reason: str = "") -> DeliveryView:
        """Delivers a message again, under its id."""
        path = ("webhooks", webhook_id, "deliveries", str(delivery_id), "resend")
        return await self._api.send(DeliveryView, "POST", *path, body={"reason": reason})

    async def test(self, webhook_id: str, *, reason: str = "") -> DeliveryView:
        """Delivers an event of kind `webhook.test`."""
        body = {"reason": reason}
        return await self._api.send(DeliveryView, "POST", "webhooks", webhook_id, "test", body=body)
