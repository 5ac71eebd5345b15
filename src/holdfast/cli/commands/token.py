"""`holdfast token create|list|revoke|rotate`: access tokens of a store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

from cyclopts import Parameter

from holdfast.app import TaskQueue
from holdfast.cli import values
from holdfast.cli.options import COMMON, Common, Reason
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column
from holdfast.cli.session import by, with_queue
from holdfast.core.access import ALL_PROJECTS
from holdfast.core.rights import Operation
from holdfast.queue.by import By
from holdfast.sync import views
from holdfast.sync.access.recorded import audited
from holdfast.sync.access.tokens import Issued, NewToken, Tokens

T = TypeVar("T")
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
    new = NewToken(
        name=name,
        roles=values.names(role),
        projects=values.names(project),
        scopes=None if scope is None else values.names(scope),
        expires_in_seconds=None if expires is None else values.seconds(expires, "--expires"),
    )
    issued, now = _with_tokens(common, lambda tokens: tokens.create(new, _by(name, reason)))
    _show(common, issued, now)


def list_(*, common: Common = COMMON) -> None:
    """List access tokens, by time of creation."""
    rows, now = _with_tokens(common, lambda tokens: tokens.list(limit=1_000))
    Printer(common).rows(
        [views.token(row, now) for row in rows], _columns(), empty="the store has no tokens"
    )


def revoke(token_id: TokenId, /, *, reason: Reason = "", common: Common = COMMON) -> None:
    """End an access token. It is refused from the next request on."""
    token, now = _with_tokens(common, lambda tokens: tokens.revoke(token_id, _by(token_id, reason)))
    Printer(common).one(views.token(token, now), [(token.id, "revoked")], name=token.id)


def rotate(token_id: TokenId, /, *, reason: Reason = "", common: Common = COMMON) -> None:
    """Give an access token another secret. The one before is refused from the next request on."""
    issued, now = _with_tokens(
        common, lambda tokens: tokens.rotate(token_id, _by(token_id, reason))
    )
    _show(common, issued, now)


def _show(common: Common, issued: Issued, now: float) -> None:
    item = views.new_token(issued.token, now, issued.secret)
    lines = [("id", issued.token.id), ("token", issued.secret)]
    Printer(common).one(item, lines, name=issued.secret)


def _by(subject: str, reason: str) -> By:
    return audited(by(reason), Operation.TOKENS_MANAGE.value, project=ALL_PROJECTS, subject=subject)


def _with_tokens(common: Common, work: Callable[[Tokens], Awaitable[T]]) -> tuple[T, float]:
    async def session(queue: TaskQueue) -> tuple[T, float]:
        store = (await queue.open()).store
        return await work(Tokens(store)), store.now()

    return with_queue(common, session)


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
