"""Operations of the exchange with offline nodes (`/api/v2/sync`): handshake, pull, push."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.core.exchange.handshake import ClientEntry
from holdfast.core.exchange.item import Item
from holdfast.core.exchange.item_wire import read_item
from holdfast.core.rights import Operation
from holdfast.gateway.operations.call import Answer, Call
from holdfast.gateway.operations.sync import views
from holdfast.gateway.operations.sync.speaker import speaker

O = Operation  # noqa: E741


class Base(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    hash: str | None = None
    dirty: bool = False


class HandshakeBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    node_id: str | None = None
    incarnation: int | None = None
    local_clock: int = 0
    task_versions: dict[str, int] = {}
    bases: dict[str, Base] = {}
    cursor: str | None = None
    limit: int = 500


class PullBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    node_id: str | None = None
    incarnation: int | None = None
    task_ids: list[str] | None = None
    cursor: str | None = None
    limit: int = 500


class PushBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    node_id: str | None = None
    incarnation: int | None = None
    tasks: list[Item]
    local_clock: int = 0
    atomic: bool = False


class RawPush(PushBody, frozen=True, kw_only=True, rename="camel"):
    """A push whose items are read one by one: one that is not valid does not fail the others."""

    tasks: list[msgspec.Raw]  # type: ignore[assignment]


async def handshake(call: Call, project: str, body: HandshakeBody) -> Answer:
    row, _ = await speaker(
        call, body.node_id, O.SYNC_EXCHANGE, project=project, incarnation=body.incarnation
    )
    bases = {
        name: ClientEntry(0, is_dirty=base.dirty, hash=base.hash)
        for name, base in body.bases.items()
    }
    answer = await call.services.exchange.handshake(
        row, project, body.task_versions, bases=bases, cursor=body.cursor, limit=body.limit
    )
    lists = answer.handshake
    return Answer(
        {
            "success": True,
            "serverClock": answer.clock,
            **views.place(answer.cursor),
            "needsPull": list(lists.needs_pull),
            "needsPush": list(lists.needs_push),
            "inSync": list(lists.in_sync),
            "conflicts": [
                {
                    "taskId": conflict.task_id,
                    "kind": conflict.kind.value,
                    "localVersion": conflict.local_version,
                    "serverVersion": conflict.server_version,
                    "conflictId": None,
                }
                for conflict in lists.conflicts
            ],
            "newTasks": list(lists.new_tasks),
            "deleted": [
                {
                    "taskId": gone.task_id,
                    "version": gone.version,
                    "deletedAt": views.maybe_time(gone.deleted_at),
                }
                for gone in lists.deleted
            ],
            "more": answer.next_cursor is not None,
            "nextCursor": answer.next_cursor,
            "reset": views.reset(answer.reset),
        }
    )


async def pull(call: Call, project: str, body: PullBody) -> Answer:
    row, _ = await speaker(
        call, body.node_id, O.SYNC_EXCHANGE, project=project, incarnation=body.incarnation
    )
    answer = await call.services.exchange.pull(
        row, project, names=body.task_ids, cursor=body.cursor, limit=body.limit
    )
    now = call.services.now()
    return Answer(
        {
            "success": True,
            "serverClock": answer.clock,
            **views.place(answer.cursor),
            "tasks": [views.task(seen, now) for seen in answer.tasks],
            "deleted": views.deleted(answer.deleted),
            "missing": answer.missing,
            "more": answer.next_cursor is not None or answer.is_cut,
            "nextCursor": answer.next_cursor,
            "reset": views.reset(answer.reset),
        }
    )


async def push(call: Call, project: str, body: RawPush) -> Answer:
    _, voice = await speaker(
        call, body.node_id, O.SYNC_EXCHANGE, project=project, incarnation=body.incarnation
    )
    items = [read_item(data) for data in body.tasks]
    answer = await call.services.exchange.push(
        voice,
        project,
        items,
        local_clock=body.local_clock,
        is_atomic=body.atomic,
    )
    now = call.services.now()
    pushed = answer.pushed
    call.services.figures.pushed(items, pushed.results)
    shown: dict[str, Any] = {
        "success": True,
        "results": [views.result(result, now) for result in pushed.results],
        "serverClock": pushed.clock,
        **views.place(answer.cursor),
    }
    warnings = ["localClock is too far ahead and was clamped"] if pushed.is_clamped else []
    if warnings:
        shown["warnings"] = warnings
    return Answer(shown)
