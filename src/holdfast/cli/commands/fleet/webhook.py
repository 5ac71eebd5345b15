"""`holdfast webhook`: sources of signed requests, and endpoints that get events.

Promises: a secret is printed once, by the command that makes it.
"""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.cli.api import answer_of, v1, whole_id
from holdfast.cli.commands.fleet.each import Changed, answer, change_each
from holdfast.cli.options import (
    COMMON,
    Common,
    DryRun,
    ExpectVersion,
    Limit,
    Project,
    Reason,
)
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column, Item
from holdfast.cli.output.times import clock
from holdfast.cli.problem import Usage
from holdfast.client.calls import Calls
from holdfast.core.fleet.model import WebhookDirection
from holdfast.core.fleet.webhooks.signature import SignatureMethod

Id = Annotated[str, Parameter(help="The webhook's id, or a prefix that matches one.")]
After = Annotated[str | None, Parameter(help="Where the previous page ended, as it has said.")]
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
    project: Project = None,
    limit: Limit = 50,
    after: After = None,
    common: Common = COMMON,
) -> None:
    """List webhooks: sources of signed requests, and endpoints that get events."""
    query = {"direction": direction, "project": project, "limit": limit, "after": after}
    page = answer_of(common, "GET", v1("webhooks"), query=query)
    columns = [
        Column("ID", lambda item: item["id"]),
        Column("DIRECTION", lambda item: item["direction"]),
        Column("NAME", lambda item: item["name"], flex=True),
        Column("STATE", lambda item: item["state"]),
        Column("SECRETS", lambda item: item["secrets"]),
        Column("KINDS", lambda item: ", ".join(item["kinds"]), flex=True),
        Column("URL", lambda item: item["url"], flex=True),
    ]
    _rows(common, page, columns, "no webhooks")


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
    reason: Reason = "",
    expect_version: ExpectVersion = None,
    common: Common = COMMON,
) -> None:
    """Change a webhook. What is not given stays as it is."""
    if to is None and kind is None and state is None:
        raise Usage("nothing to change: give --to, --kind or --state")
    body: dict[str, Any] = {"url": to, "kinds": kind, "state": state, "reason": reason}
    body["expected_version"] = expect_version
    _print(common, answer_of(common, "PATCH", v1("webhooks", _whole(common, id)), body))


def remove(
    ids: Annotated[list[str], Parameter(help="Ids or prefixes of ids, or - for stdin.")],
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
    reason: Reason = "",
    expect_version: ExpectVersion = None,
    common: Common = COMMON,
) -> None:
    """Make another secret or key. The one before counts too, until `webhook retire`."""
    more = _signing(public_key, signature)
    _print(common, _act(common, id, "rotate", reason=reason, expect_version=expect_version, **more))


def retire(
    id: Id,
    /,
    *,
    reason: Reason = "",
    expect_version: ExpectVersion = None,
    common: Common = COMMON,
) -> None:
    """End a rotation: only the newest secret counts."""
    _print(common, _act(common, id, "retire", reason=reason, expect_version=expect_version))


def send_test(id: Id, /, *, reason: Reason = "", common: Common = COMMON) -> None:
    """Send a test to an endpoint."""
    _print_delivery(common, _act(common, id, "test", reason=reason))


def deliveries(
    id: Id, /, *, limit: Limit = 50, after: After = None, common: Common = COMMON
) -> None:
    """List the messages for an endpoint, the newest first."""
    path = v1("webhooks", _whole(common, id), "deliveries")
    page = answer_of(common, "GET", path, query={"limit": limit, "after": after})
    columns = [
        Column("ID", lambda item: item["id"]),
        Column("TYPE", lambda item: item["type"]),
        Column("STATE", lambda item: item["state"]),
        Column("ATTEMPTS", lambda item: item["attempts"]),
        Column("CREATED", lambda item: clock(item["created_at"])),
        Column("MESSAGE", lambda item: item["message_id"]),
        Column("ERROR", lambda item: item["error"], flex=True),
    ]
    _rows(common, page, columns, "no deliveries")


def resend(
    id: Id,
    delivery: Annotated[str, Parameter(help="The id of a delivery of the webhook.")],
    /,
    *,
    reason: Reason = "",
    common: Common = COMMON,
) -> None:
    """Send a message again, under its id."""
    path = ("deliveries", delivery, "resend")
    _print_delivery(common, _act(common, id, *path, reason=reason))


def _whole(common: Common, id: str) -> str:
    return whole_id(common, "webhooks", id)


def _act(
    common: Common, id: str, *path: str, reason: str, expect_version: int | None = None, **more: Any
) -> Item:
    body = {"reason": reason, "expected_version": expect_version, **more}
    item: Item = answer_of(common, "POST", v1("webhooks", _whole(common, id), *path), body)
    return item


def _signing(public_key: str | None, signature: SignatureMethod | None) -> dict[str, Any]:
    """What was given of it."""
    given = {"public_key": public_key, "signature": signature and signature.value}
    return {name: value for name, value in given.items() if value is not None}


def _rows(common: Common, page: dict[str, Any], columns: list[Column], empty: str) -> None:
    printer = Printer(common)
    printer.rows(page["items"], columns, empty=empty)
    if page["next"] is not None:
        printer.note(f"more: --after {page['next']}")


def _print(common: Common, item: Item) -> None:
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
    Printer(common).one(item, lines, name=item.get("secret") or item["id"])


def _print_delivery(common: Common, item: Item) -> None:
    lines = [
        (str(item["id"]), item["state"]),
        ("type", item["type"]),
        ("message", item["message_id"]),
        ("webhook", item["webhook_id"]),
    ]
    Printer(common).one(item, lines, name=item["id"])
