"""Transactions of blocks.

Promises: a change of a block raises the epoch of its project in the same transaction, with the event and what
a caller writes beside it (the audit). A new block locks the project before it looks at groups, so no group
that it names is removed meanwhile. Never: changes executions; the rollout does when it sees the change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from holdfast.core.errors import UnknownHost
from holdfast.core.event import NewEvent
from holdfast.core.fleet.blocks import block as rules
from holdfast.core.fleet.model import Block, Host
from holdfast.core.ids import Ids
from holdfast.core.wire import preview
from holdfast.errors import BatchTooLarge, Conflict, NotFound
from holdfast.fleet.block_epoch import raise_epoch, read_epoch
from holdfast.fleet.hosts import scripts as host_scripts
from holdfast.fleet.hosts.groups import SELECTOR_BYTES_SHOWN, read_selectors, select
from holdfast.fleet.rows import BLOCKS, own
from holdfast.queue.by import By
from holdfast.store.beside import begin, end
from holdfast.store.port import Dialect
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts.work import Work
from holdfast.sync.rows import event_of

BLOCKS_MAX: Final = 1_000
"""Blocks of a project that have not been lifted."""
WINDOWED_MAX: Final = 1_000
"""Blocks with windows, of all projects, that one look reads."""
EXPIRED: Final = "expired"
"""Who ended a block whose time was over."""


def add(
    dialect: Dialect, ids: Ids, now: float, *, block: Block, host: str | None, by: By
) -> Script[Block]:
    """`host`: the name or id of the host of the block. UnknownHost if there is none, or if the selector names
    one that does not exist."""
    yield from begin(by.beside, now)
    yield from raise_epoch(block.project, now)
    if (yield call(own("count_blocks"), project=block.project))[0][0] >= BLOCKS_MAX:
        raise BatchTooLarge(f"project '{block.project}' has {BLOCKS_MAX} blocks: lift one first")
    if host is not None:
        found = yield from host_scripts.find(block.project, [host])
        if found.unknown:
            raise UnknownHost(found.unknown, ["host"])
        block = replace(block, host_id=found.hosts[host].id)
    block = replace(block, created_at=now)
    rules.check_block(block, now)
    if block.selector is not None:
        yield from select(block.project, block.selector)
    yield call_rows(own("add_block"), [BLOCKS.row(block)])
    yield from end(by.beside, block, now)
    yield from _tell(dialect, ids, now, [_event("block.added", block, by.actor, by.reason, now)])
    return block


def change(
    dialect: Dialect, ids: Ids, now: float, *, block_id: str, fields: dict[str, Any], by: By
) -> Script[Block]:
    """Changes fields of a block that has not ended."""
    yield from begin(by.beside, now)
    before = yield from _locked(block_id)
    host_scripts.check_version(f"block {block_id}", before.version, by.expected_version)
    if rules.is_over(before, now):
        raise Conflict(f"block {block_id} has ended: add another one")
    after = replace(before, **fields)
    if after != before:
        after = replace(after, version=before.version + 1)
        rules.check_block(after, now)
        yield from _write([after], now)
    yield from end(by.beside, after, now)
    if after != before:
        event = _event("block.changed", after, by.actor, by.reason, now)
        yield from _tell(dialect, ids, now, [event])
    return after


def lift(dialect: Dialect, ids: Ids, now: float, *, block_id: str, by: By) -> Script[Block]:
    """Ends a block. One that has ended stays as it is."""
    yield from begin(by.beside, now)
    before = yield from _locked(block_id)
    host_scripts.check_version(f"block {block_id}", before.version, by.expected_version)
    after = before
    if not rules.is_over(before, now):
        after = _ended(before, now, by.actor)
        yield from _write([after], now)
    yield from end(by.beside, after, now)
    if after != before:
        event = _event("block.lifted", after, by.actor, by.reason, now)
        yield from _tell(dialect, ids, now, [event])
    return after


def expire(dialect: Dialect, ids: Ids, now: float, *, limit: int) -> Script[list[Block]]:
    """Notes the end of blocks whose time is over. They count no more since that time, noted or not."""
    rows = yield call(own("expired_blocks"), now=now, limit=limit)
    ended = [_ended(block, block.expires_at or now, EXPIRED) for block in BLOCKS.read_all(rows)]
    if ended:
        yield from _write(ended, now)
        events = [_event("block.expired", block, EXPIRED, "", now) for block in ended]
        yield from _tell(dialect, ids, now, events)
    return ended


def read(block_id: str) -> Script[Block]:
    rows = yield call(own("get_block"), id=block_id)
    if not rows:
        raise _missing(block_id)
    return BLOCKS.read(rows[0])


def active(project: str) -> Script[list[Block]]:
    """Those that have not been lifted; the rules look at their times."""
    return BLOCKS.read_all((yield call(own("active_blocks"), project=project)))


def active_since(project: str, epoch: int | None) -> Script[tuple[int, list[Block] | None]]:
    """The epoch, and the active blocks if it is another one than the caller knows."""
    current = yield from read_epoch(project)
    return current, None if current == epoch else (yield from active(project))


def page(project: str, *, lifted: bool, after: str, limit: int) -> Script[list[Block]]:
    if lifted:
        rows = yield call(own("list_lifted_blocks"), project=project, limit=limit)
    else:
        rows = yield call(own("list_blocks"), project=project, after=after, limit=limit)
    return BLOCKS.read_all(rows)


def affected(block: Block) -> Script[list[Host]]:
    """The hosts that a block is about, by name. One that was removed is not among them."""
    if block.host_id is not None:
        found = yield from host_scripts.find(block.project, [block.host_id])
        return list(found.hosts.values())
    hosts = yield from host_scripts.inventory(block.project, with_facts=True)
    groups = yield from read_selectors(block.project)
    about = rules.by_host([block], hosts, groups)
    return [host for host in hosts if about[host.id]]


def next_due(now: float) -> Script[float | None]:
    """When the next block starts or stops to count by itself. A time that has passed: `expire` is due."""
    ends = [row[0] for row in (yield call(own("next_block_end")))]
    rows = yield call(own("windowed_blocks"), limit=WINDOWED_MAX)
    change_at = rules.next_change(BLOCKS.read_all(rows), now)
    return min([*ends, *([] if change_at is None else [change_at])], default=None)


def _locked(block_id: str) -> Script[Block]:
    rows = yield call(own("lock_block"), id=block_id)
    if not rows:
        raise _missing(block_id)
    return BLOCKS.read(rows[0])


def _write(blocks: Sequence[Block], now: float) -> Script[None]:
    yield call_rows(own("write_block"), [BLOCKS.row(block) for block in blocks])
    for project in sorted({block.project for block in blocks}):
        yield from raise_epoch(project, now, forbids=any(not b.lifted_at for b in blocks))


def _ended(block: Block, at: float, actor: str) -> Block:
    return replace(block, lifted_at=at, lifted_by=actor, version=block.version + 1)


def _missing(block_id: str) -> NotFound:
    return NotFound(f"there is no block {block_id}: see the list of blocks")


def _event(kind: str, block: Block, actor: str, reason: str, now: float) -> NewEvent:
    data: dict[str, Any] = {
        "block": block.id,
        "command_type": block.command_type,
        "effect": block.effect.value,
        "block_reason": block.reason,
        "owner": block.owner,
        "expires_at": block.expires_at,
        "version": block.version,
        "actor": actor,
        "reason": reason,
    }
    if block.host_id is not None:
        data["host"] = block.host_id
    else:
        data["selector"] = preview(block.selector or "", SELECTOR_BYTES_SHOWN)
    return event_of(kind, now, block.project, data)


def _tell(dialect: Dialect, ids: Ids, now: float, events: Sequence[NewEvent]) -> Script[None]:
    work = Work(now)
    work.events += events
    yield from work.save(dialect, ids.record(now))
