"""The exchange with nodes that work offline: handshake, pull and push.

Promises: a position is read before the data that it is answered with, so a node that goes on from there
misses nothing. A refusal carries the authoritative state. A repeated push is answered, not repeated.
Never: decides by a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.core import codec
from holdfast.core.check import check_name, check_page, check_whole
from holdfast.core.event import Event, Position
from holdfast.core.exchange.bounds import HANDSHAKE_MAX, PULL_MAX, PUSH_MAX
from holdfast.core.exchange.handshake import (
    ClientEntry,
    Handshake,
    ServerEntry,
    Tombstone,
    compare,
)
from holdfast.core.exchange.item import Item
from holdfast.core.exchange.item_wire import InvalidItem
from holdfast.core.hub_rules import RULES, HubRules
from holdfast.core.speaking import Voice
from holdfast.core.task import DEFAULT_PROJECT, Task
from holdfast.core.wire import WHOLE_MAX, make_cursor, parse_cursor
from holdfast.errors import BatchTooLarge, InvalidInput
from holdfast.store.script import Script, call
from holdfast.store.scripts.feed import Reset
from holdfast.store.store import Store
from holdfast.sync.exchange import push_script
from holdfast.sync.exchange.push_script import Push, Pushed, Undone
from holdfast.sync.log import LogRow, write_log
from holdfast.sync.names import resolve
from holdfast.sync.rows import RegisteredNode, own, read_project, read_sync_rows
from holdfast.sync.sync_task import SyncTask, row_of, view
from holdfast.sync.tally import write_tally

PULL_BYTES: Final = 4_194_304
"""Bytes of payloads and results after which the answer to a pull of names is cut."""
PULL_STEP: Final = 25
"""Tasks that such a pull reads at a time."""
FEED_PAGE: Final = 500
FEED_PAGES: Final = 20
"""Pages of the feed that one call reads."""
DELETED: Final = "task.deleted"


class ResetAnswer(msgspec.Struct, frozen=True):
    """The node has to start over: drop its bases, pull all, then push its mutations."""

    reason: str
    cursor: Position


class Changes(msgspec.Struct, frozen=True):
    """One page of what a project has, or of what changed after a position."""

    tasks: list[SyncTask]
    deleted: dict[str, Tombstone]
    cursor: Position
    """Where to go on when all pages were read."""
    next_cursor: str | None
    reset: ResetAnswer | None = None


class HandshakeAnswer(msgspec.Struct, frozen=True):
    handshake: Handshake
    clock: int
    cursor: Position
    next_cursor: str | None
    reset: ResetAnswer | None


class PullAnswer(msgspec.Struct, frozen=True):
    tasks: list[SyncTask]
    deleted: dict[str, Tombstone]
    missing: list[str]
    clock: int
    cursor: Position
    next_cursor: str | None
    reset: ResetAnswer | None
    is_cut: bool = False
    """Whether names are left over. Those that are in no list are asked for again."""


class PushAnswer(msgspec.Struct, frozen=True):
    pushed: Pushed
    cursor: Position


class Exchange:
    """The use cases of the exchange. `on_changed` is called after a commit that changed tasks."""

    def __init__(
        self,
        store: Store,
        on_changed: Callable[[], None] = lambda: None,
        rules: HubRules = RULES,
    ) -> None:
        self._store = store
        self._on_changed = on_changed
        self._rules = rules

    async def handshake(
        self,
        node: RegisteredNode,
        project: str,
        versions: Mapping[str, int],
        *,
        bases: Mapping[str, ClientEntry] | None = None,
        cursor: str | None = None,
        limit: int = 500,
    ) -> HandshakeAnswer:
        """Compares the versions of a node with those of the server. Changes no task; the log has an entry."""
        check_page(limit)
        if len(versions) > HANDSHAKE_MAX:
            raise BatchTooLarge(f"{len(versions)} tasks: at most {HANDSHAKE_MAX} are compared")
        for name, version in versions.items():
            check_name("taskVersions", name)
            check_whole(f"taskVersions.{name}", version, least=0, most=WHOLE_MAX)
        client = {name: ClientEntry(version) for name, version in versions.items()}
        for name, base in (bases or {}).items():
            if name in client:
                client[name] = replace(base, version=client[name].version)
        changes = await self.changes(project, cursor, limit)
        known, stones = await self._named(project, list(client))
        server = {task.id: task for task in [*known, *changes.tasks]}
        entries = {
            name: ServerEntry(task.version, _hash(task, client.get(name)))
            for name, task in server.items()
        }
        clock = (await self._store.read(lambda: read_project(project))).clock
        deleted = {name: s for name, s in changes.deleted.items() if name not in server}
        compared = compare(client, entries, {**deleted, **stones})
        outcome = "conflict" if compared.conflicts else "accepted"
        await self._store.run(
            lambda _dialect, _ids, now: _log_handshake(node, project, outcome, clock, now)
        )
        return HandshakeAnswer(
            compared,
            clock,
            changes.cursor,
            changes.next_cursor,
            changes.reset,
        )

    async def pull(
        self,
        node: RegisteredNode,
        project: str,
        *,
        names: Sequence[str] | None = None,
        cursor: str | None = None,
        limit: int = 500,
    ) -> PullAnswer:
        """The tasks of these names, or what changed after the cursor, or all."""
        check_page(limit)
        clock = (await self._store.read(lambda: read_project(project))).clock
        if names is None:
            page = await self.changes(project, cursor, limit)
            return PullAnswer(
                page.tasks, page.deleted, [], clock, page.cursor, page.next_cursor, page.reset
            )
        if len(names) > PULL_MAX:
            raise BatchTooLarge(f"{len(names)} tasks: at most {PULL_MAX} are pulled at once")
        head = await self._store.feed.head()
        asked = [check_name("taskIds", name) for name in names]
        tasks: list[SyncTask] = []
        stones: dict[str, Tombstone] = {}
        read = size = 0
        while read < len(asked) and size < PULL_BYTES:
            found, gone = await self._named(project, asked[read : read + PULL_STEP])
            tasks += found
            stones |= gone
            read += PULL_STEP
            size += sum(len(codec.dumps([task.payload, task.result])) for task in found)
        # A task answers to its name, and to its id in the store.
        there = {name for task in tasks for name in (task.id, task.task_id)}
        missing = [name for name in asked[:read] if name not in there and name not in stones]
        is_cut = read < len(asked)
        return PullAnswer(tasks, stones, missing, clock, head, None, None, is_cut)

    async def push(
        self,
        voice: Voice,
        project: str,
        items: Sequence[Item | InvalidItem],
        *,
        local_clock: int = 0,
        is_atomic: bool = False,
    ) -> PushAnswer:
        """Judges and applies the items of a node, in one transaction. An item that is not valid is answered
        by a refusal; the others go on."""
        if len(items) > PUSH_MAX:
            raise BatchTooLarge(f"{len(items)} items: at most {PUSH_MAX} are pushed at once")
        check_whole("localClock", local_clock, least=0, most=WHOLE_MAX)
        store = self._store
        now = store.now()
        request = Push(
            voice,
            project,
            items,
            [store.ids.task(now) for _ in items],
            ["con_" + store.ids.task(now).replace("-", "") for _ in items],
            local_clock,
            is_atomic,
            self._rules,
        )
        pushed = await self._run(request)
        if pushed.has_changed:
            self._on_changed()
        return PushAnswer(pushed, await store.feed.head())

    async def _run(self, request: Push) -> Pushed:
        try:
            return await self._store.run(partial(push_script.push, request=request))
        except Undone as undone:
            return Pushed(undone.results, undone.clock, False, False)

    async def changes(self, project: str, cursor: str | None, limit: int) -> Changes:
        """One page of what changed after the cursor; without one, of all tasks."""
        if cursor is None:
            return await self._listed(project, await self._store.feed.head(), "", limit)
        try:
            position = Position.parse(cursor)
        except ValueError:
            epoch, offset, after = _list_cursor(cursor, project)
            return await self._listed(project, Position(epoch, offset), after, limit)
        return await self._since(project, position, limit)

    async def _listed(self, project: str, start: Position, after: str, limit: int) -> Changes:
        tasks = await self._store.read(lambda: read_page(project, after, limit))
        next_cursor = None
        if len(tasks) == limit:
            last = tasks[-1].task_id
            next_cursor = make_cursor((start.epoch, start.offset, last), of=_list_of(project))
        return Changes(tasks, {}, start, next_cursor)

    async def _since(self, project: str, position: Position, limit: int) -> Changes:
        """Reads the feed up to its head, or as far as the page goes."""
        ids: dict[str, None] = {}
        deleted: dict[str, Tombstone] = {}
        for _ in range(FEED_PAGES):
            page = await self._store.feed.read(position, FEED_PAGE)
            if isinstance(page, Reset):
                await self._store.run(lambda *_: write_tally(project, {"resets": 1}))
                answer = ResetAnswer(page.reason.value, page.head)
                return Changes([], {}, page.head, None, answer)
            for event in page.events:
                if len(ids) + len(deleted) >= limit:
                    break
                position = event.position
                _collect(event, project, ids, deleted)
            else:
                position = page.position
                if position == page.head:
                    break
                continue
            break
        tasks = await self._store.read(lambda: read_tasks(list(ids)))
        there = {task.id for task in tasks}
        gone = {name: stone for name, stone in deleted.items() if name not in there}
        head = await self._store.feed.head()
        return Changes(tasks, gone, position, None if position == head else str(position))

    async def _named(
        self, project: str, names: Sequence[str]
    ) -> tuple[list[SyncTask], dict[str, Tombstone]]:
        """The tasks of these names, and the tombstones of the others."""

        def script() -> Script[tuple[list[SyncTask], dict[str, Tombstone]]]:
            ids = yield from resolve(project, names)
            tasks = yield from read_tasks(list(dict.fromkeys(ids.values())))
            there = {task.task_id for task in tasks}
            rest = [name for name in names if ids.get(name) not in there]
            rows = yield call(own("tombstones"), project=project, client_ids=rest)
            return tasks, {row[0]: Tombstone(row[1], row[2]) for row in rows}

        return await self._store.read(script)


def read_tasks(ids: Sequence[str]) -> Script[list[SyncTask]]:
    """The views of tasks, in the order of the ids."""
    tasks: list[Task] = (yield call("get_tasks", ids=list(ids))) if ids else []
    views = {view.task_id: view for view in (yield from views_of(tasks))}
    return [views[task_id] for task_id in ids if task_id in views]


def read_page(project: str, after: str, limit: int) -> Script[list[SyncTask]]:
    """One page of the tasks of a project, by id."""
    if project == DEFAULT_PROJECT:
        tasks = yield call(own("page_default"), after=after, limit=limit)
    else:
        tasks = yield call(own("page_project"), project=project, after=after, limit=limit)
    return (yield from views_of(tasks))


def views_of(tasks: Sequence[Task]) -> Script[list[SyncTask]]:
    rows = yield from read_sync_rows([task.id for task in tasks])
    return [view(task, row_of(task, rows)) for task in tasks]


def _hash(task: SyncTask, entry: ClientEntry | None) -> str | None:
    """The content hash, where the node sent one to compare with."""
    return task.content_hash if entry is not None and entry.hash is not None else None


def _collect(
    event: Event, project: str, ids: dict[str, None], deleted: dict[str, Tombstone]
) -> None:
    """Notes the task of an event of this project."""
    if not event.task_id or (event.project or DEFAULT_PROJECT) != project:
        return
    if event.kind == DELETED:
        ids.pop(event.task_id, None)
        deleted[event.data["client_id"]] = Tombstone(event.version, event.at)
    else:
        ids[event.task_id] = None


def _list_of(project: str) -> str:
    return f"sync:{project}"


def _list_cursor(cursor: str, project: str) -> tuple[str, int, str]:
    values = parse_cursor(cursor, of=_list_of(project))
    match values:
        case (str(epoch), int(offset), str(after)):
            return epoch, offset, after
    raise InvalidInput("cursor is not one of this list: start without a cursor")


def _log_handshake(
    node: RegisteredNode, project: str, outcome: str, clock: int, now: float
) -> Script[None]:
    row = LogRow("handshake", outcome)
    yield from write_log([row], project=project, node=node.id, clock=clock, now=now)
