"""`holdfast token create|list|revoke|rotate`: access tokens of a store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.app import TaskQueue
from holdfast.cli import values
from holdfast.cli.api import calls_of, full_id, v1, whole_id
from holdfast.cli.commands.each import Changed, change_each
from holdfast.cli.lists import page_of, print_list
from holdfast.cli.options import CHANGE, COMMON, After, Change, Common, Limit, Query
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column
from holdfast.cli.output.times import moment
from holdfast.cli.problem import Usage
from holdfast.cli.projects import check_projects
from holdfast.cli.session import with_queue
from holdfast.client.calls import Calls
from holdfast.client.issued import issued
from holdfast.core.access import ALL_PROJECTS
from holdfast.core.token import JOIN_SECONDS_MAX


class Kind(StrEnum):
    """Who gets the token."""

    USER = "user"
    JOIN = "join"


class Joining(StrEnum):
    """What a join token is for."""

    NODE = "node"
    AGENT = "agent"


TokenId = Annotated[str, Parameter(help="The token's id, a prefix that matches one, or @last.")]
TokenIds = Annotated[
    list[str], Parameter(help="Ids of tokens, prefixes that match one, @last, or - for stdin.")
]


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
    change: Change = CHANGE,
    common: Common = COMMON,
) -> None:
    """Create an access token. Its secret is shown once and cannot be read again."""
    seconds = None if expires is None else values.seconds(expires, "--expires")
    check_projects(common, [] if project is None else values.names(project))
    if kind is Kind.JOIN:
        if role is not None or scope is not None:
            raise Usage("--role and --scope are for tokens of users: a join token only registers")
        _make(common, v1("join-tokens"), _joining(name, project, uses, expires), change)
        return
    if uses is not None:
        raise Usage("--uses is for join tokens: give --kind join")
    body = {
        "name": name,
        "roles": list(values.names(role or "viewer")),
        "projects": list(values.names(project or ALL_PROJECTS)),
        "scopes": None if scope is None else list(values.names(scope)),
        "expires_in_seconds": seconds,
    }
    _make(common, v1("tokens"), body, change)


def join(
    name: Annotated[str, Parameter(help="Who or what uses it.")] = "join",
    /,
    *,
    kind: Annotated[
        Joining,
        Parameter(help="node: workers and nodes register. agent: hosts of the fleet enrol."),
    ] = Joining.NODE,
    project: Annotated[str | None, Parameter(help="The project of the nodes.")] = None,
    uses: Annotated[int | None, Parameter(help="How many may join with it; default: 1.")] = None,
    expires: Annotated[str | None, Parameter(help="Its lifetime, e.g. 7d.")] = None,
    change: Change = CHANGE,
    common: Common = COMMON,
) -> None:
    """Create a token with which nodes and workers register, or hosts of the fleet enrol."""
    check_projects(common, [] if project is None else values.names(project))
    body = _joining(name, project, uses, expires)
    if kind is Joining.AGENT:
        body["kind"] = kind.value
    _make(common, v1("join-tokens"), body, change)


def _joining(
    name: str, project: str | None, uses: int | None, expires: str | None
) -> dict[str, Any]:
    """The request for a join token: what was given."""
    seconds = None if expires is None else values.seconds(expires, "--expires")
    if seconds is not None and seconds > JOIN_SECONDS_MAX:
        days = JOIN_SECONDS_MAX // 86_400
        raise Usage(f"--expires is {expires}: a join token lives at most {days:.0f}d")
    joining = {"name": name, "project": project, "uses": uses, "expires_in_seconds": seconds}
    return {field: value for field, value in joining.items() if value is not None}


def list_(
    *, query: Query = None, limit: Limit = 1_000, after: After = None, common: Common = COMMON
) -> None:
    """List access tokens, by time of creation."""
    page = page_of(common, v1("tokens"), q=query, limit=limit, after=after)
    print_list(common, page, _columns(), "no tokens: `holdfast token create NAME` makes one")


def revoke(token_ids: TokenIds, /, *, given: Change = CHANGE, common: Common = COMMON) -> int:
    """End access tokens. They are refused from the next request on."""

    async def change(calls: Calls, text: str) -> Changed:
        id = await full_id(calls, "tokens", text)
        item = (await calls.call("DELETE", v1("tokens", id), query={"reason": given.reason})).body
        return Changed(item["id"], item, "revoked")

    return change_each(common, token_ids, change, "token", dry_run=given.dry_run, one=True)


def rotate(token_id: TokenId, /, *, given: Change = CHANGE, common: Common = COMMON) -> None:
    """Give an access token another secret. The one before is refused from the next request on."""
    token_id = whole_id(common, "tokens", token_id)
    path, query = v1("tokens", token_id, "rotate"), {"reason": given.reason}
    _show(common, _issued(common, path, None, given, query=query), dry_run=given.dry_run)


def _make(common: Common, path: str, body: dict[str, Any], change: Change) -> None:
    body = {**body, "reason": change.reason}
    _show(common, _issued(common, path, body, change), dry_run=change.dry_run)


def _issued(
    common: Common,
    path: str,
    body: dict[str, Any] | None,
    change: Change,
    *,
    query: Mapping[str, object] | None = None,
) -> dict[str, Any]:
    async def session(queue: TaskQueue) -> dict[str, Any]:
        calls = await calls_of(queue, dry_run=change.dry_run)
        if not change.dry_run:
            return await issued(calls, path, body, query=query)
        answer: dict[str, Any] = (await calls.call("POST", path, body, query=query)).body
        return answer

    return with_queue(common, session)


def _show(common: Common, item: dict[str, Any], *, dry_run: bool) -> None:
    if dry_run:  # the token does not exist, so its id says nothing
        item = {name: value for name, value in item.items() if name not in ("id", "token")}
    lines = [("id", item.get("id")), ("token", item.get("token")), ("name", item["name"])]
    lines += [("roles", ", ".join(item["roles"])), ("projects", ", ".join(item["projects"]))]
    lines.append(("expires", item["expires_at"]))
    Printer(common, dry_run=dry_run).one(item, lines, name=item.get("token", item["name"]))


def _columns() -> list[Column]:
    def joined(field: str) -> Callable[[dict[str, Any]], str]:
        return lambda item: ", ".join(item[field])

    return [
        Column("ID", lambda item: item["id"]),
        Column("NAME", lambda item: item["name"], flex=True),
        Column("STATE", lambda item: item["state"]),
        Column("ROLES", joined("roles")),
        Column("PROJECTS", joined("projects"), flex=True, rank=1),
        Column(
            "EXPIRES", lambda item: moment(item["expires_at"]) if item["expires_at"] else "never"
        ),
    ]
