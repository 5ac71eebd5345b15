"""`holdfast webhook`: sources of signed requests, and endpoints that get events.

Promises: a secret is printed once, by the command that makes it.
"""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.cli.api import answer_of, named_id, v1
from holdfast.cli.commands.each import Changed, answer, change_each
from holdfast.cli.lists import page_of, print_list
from holdfast.cli.options import (
    COMMON,
    VERSIONED,
    After,
    Common,
    DryRun,
    Limit,
    Project,
    Query,
    Reason,
    VersionedChange,
)
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column, Item
from holdfast.cli.output.times import clock
from holdfast.cli.problem import Usage
from holdfast.client.calls import Calls
from holdfast.core.fleet.model import WebhookDirection
from holdfast.core.fleet.webhooks.signature import SignatureMethod

Id = Annotated[
    str, Parameter(help="The webhook's name, its id, a prefix that matches one, or @last.")
]
PublicKey = Annotated[
    str | None,
    Parameter(help="whpk_... of a source that signs with ed25519, in place of a secret."),
]
Signature = Annotated[
    SignatureMethod | None, Parameter(help="How events for an endpoint are signed: hmac, ed25519.")
]
Kinds = Annotated[
    list[str] | None,
    Parameter(name="--kind", negative="", help="A kind of events, e.g. job.*; several times."),
]


def list_(
    *,
    direction: Annotated[
        WebhookDirection | None, Parameter(help="in: sources of requests. out: endpoints.")
    ] = None,
    query: Query = None,
    project: Project = None,
    limit: Limit = 50,
    after: After = None,
    common: Common = COMMON,
) -> None:
    """List webhooks: sources of signed requests, and endpoints that get events."""
    given: dict[str, Any] = {"direction": direction, "project": project, "after": after}
    page = page_of(common, v1("webhooks"), q=query, limit=limit, **given)
    columns = [
        Column("ID", lambda item: item["id"]),
        Column("DIRECTION", lambda item: item["direction"]),
        Column("NAME", lambda item: item["name"], flex=True),
        Column("STATE", lambda item: item["state"]),
        Column("SECRETS", lambda item: item["secrets"], rank=2),
        Column("KINDS", lambda item: ", ".join(item["kinds"]), flex=True, rank=1),
        Column("URL", lambda item: item["url"], flex=True),
    ]
    print_list(common, page, columns, "no webhooks: `holdfast webhook add NAME` makes one")


def show(id: Id, /, *, common: Common = COMMON) -> None:
    """Show a webhook, without its secrets."""
    _print(common, answer_of(common, "GET", v1("webhooks", _whole(common, id))))


def add(
    name: Annotated[str, Parameter(help="Its name.")],
    /,
    *,
    to: Annotated[
        str | None, Parameter(help="The URL that gets events. Without it: a source of requests.")
    ] = None,
    kind: Kinds = None,
    public_key: PublicKey = None,
    signature: Signature = None,
    project: Project = None,
    reason: Reason = "",
    dry_run: DryRun = False,
    common: Common = COMMON,
) -> None:
    """Add an endpoint that gets events, or a source of signed requests. The secret is shown once."""
    body: dict[str, Any] = {"name": name, "url": to, "kinds": kind or [], "project": project}
    body |= _signing(public_key, signature)
    if dry_run:
        what = f"send {', '.join(kind or ['nothing'])} to {to}" if to else "accept signed requests"
        view = {"dry_run": True, "would": "add", "webhook": body}
        answer(common, [Changed(name, view, f"would {what}")], [])
        return
    _print(common, answer_of(common, "POST", v1("webhooks"), body | {"reason": reason}))


def edit(
    id: Id,
    /,
    *,
    to: Annotated[str | None, Parameter(help="Another URL of an endpoint.")] = None,
    kind: Kinds = None,
    state: Annotated[str | None, Parameter(help="active or disabled.")] = None,
    given: VersionedChange = VERSIONED,
    common: Common = COMMON,
) -> None:
    """Change a webhook. What is not given stays as it is."""
    if to is None and kind is None and state is None:
        raise Usage("nothing to change: give --to, --kind or --state")
    body = {"url": to, "kinds": kind, "state": state, **given.body()}
    path = v1("webhooks", _whole(common, id))
    item = answer_of(common, "PATCH", path, body, dry_run=given.dry_run)
    _print(common, item, dry_run=given.dry_run)


