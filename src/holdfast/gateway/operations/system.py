"""Operations on the figures, tokens, the audit, and what a principal is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from holdfast import __version__
from holdfast.client import admin_models
from holdfast.core.access import ALL_PROJECTS, operations_of
from holdfast.core.check import check_number, check_page, check_whole
from holdfast.core.event import Position
from holdfast.core.fleet.model import FLEET_QUEUE
from holdfast.core.rights import Operation, Role
from holdfast.core.task import DEFAULT_PROJECT, Status
from holdfast.core.token import JOIN_SECONDS_MAX, TokenKind
from holdfast.core.wire import WHOLE_MAX, make_cursor, parse_cursor, parse_id_cursor
from holdfast.errors import InvalidInput
from holdfast.gateway.operations.call import Answer, Call
from holdfast.queue import views
from holdfast.queue.by import By
from holdfast.store.interventions import Act
from holdfast.sync import views as hub_views
from holdfast.sync.access.token import Token
from holdfast.sync.access.tokens import TICKET_SECONDS, NewToken, Ticket
from holdfast.sync.worker.types import register_types

O: Final = Operation  # noqa: E741


class TokenBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A token to create."""

    name: str
    roles: list[str]
    projects: list[str] = msgspec.field(default_factory=lambda: [ALL_PROJECTS])
    scopes: list[str] | None = None
    expires_in_seconds: float | None = None
    reason: str = ""


class JoinBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A token with which nodes register, or agents enrol."""

    name: str = ""
    project: str = DEFAULT_PROJECT
    kind: str = "node"
    uses: int = 1
    expires_in_seconds: float = 86_400.0
    reason: str = ""


# -- figures ----------------------------------------------------------------------------------------


async def stats(call: Call) -> Answer:
    """Numbers of tasks, workers and nodes. A principal of some projects gets their tasks."""
    call.authorise_any(O.STATS_READ)
    head: Position = await call.services.store.feed.head()
    if call.projects is None:
        parts = call.services.parts
        return Answer(views.stats(await parts.stats.get(), await parts.nodes.runners(), head))
    by_project: dict[str, dict[str, int]] = {}
    by_queue: dict[str, dict[str, int]] = {}
    totals = {status.value: 0 for status in Status}
    for project in sorted(call.projects):
        counts = by_project.setdefault(project, {})
        for queue, status, n in await call.services.store.feed.project_counters(project):
            for table in (counts, by_queue.setdefault(queue, {}), totals):
                table[status] = table.get(status, 0) + n
    executions = by_queue.get(FLEET_QUEUE, {}).get(Status.FAILED.value, 0)
    totals["dead_letter_count"] = totals.pop(Status.FAILED.value) - executions
    return Answer(
        {**totals, "by_queue": by_queue, "by_project": by_project, "feed_head": str(head)}
    )


class TypesBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Task types of a process without a database: a JSON list of {name, queue, options}."""

    definitions_json: str


async def put_types(call: Call, body: TypesBody) -> Answer:
    """Registers task types, so that tasks of them can be enqueued with their options."""
    actor = call.authorise_any(O.TASKS_SUBMIT).actor
    project = "" if call.projects is None else call.home
    act = Act(O.TASKS_SUBMIT.value, call.request_id)
    store = call.services.store
    await register_types(store, actor, body.definitions_json, project=project, act=act)
    return await list_types(call)


async def list_types(call: Call) -> Answer:
    """The types that nodes have registered."""
    call.authorise_any(O.QUEUES_READ)
    rows = await call.services.store.reads.types()
    items = [admin_models.TypeRow(name=row.name, queue=row.queue) for row in rows]
    return Answer({"items": [msgspec.to_builtins(item) for item in items], "next": None})


async def about(call: Call) -> Answer:
    """The version of the gateway, and the time of its store. `trial`: what `holdfast dev` runs."""
    services = call.services
    now = views.at(services.now())
    return Answer({"version": __version__, "now": now, "trial": services.trial})


async def list_operations(call: Call) -> Answer:
    """The operations that the caller may use. `own`: on its own node only. `as_node`: in the name of a
    node."""
    allowed = operations_of(call.principal)
    items = [{"operation": name.value, "right": right.value} for name, right in allowed.items()]
    return Answer({"items": items, "next": None})


async def whoami(call: Call) -> Answer:
    """The principal of the request."""
    who = call.principal
    return Answer(
        {
            "name": who.name,
            "kind": who.kind.value,
            "roles": sorted(who.roles),
            "projects": sorted(who.projects),
            "scopes": None if who.scopes is None else sorted(who.scopes),
            "node": who.node,
            "token_id": call.token_id,
            "worker_transports": call.services.worker_transports,
        }
    )


# -- tokens -----------------------------------------------------------------------------------------


