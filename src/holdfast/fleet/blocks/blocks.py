"""Use cases of blocks: add, edit, lift, list, and those that count now.

Promises: every change raises the epoch of the project's blocks. A block counts no more at its end, whether or
not a loop has noted it: who reads judges by the time. `active` costs one small read while nothing changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from holdfast.clock import Clock
from holdfast.core import codec
from holdfast.core.check import check_choice, check_page
from holdfast.core.fleet.blocks import block as rules
from holdfast.core.fleet.model import (
    BLOCK_PREFIX,
    Block,
    BlockEffect,
    Host,
    OnLift,
    OnRunning,
)
from holdfast.core.wire import check_project
from holdfast.engine.loop import Loop
from holdfast.errors import InvalidInput
from holdfast.fleet.blocks import scripts
from holdfast.fleet.hosts.groups import read_selectors
from holdfast.queue.by import By
from holdfast.store.store import Store

EXPIRE_BATCH: Final = 500
PROJECTS_CACHED: Final = 1_000
ANY_TYPE: Final = "*"
LOOK_SECONDS: Final = 10.0
"""How often a loop looks for blocks that end."""


class NewBlock(msgspec.Struct, frozen=True, kw_only=True):
    """A block to add, for a host (name or id) or for the hosts of a selector."""

    reason: str
    host: str | None = None
    selector: str | None = None
    command_type: str = ANY_TYPE
    owner: str = ""
    """'' for who adds it."""
    effect: str = BlockEffect.REFUSE.value
    on_running: str = OnRunning.FINISH.value
    on_lift: str = OnLift.REQUEUE.value
    window: Mapping[str, object] | None = None
    """`{rrule, duration_seconds, timezone}`."""
    expires_at: float | None = None


class Blocks:
    """The use cases of blocks."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._active: dict[str, tuple[int, Sequence[Block]]] = {}

    # -- changes -----------------------------------------------------------------------------------

    async def add(self, project: str, new: NewBlock, by: By) -> Block:
        """UnknownHost for a host that does not exist, BadSelector if the selector cannot be read."""
        by.of_unversioned("a new block")
        check_project("project", project)
        if (new.host is None) == (new.selector is None):
            raise InvalidInput("a block is for a host or for a selector: give one of them")
        now = self._store.now()
        block = Block(
            id=BLOCK_PREFIX + self._store.ids.task(now).replace("-", ""),
            project=project,
            selector=new.selector,
            command_type=new.command_type,
            reason=new.reason,
            owner=new.owner or by.actor,
            effect=check_choice("effect", new.effect, BlockEffect),
            on_running=check_choice("on_running", new.on_running, OnRunning),
            on_lift=check_choice("on_lift", new.on_lift, OnLift),
            window_json=_window(new.window),
            expires_at=new.expires_at,
            created_at=now,
        )
        return await self._store.run(partial(scripts.add, block=block, host=new.host, by=by))

    async def edit(self, block_id: str, by: By, **fields: Any) -> Block:
        """Changes `command_type`, `reason`, `owner`, `effect`, `on_running`, `on_lift`, `window` (None: none)
        or `expires_at` (None: never). Conflict if the block has ended."""
        script = partial(scripts.change, block_id=block_id, fields=_fields(fields), by=by)
        return await self._store.run(script)

    async def lift(self, block_id: str, by: By) -> Block:
        """Ends a block. A second call changes nothing."""
        return await self._store.run(partial(scripts.lift, block_id=block_id, by=by))

    async def expire(self) -> list[Block]:
        """Notes the end of blocks whose time is over, with events. Returns them; what they held goes on.
        A loop calls it when `next_due` has passed."""
        return await self._store.run(partial(scripts.expire, limit=EXPIRE_BATCH))

    # -- reads -------------------------------------------------------------------------------------

    async def get(self, block_id: str) -> Block:
        """NotFound if there is none."""
        return await self._store.read(lambda: scripts.read(block_id))

    async def active(self, project: str) -> Sequence[Block]:
        """The blocks of a project that are not over. Windows of theirs may be closed."""
        known = self._active.get(project)
        epoch, blocks = await self._store.read(
            lambda: scripts.active_since(project, None if known is None else known[0])
        )
        if blocks is None:
            assert known is not None
            blocks = list(known[1])
        else:
            if len(self._active) >= PROJECTS_CACHED:
                self._active.clear()
            self._active[project] = (epoch, blocks)
        now = self._store.now()
        return [block for block in blocks if not rules.is_over(block, now)]

    async def next_due(self) -> float | None:
        """When a block of any project starts or stops to count by itself. None: never."""
        now = self._store.now()
        return await self._store.read(lambda: scripts.next_due(now))

    async def affected(self, block: Block) -> Sequence[Host]:
        """The hosts that a block is about."""
        return await self._store.read(lambda: scripts.affected(block))

    async def of_hosts(self, project: str, hosts: Sequence[Host]) -> dict[str, Sequence[Block]]:
        """The blocks in force for each of these hosts, by its id."""
        now = self._store.now()
        blocks = [b for b in await self.active(project) if rules.is_in_force(b, now)]
        groups = await self._store.read(lambda: read_selectors(project)) if blocks else {}
        return dict(rules.by_host(blocks, hosts, groups))

    async def list(
        self, project: str, *, lifted: bool = False, after: str = "", limit: int = 100
    ) -> list[Block]:
        """One page by time of creation; or with `lifted` the latest that were lifted or have expired. Those
        whose time is over are among the first until it is noted."""
        check_page(limit)
        return await self._store.read(
            lambda: scripts.page(project, lifted=lifted, after=after, limit=limit)
        )


class BlockLoop(Loop):
    """Notes the ends of blocks, with their events and the new epoch."""

    name = "fleet-blocks"

    def __init__(self, blocks: Blocks, store: Store, clock: Clock) -> None:
        super().__init__(clock)
        self._blocks = blocks
        self._store = store

    async def tick(self) -> float:
        if len(await self._blocks.expire()) == EXPIRE_BATCH:
            return 0.0
        due = await self._blocks.next_due()
        now = self._store.now()
        return LOOK_SECONDS if due is None or due <= now else min(LOOK_SECONDS, due - now)


_ENUMS: Final = {"effect": BlockEffect, "on_running": OnRunning, "on_lift": OnLift}
_OTHERS: Final = frozenset({"command_type", "reason", "owner", "expires_at"})


def _fields(given: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in given.items():
        if name == "window":
            fields["window_json"] = _window(value)
        elif name in _ENUMS:
            fields[name] = check_choice(name, value, _ENUMS[name])
        elif name in _OTHERS:
            fields[name] = value
        else:
            raise InvalidInput(f"a block has no field '{name}' that can be changed")
    return fields


def _window(window: Mapping[str, object] | None) -> str | None:
    try:
        return None if window is None else codec.dumps(dict(window))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"window is wrong: {error}") from None