def remove(
    ids: Annotated[
        list[str], Parameter(help="Names, ids or prefixes of ids, or - for ids of stdin.")
    ],
    /,
    *,
    reason: Reason = "",
    dry_run: DryRun = False,
    common: Common = COMMON,
) -> int:
    """Remove webhooks. Their secrets count no more."""

    async def change(calls: Calls, id: str) -> Changed:
        path = v1("webhooks", id)
        if dry_run:
            item = (await calls.call("GET", path)).body
            view = {"dry_run": True, "would": "remove", "webhook": item}
            return Changed(id, view, f"would be removed ({item['name']})")
        item = (await calls.call("DELETE", path, query={"reason": reason})).body
        return Changed(id, item, "removed")

    return change_each(common, [_whole(common, id) for id in ids], change, "webhook")


def rotate(
    id: Id,
    /,
    *,
    public_key: PublicKey = None,
    signature: Signature = None,
    given: VersionedChange = VERSIONED,
    common: Common = COMMON,
) -> None:
    """Make another secret or key. The one before counts too, until `webhook retire`."""
    more = _signing(public_key, signature)
    _print(common, _act(common, id, "rotate", given=given, **more), dry_run=given.dry_run)


def retire(id: Id, /, *, given: VersionedChange = VERSIONED, common: Common = COMMON) -> None:
    """End a rotation: only the newest secret counts."""
    _print(common, _act(common, id, "retire", given=given), dry_run=given.dry_run)


def send_test(id: Id, /, *, given: VersionedChange = VERSIONED, common: Common = COMMON) -> None:
    """Send a test to an endpoint."""
    _print_delivery(common, _act(common, id, "test", given=given), dry_run=given.dry_run)


def deliveries(
    id: Id,
    /,
    *,
    query: Query = None,
    limit: Limit = 50,
    after: After = None,
    common: Common = COMMON,
) -> None:
    """List the messages for an endpoint, the newest first."""
    path = v1("webhooks", _whole(common, id), "deliveries")
    page = page_of(common, path, q=query, limit=limit, after=after)
    columns = [
        Column("ID", lambda item: item["id"]),
        Column("TYPE", lambda item: item["type"]),
        Column("STATE", lambda item: item["state"]),
        Column("ATTEMPTS", lambda item: item["attempts"]),
        Column("CREATED", lambda item: clock(item["created_at"])),
        Column("MESSAGE", lambda item: item["message_id"]),
        Column("ERROR", lambda item: item["error"], flex=True),
    ]
    print_list(common, page, columns, "no deliveries")


def resend(
    id: Id,
    delivery: Annotated[str, Parameter(help="The id of a delivery of the webhook.")],
    /,
    *,
    given: VersionedChange = VERSIONED,
    common: Common = COMMON,
) -> None:
    """Send a message again, under its id."""
    path = ("deliveries", delivery, "resend")
    _print_delivery(common, _act(common, id, *path, given=given), dry_run=given.dry_run)


def _whole(common: Common, id: str) -> str:
    return named_id(common, "webhooks", id)


def _act(common: Common, id: str, *path: str, given: VersionedChange, **more: Any) -> Item:
    where, body = v1("webhooks", _whole(common, id), *path), given.body() | more
    item: Item = answer_of(common, "POST", where, body, dry_run=given.dry_run)
    return item


def _signing(public_key: str | None, signature: SignatureMethod | None) -> dict[str, Any]:
    """What was given of it."""
    given = {"public_key": public_key, "signature": signature and signature.value}
    return {name: value for name, value in given.items() if value is not None}


def _print(common: Common, item: Item, *, dry_run: bool = False) -> None:
    lines = [
        (item["id"], item["state"]),
        ("name", item["name"]),
        ("direction", item["direction"]),
        ("project", item["project"]),
        ("url", item["url"]),
        ("kinds", ", ".join(item["kinds"])),
        ("secrets", item["secrets"]),
        ("secret", item.get("secret")),
        ("signature", item["signature"]),
        ("public keys", ", ".join(item["public_keys"])),
        ("version", item["version"]),
    ]
    Printer(common, dry_run=dry_run).one(item, lines, name=item.get("secret") or item["id"])


def _print_delivery(common: Common, item: Item, *, dry_run: bool) -> None:
    lines = [
        (str(item["id"]), item["state"]),
        ("type", item["type"]),
        ("message", item["message_id"]),
        ("webhook", item["webhook_id"]),
    ]
    Printer(common, dry_run=dry_run).one(item, lines, name=item["id"])