async def list_tokens(call: Call, *, after: str | None = None, limit: int = 100) -> Answer:
    call.authorise_store(O.TOKENS_MANAGE)
    place = "" if after is None else parse_id_cursor(after, of="tokens")
    rows = await call.services.tokens.list(after=place, limit=check_page(limit))
    now = call.services.now()
    last = rows[-1] if len(rows) == limit else None
    following = None if last is None else make_cursor((last.id,), of="tokens")
    return Answer({"items": [hub_views.token(row, now) for row in rows], "next": following})


async def create_token(call: Call, body: TokenBody) -> Answer:
    """Creates a token. The answer has its secret, which is not readable again: a repeat gets null."""
    new = NewToken(
        name=body.name,
        roles=body.roles,
        projects=body.projects,
        scopes=body.scopes,
        expires_in_seconds=body.expires_in_seconds,
    )
    return await _create(call, new, body.reason)


async def create_join_token(call: Call, body: JoinBody) -> Answer:
    """Creates a join token of a project."""
    if body.kind not in ("node", "agent"):
        raise InvalidInput(f"kind is '{body.kind}': use node or agent")
    check_number("expires_in_seconds", body.expires_in_seconds, most=JOIN_SECONDS_MAX)
    scope = O.NODES_REGISTER if body.kind == "node" else O.AGENTS_ENROL
    new = NewToken(
        name=body.name or f"join-{body.kind}",
        kind=TokenKind.JOIN,
        roles=[Role.JOIN.value],
        projects=[body.project],
        scopes=[scope.value],
        uses=body.uses,
        expires_in_seconds=body.expires_in_seconds,
    )
    return await _create(call, new, body.reason)


async def _create(call: Call, new: NewToken, reason: str) -> Answer:
    actor = call.authorise_store(O.TOKENS_MANAGE).actor
    by = call.by(
        O.TOKENS_MANAGE,
        project=ALL_PROJECTS,
        subject=new.name,
        actor=actor,
        reason=reason,
        answer=lambda token: _token_answer(call, token, None, 201),
        detail={"roles": list(new.roles), "projects": list(new.projects), "kind": new.kind.value},
    )
    issued = await call.services.tokens.create(new, by)
    return _token_answer(call, issued.token, issued.secret, 201)


async def rotate_token(call: Call, token_id: str, *, reason: str = "") -> Answer:
    by = _token_by(
        call,
        token_id,
        {"rotated": True},
        reason,
        lambda token: _token_answer(call, token, None, 200),
    )
    issued = await call.services.tokens.rotate(token_id, by)
    return _token_answer(call, issued.token, issued.secret, 200)


async def revoke_token(call: Call, token_id: str, *, reason: str = "") -> Answer:
    def shown(token: Token) -> Answer:
        return Answer(hub_views.token(token, call.services.now()))

    by = _token_by(call, token_id, {"revoked": True}, reason, shown)
    return shown(await call.services.tokens.revoke(token_id, by))


def _token_by(
    call: Call, token_id: str, detail: object, reason: str, answer: Callable[[Token], Answer]
) -> By:
    actor = call.authorise_store(O.TOKENS_MANAGE).actor
    return call.by(
        O.TOKENS_MANAGE,
        project=ALL_PROJECTS,
        subject=token_id,
        actor=actor,
        reason=reason,
        answer=answer,
        detail=detail,
    )


def _token_answer(call: Call, token: Token, secret: str | None, status: int) -> Answer:
    return Answer(hub_views.new_token(token, call.services.now(), secret), status)


async def create_ticket(call: Call) -> Answer:
    """A text that opens one WebSocket, for browsers, which cannot send a header with it."""
    call.authorise_any(O.EVENTS_READ)
    ticket = await call.services.tokens.open_ticket(
        Ticket(call.principal, call.token_id, call.digest)
    )
    return Answer({"ticket": ticket, "expires_in_seconds": TICKET_SECONDS}, 201)


# -- the audit --------------------------------------------------------------------------------------


async def list_audit(
    call: Call, *, after: str | None = None, since: int | None = None, limit: int = 100
) -> Answer:
    """Rows of the audit, the latest first; with `since` those after this number, the oldest first."""
    call.authorise_store(O.AUDIT_READ)
    if since is not None:
        if after is not None:
            raise InvalidInput("both after and since are given: use one of them")
        first = check_whole("since", since, least=0, most=WHOLE_MAX)
        rows = await call.services.audit.after(first, check_page(limit))
        return Answer({"items": [hub_views.audit(row) for row in rows], "next": None})
    seq: object = WHOLE_MAX if after is None else parse_cursor(after, of="audit")[0]
    before = check_whole("after", seq, least=0, most=WHOLE_MAX)
    rows = await call.services.audit.before(before, check_page(limit))
    last = rows[-1] if len(rows) == limit else None
    following = None if last is None else make_cursor((last.seq,), of="audit")
    return Answer({"items": [hub_views.audit(row) for row in rows], "next": following})


async def verify_audit(call: Call) -> Answer:
    """Whether the chain of the audit is whole."""
    call.authorise_store(O.AUDIT_READ)
    return Answer(hub_views.audit_check(await call.services.audit.verify()))
