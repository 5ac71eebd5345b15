"""Operations on blocks: list, read, add, change, lift."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.core.check import check_positive
from holdfast.core.fleet.model import Block, BlockEffect, OnLift, OnRunning
from holdfast.core.rights import Operation
from holdfast.core.wire import TIME_MAX, parse_time
from holdfast.errors import InvalidInput, NotFound
from holdfast.fleet.blocks.blocks import ANY_TYPE, NewBlock
from holdfast.fleet.views import objects as views
from holdfast.gateway.operations.call import Answer, Call, missing
from holdfast.gateway.operations.fleet.scope import own_host, page, place, project_of
from holdfast.queue.by import By
from holdfast.queue.views import View

O: Final = Operation  # noqa: E741
NOUN: Final = "block"


class BlockWindow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The times within which a block counts."""

    rrule: str
    duration_seconds: float
    timezone: str = "UTC"


class BlockBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A block to add: for a host (name or id), or for the hosts of a selector."""

    reason: str
    host: str | None = None
    selector: str | None = None
    command_type: str = ANY_TYPE
    owner: str = ""
    effect: BlockEffect = BlockEffect.REFUSE
    on_running: OnRunning = OnRunning.FINISH
    on_lift: OnLift = OnLift.REQUEUE
    window: BlockWindow | None = None
    expires_at: str | None = None
    expires_in_seconds: float | None = None
    project: str | None = None


class BlockChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields to change. What is absent stays as it is; null removes a window or an end."""

    reason: str | UnsetType = UNSET
    command_type: str | UnsetType = UNSET
    owner: str | UnsetType = UNSET
    effect: BlockEffect | UnsetType = UNSET
    on_running: OnRunning | UnsetType = UNSET
    on_lift: OnLift | UnsetType = UNSET
    window: BlockWindow | UnsetType | None = UNSET
    expires_at: str | UnsetType | None = UNSET
    expires_in_seconds: float | UnsetType | None = UNSET
    expected_version: int | None = None


async def find(
    call: Call,
    *,
    project: str | None = None,
    host: str | None = None,
    lifted: bool = False,
    after: str | None = None,
    limit: int = 100,
) -> Answer:
    """One page by time of creation. `host`: those that count for a host now. `lifted`: the latest that are
    over."""
    name = project_of(call, O.BLOCKS_READ, project)
    host = own_host(call) or host
    if host is not None:
        if lifted:
            raise InvalidInput("host has only blocks that count now: leave out lifted")
        row = await call.services.fleet.hosts.get(name, host)
        blocks = (await call.services.fleet.blocks.of_hosts(name, [row]))[row.id]
        return Answer({"items": await _rows(call, blocks), "next": None})
    of = f"blocks {name}"
    found = await call.services.fleet.blocks.list(
        name, lifted=lifted, after=place(after, of=of), limit=limit
    )
    items = await _rows(call, found)
    if lifted:
        return Answer({"items": items, "next": None})
    return Answer(page(found, limit, of=of, key=lambda block: block.id, items=items))


async def get(call: Call, block_id: str) -> Answer:
    row = await _read(call, O.BLOCKS_READ, block_id)
    return Answer(await _shown(call, row), version=row.version)


async def add(call: Call, body: BlockBody) -> Answer:
    project = project_of(call, O.BLOCKS_WRITE, body.project)
    new = NewBlock(
        reason=body.reason,
        host=body.host,
        selector=body.selector,
        command_type=body.command_type,
        owner=body.owner,
        effect=body.effect,
        on_running=body.on_running,
        on_lift=body.on_lift,
        window=None if body.window is None else msgspec.structs.asdict(body.window),
        expires_at=_end(call, body.expires_at, body.expires_in_seconds),
    )
    host = None if body.host is None else await _host_name(call, project, body.host)
    now = call.services.now()
    by = _by(call, project, lambda block: block.id, body.reason, host=host, now=now, status=201)
    row = await call.services.fleet.blocks.add(project, new, by)
    return _answer(call, row, now, host, status=201)


async def change(call: Call, block_id: str, body: BlockChange) -> Answer:
    await call.check_answered(O.BLOCKS_WRITE)
    row = await _read(call, O.BLOCKS_WRITE, block_id)
    fields: dict[str, Any] = {
        name: value
        for name in ("reason", "command_type", "owner", "effect", "on_running", "on_lift")
        if (value := getattr(body, name)) is not UNSET
    }
    if not isinstance(body.window, UnsetType):
        fields["window"] = None if body.window is None else msgspec.structs.asdict(body.window)
    if body.expires_at is not UNSET or body.expires_in_seconds is not UNSET:
        fields["expires_at"] = _end(call, body.expires_at or None, body.expires_in_seconds or None)
    host = await _host_of(call, row)
    now, wanted = call.services.now(), body.expected_version
    by = _by(
        call,
        row.project,
        block_id,
        body.reason or "",
        host=host,
        now=now,
        expected_version=wanted,
    )
    with call.preconditions():
        row = await call.services.fleet.blocks.edit(block_id, by, **fields)
    return _answer(call, row, now, host)


