"""`holdfast token create|list|revoke|rotate`: access tokens of a store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.cli import values
from holdfast.cli.api import answer_of, v1
from holdfast.cli.options import COMMON, Common, Reason
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column
from holdfast.core.access import ALL_PROJECTS

TokenId = Annotated[str, Parameter(help="The token's id, as in the list.")]


def create(
    name: Annotated[str, Parameter(help="Who or what uses it.")],
    /,
    *,
    role: Annotated[str, Parameter(help="One or more: viewer,operator,approver,admin.")] = "viewer",
    project: Annotated[str, Parameter(help="One or more projects, or all.")] = ALL_PROJECTS,
    scope: Annotated[str | None, Parameter(help="Only these operations.")] = None,
    expires: Annotated[str | None, Parameter(help="Its lifetime, e.g. 90d.")] = None,
    reason: Reason = "",
    common: Common = COMMON,
) -> None:
    """Create an access token. Its secret is shown once and cannot be read again."""
    body = {
        "name": name,
        "roles": list(values.names(role)),
        "projects": list(values.names(project)),
        "scopes": None if scope is None else list(values.names(scope)),
        "expires_in_seconds": None if expires is None else values.seconds(expires, "--expires"),
        "reason": reason,
    }
    _show(common, answer_of(common, "POST", v1("tokens"), body))


def list_(*, common: Common = COMMON) -> None:
    """List access tokens, by time of creation."""
    items = answer_of(common, "GET", v1("tokens"), query={"limit": 1_000})["items"]
    Printer(common).rows(items, _columns(), empty="the store has no tokens")


def revoke(token_id: TokenId, /, *, reason: Reason = "", common: Common = COMMON) -> None:
    """End an access token. It is refused from the next request on."""
    item = answer_of(common, "DELETE", v1("tokens", token_id), query={"reason": reason})
    Printer(common).one(item, [(item["id"], "revoked")], name=item["id"])


def rotate(token_id: TokenId, /, *, reason: Reason = "", common: Common = COMMON) -> None:
    """Give an access token another secret. The one before is refused from the next request on."""
    path = v1("tokens", token_id, "rotate")
    _show(common, answer_of(common, "POST", path, query={"reason": reason}))


def _show(common: Common, item: dict[str, Any]) -> None:
    lines = [("id", item["id"]), ("token", item["token"])]
    Printer(common).one(item, lines, name=item["token"])


def _columns() -> list[Column]:
    def joined(field: str) -> Callable[[dict[str, Any]], str]:
        return lambda item: ", ".join(item[field])

    return [
        Column("ID", lambda item: item["id"]),
        Column("NAME", lambda item: item["name"], flex=True),
        Column("STATE", lambda item: item["state"]),
        Column("ROLES", joined("roles")),
        Column("PROJECTS", joined("projects"), flex=True),
        Column("EXPIRES", lambda item: item["expires_at"] or "never"),
    ]
