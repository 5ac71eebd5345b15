"""`holdfast token create|list|revoke|rotate`: access tokens of a store."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.cli import values
from holdfast.cli.api import answer_of, v1, whole_id
from holdfast.cli.options import COMMON, Common, Reason
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column
from holdfast.cli.problem import Usage
from holdfast.cli.projects import check_projects
from holdfast.core.access import ALL_PROJECTS
from holdfast.core.token import JOIN_SECONDS_MAX


class Kind(StrEnum):
    """Who gets the token."""

    USER = "user"
    JOIN = "join"


TokenId = Annotated[str, Parameter(help="The token's id, as in the list.")]


def create(
    name: Annotated[str, Parameter(help="Who or what uses it.")],
    /,
    *,
    kind: Annotated[
        Kind, Parameter(help="user, or join: with it workers and nodes register.")
    ] = Kind.USER,
    role: Annotated[
        str | None, Parameter(help="One or more: viewer,operator,approver,admin; default: viewer.")
    ] = None,
    project: Annotated[str | None, Parameter(help="One or more projects; default: all.")] = None,
    scope: Annotated[str | None, Parameter(help="Only these operations.")] = None,
    expires: Annotated[str | None, Parameter(help="Its lifetime, e.g. 90d.")] = None,
    uses: Annotated[int | None, Parameter(help="How many may join with it; default: 1.")] = None,
    reason: Reason = "",
    common: Common = COMMON,
) -> None:
    """Create an access token. Its secret is shown once and cannot be read again."""
    seconds = None if expires is None else values.seconds(expires, "--expires")
    check_projects(common, [] if project is None else values.names(project))
    if kind is Kind.JOIN:
        if role is not None or scope is not None:
            raise Usage("--role and --scope are for tokens of users: a join token only registers")
        if seconds is not None and seconds > JOIN_SECONDS_MAX:
            days = JOIN_SECONDS_MAX // 86_400
            raise Usage(f"--expires is {expires}: a join token lives at most {days:.0f}d")
        joining = {"name": name, "project": project, "uses": uses, "expires_in_seconds": seconds}
        given = {field: value for field, value in joining.items() if value is not None}
        _show(common, answer_of(common, "POST", v1("join-tokens"), {**given, "reason": reason}))
        return
    if uses is not None:
        raise Usage("--uses is for join tokens: give --kind join")
    body = {
        "name": name,
        "roles": list(values.names(role or "viewer")),
        "projects": list(values.names(project or ALL_PROJECTS)),
        "scopes": None if scope is None else list(values.names(scope)),
        "expires_in_seconds": seconds,
        "reason": reason,
    }
    _show(common, answer_of(common, "POST", v1("tokens"), body))


def join(
    name: Annotated[str, Parameter(help="Who or what uses it.")] = "join",
    /,
    *,
    project: Annotated[str | None, Parameter(help="The project of the nodes.")] = None,
    uses: Annotated[int | None, Parameter(help="How many may join with it; default: 1.")] = None,
    expires: Annotated[str | None, Parameter(help="Its lifetime, e.g. 7d.")] = None,
    reason: Reason = "",
    common: Common = COMMON,
) -> None:
    """Create a token with which nodes and workers register: `token create --kind join`."""
    create(
        name,
        kind=Kind.JOIN,
        project=project,
        uses=uses,
        expires=expires,
        reason=reason,
        common=common,
    )


def list_(*, common: Common = COMMON) -> None:
    """List access tokens, by time of creation."""
    items = answer_of(common, "GET", v1("tokens"), query={"limit": 1_000})["items"]
    Printer(common).rows(items, _columns(), empty="the store has no tokens")


def revoke(token_id: TokenId, /, *, reason: Reason = "", common: Common = COMMON) -> None:
    """End an access token. It is refused from the next request on."""
    token_id = whole_id(common, "tokens", token_id)
    item = answer_of(common, "DELETE", v1("tokens", token_id), query={"reason": reason})
    Printer(common).one(item, [(item["id"], "revoked")], name=item["id"])


def rotate(token_id: TokenId, /, *, reason: Reason = "", common: Common = COMMON) -> None:
    """Give an access token another secret. The one before is refused from the next request on."""
    token_id = whole_id(common, "tokens", token_id)
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