async def lift(
    call: Call, block_id: str, *, reason: str = "", expected_version: int | None = None
) -> Answer:
    """Ends a block. What it held goes on as its `on_lift` says."""
    await call.check_answered(O.BLOCKS_WRITE)
    row = await _read(call, O.BLOCKS_WRITE, block_id)
    host = await _host_of(call, row)
    now = call.services.now()
    by = _by(
        call, row.project, block_id, reason, host=host, now=now, expected_version=expected_version
    )
    with call.preconditions():
        row = await call.services.fleet.blocks.lift(block_id, by)
    return _answer(call, row, now, host)


# -- parts -------------------------------------------------------------------------------------------


async def _read(call: Call, operation: Operation, block_id: str) -> Block:
    """The block, judged by its own project. An agent reads those of its host."""
    own = call.principal.node
    call.authorise_any(operation, owner_node=own)
    try:
        row = await call.services.fleet.blocks.get(block_id)
    except NotFound:
        raise missing(NOUN, block_id) from None
    call.authorise(operation, project=row.project, owner_node=own, noun=NOUN, id=block_id)
    host = own_host(call)
    if host is not None and host not in [h.id for h in await _affected(call, row)]:
        raise missing(NOUN, block_id)
    return row


async def _affected(call: Call, row: Block) -> Sequence[Any]:
    return await call.services.fleet.blocks.affected(row)


def _end(call: Call, at: str | UnsetType | None, seconds: float | UnsetType | None) -> float | None:
    if isinstance(at, str) and isinstance(seconds, int | float):
        raise InvalidInput("give either expires_at or expires_in_seconds")
    if isinstance(at, str):
        return parse_time("expires_at", at)
    if isinstance(seconds, int | float):
        now = call.services.now()
        return now + check_positive("expires_in_seconds", seconds, most=TIME_MAX - now)
    return None


async def _host_name(call: Call, project: str, host: str) -> str | None:
    """The name of a host. None if there is none: the use case refuses it."""
    try:
        return (await call.services.fleet.hosts.get(project, host)).name
    except NotFound:
        return None


async def _host_of(call: Call, row: Block) -> str | None:
    """The name of the block's host, which may be removed."""
    if row.host_id is None:
        return None
    hosts = await call.services.fleet.hosts.pinned([row.host_id])
    return hosts[row.host_id].name if row.host_id in hosts else None


async def _rows(call: Call, blocks: Sequence[Block]) -> list[View]:
    ids = [block.host_id for block in blocks if block.host_id is not None]
    hosts = await call.services.fleet.hosts.pinned(ids) if ids else {}
    now = call.services.now()
    names = {host_id: host.name for host_id, host in hosts.items()}
    types = _types(call)
    return [
        views.block_row(block, now, host=names.get(block.host_id or ""), types=types)
        for block in blocks
    ]


def _types(call: Call) -> Collection[str]:
    """The command types that there are."""
    return call.services.fleet.rules.command_types.keys()


async def _shown(call: Call, row: Block) -> View:
    affected = [host.name for host in await _affected(call, row)]
    host = await _host_of(call, row)
    return views.block(row, call.services.now(), host=host, types=_types(call), affected=affected)


def _by(
    call: Call,
    project: str,
    subject: str | Callable[[Block], str],
    reason: str,
    *,
    host: str | None,
    now: float,
    expected_version: int | None = None,
    status: int = 200,
) -> By:
    actor = call.authorise(O.BLOCKS_WRITE, project=project).actor
    return call.by(
        O.BLOCKS_WRITE,
        project=project,
        subject=subject,
        actor=actor,
        reason=reason,
        expected_version=expected_version,
        answer=lambda row: _answer(call, row, now, host, status=status),
    )


def _answer(call: Call, row: Block, now: float, host: str | None, *, status: int = 200) -> Answer:
    """A changed block. The hosts that it is about are read with the block itself. `now`: the time of the
    request, so that its repeat gets the same answer."""
    at = max(now, row.lifted_at or 0.0)
    return Answer(views.block_row(row, at, host=host, types=_types(call)), status, row.version)
