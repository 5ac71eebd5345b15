"""Verbs of webhooks."""

from __future__ import annotations

from typing import Final

from holdfast.cli.verb import FLEET, Kind, Verb

WEBHOOK_VERBS: Final = (
    Verb(
        "webhook list",
        "List sources of signed requests and endpoints of events",
        f"{FLEET}.webhook:list_",
        ("holdfast webhook list --direction out",),
        Kind.LIST,
    ),
    Verb(
        "webhook show",
        "Show a webhook, without its secrets",
        f"{FLEET}.webhook:show",
        ("holdfast webhook show whk_0199a1b27c3e",),
        Kind.SHOW,
    ),
    Verb(
        "webhook add",
        "Add a webhook; its secret is shown once",
        f"{FLEET}.webhook:add",
        (
            "holdfast webhook add chat --to https://chat.example/hook --kind 'job.*'",
            "holdfast webhook add ci -m 'the build server asks for jobs'",
        ),
        Kind.WRITE,
    ),
    Verb(
        "webhook edit",
        "Change a webhook",
        f"{FLEET}.webhook:edit",
        ("holdfast webhook edit chat --state disabled",),
        Kind.WRITE,
    ),
    Verb(
        "webhook remove",
        "Remove webhooks",
        f"{FLEET}.webhook:remove",
        ("holdfast webhook remove whk_0199a1b27c3e",),
        Kind.WRITE,
    ),
    Verb(
        "webhook rotate",
        "Make another secret; the one before counts too",
        f"{FLEET}.webhook:rotate",
        ("holdfast webhook rotate whk_0199a1b27c3e",),
        Kind.WRITE,
    ),
    Verb(
        "webhook retire",
        "Let only the newest secret count",
        f"{FLEET}.webhook:retire",
        ("holdfast webhook retire whk_0199a1b27c3e",),
        Kind.WRITE,
    ),
    Verb(
        "webhook test",
        "Send a test to an endpoint",
        f"{FLEET}.webhook:send_test",
        ("holdfast webhook test whk_0199a1b27c3e",),
        Kind.WRITE,
    ),
    Verb(
        "webhook deliveries",
        "List the messages for an endpoint",
        f"{FLEET}.webhook:deliveries",
        ("holdfast webhook deliveries whk_0199a1b27c3e",),
        Kind.LIST,
    ),
    Verb(
        "webhook resend",
        "Send a message again",
        f"{FLEET}.webhook:resend",
        ("holdfast webhook resend whk_0199a1b27c3e 118",),
        Kind.WRITE,
    ),
)
