"""The exchange of an offline node with the server: handshake, pull, push, until both agree.

Promises: safe to end at any moment and to repeat. Every refusal makes the node adopt the server's state. The
cursor moves after what came before it is on the disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

import msgspec

from holdfast.client.node.journal import Journal, Left
from holdfast.clock import Clock
from holdfast.core.errors import TooLarge
from holdfast.core.exchange.bounds import HANDSHAKE_MAX, PULL_MAX
from holdfast.core.exchange.item_wire import encode_item
from holdfast.core.exchange.offline import (
    CONTENT,
    NO_TASK,
    SEND_BYTES_MAX,
    Fields,
    Mutation,
    Replica,
    after_refusal,
    after_reset,
    after_success,
    batches,
    entries,
    item_of,
    overlay,
    to_send,
)
from holdfast.errors import BatchTooLarge, Conflict

PUSHED_AT_ONCE: Final = 100
"""Items of one request, fewer than the server takes: an answer that was lost costs less."""
BYTES_MIN: Final = 1_000
"""A gateway that refuses even such small requests as too large is not asked again."""
ROUNDS_MAX: Final = 1_000
"""Rounds of one sync. Each pushes or pulls something: only a server that always changes needs many."""


class SyncServer(Protocol):
    """The three calls, as the protocol names their fields."""

    async def handshake(self, body: Fields) -> Fields: ...

    async def pull(self, body: Fields) -> Fields: ...

    async def push(self, body: Fields) -> Fields: ...


class SyncReport(msgspec.Struct):
    """What one sync did. `refused`: changes that are in `conflicts()` now."""

    pulled: int = 0
    pushed: int = 0
    refused: int = 0
    resets: int = 0
    rounds: int = 0


class Exchange:
    """Brings a journal and a server together."""

    def __init__(self, journal: Journal, server: SyncServer, node_id: str, clock: Clock) -> None:
        self._journal = journal
        self._server = server
        self._node_id = node_id
        self._clock = clock
        self._bytes_max = SEND_BYTES_MAX

    async def sync(self) -> SyncReport:
        """Handshakes, pulls and pushes until nothing is left to do."""
        report = SyncReport()
        while report.rounds < ROUNDS_MAX:
            report.rounds += 1
            try:
                if not await self._round(report):
                    return report
            except (TooLarge, BatchTooLarge):
                # A gateway may be set to take less. A round may be repeated.
                if self._bytes_max <= BYTES_MIN:
                    raise
                self._bytes_max //= 2
        raise Conflict(f"the node is not in sync after {ROUNDS_MAX} rounds: sync again later")

    async def _round(self, report: SyncReport) -> bool:
        """One round. Returns whether another one is needed."""
        stale, gone, cursor = await self._handshake()
        if cursor is None:
            report.resets += 1
            return True
        has_pulled = await self._pull(stale, gone, report)
        self._journal.set_value("cursor", cursor)
        reset = self._journal.value("reset")
        if reset is not None:
            versions = {replica.id: replica.version for replica in self._journal.replicas()}
            self._journal.end_reset(after_reset(reset, self._journal.log(), versions))
        return await self._push(report) or has_pulled

    # -- reading -----------------------------------------------------------------------------------

    async def _handshake(self) -> tuple[list[str], list[str], str | None]:
        """The tasks to pull, the deleted ones, and the position to continue from. No position: the node
        starts over."""
        journal = self._journal
        replicas = journal.replicas()
        versions, bases = entries(replicas, journal.log())
        stale = dict.fromkeys(replica.id for replica in replicas if replica.needs_pull)
        gone: dict[str, None] = {}
        place: str | None = journal.value("cursor")
        final: str | None = None
        pages = batches(
            versions,
            lambda name: len(encode_item({name: versions[name], "": {name: bases[name]}})),
            count_max=HANDSHAKE_MAX,
            bytes_max=self._bytes_max,
        )
        page: list[str] | None = next(pages, [])
        while True:
            page = page or []
            answer = await self._server.handshake(
                self._body(
                    taskVersions={name: versions[name] for name in page},
                    bases={name: bases[name] for name in page},
                    cursor=place,
                )
            )
            self._note_clock(answer)
            if answer.get("reset"):
                journal.start_over(str(answer["reset"].get("reason", "")))
                return [], [], None
            stale |= dict.fromkeys([*answer.get("needsPull", ()), *answer.get("newTasks", ())])
            gone |= dict.fromkeys(each["taskId"] for each in answer.get("deleted", ()))
            final = answer["cursor"]
            page = next(pages, None)
            following = answer.get("nextCursor")
            if following is None and page is None:
                break
            place = following or final
        known = {replica.id for replica in replicas} | set(versions)
        return [name for name in stale if name not in gone], [n for n in gone if n in known], final

    async def _pull(self, stale: Sequence[str], gone: Sequence[str], report: SyncReport) -> bool:
        journal = self._journal
        dirty = {mutation.task_id for mutation in journal.log()}
        # A deleted task with local changes stays until their push is refused: then they are evidence.
        removed = [name for name in gone if name not in dirty]
        present = {replica.id for replica in journal.replicas()}
        journal.adopt([], removed)
        for names in batches(
            stale,
            lambda name: len(encode_item({name: 0})),
            count_max=PULL_MAX,
            bytes_max=self._bytes_max,
        ):
            await self._pull_named(names, report)
        return bool(stale) or any(name in present for name in removed)

    async def _pull_named(self, names: Sequence[str], report: SyncReport) -> None:
        """Reads these tasks. An answer that would be too large has the first of them: the rest is asked for
        again."""
        left = list(names)
        while left:
            answer = await self._server.pull(self._body(taskIds=left))
            self._note_clock(answer)
            tasks = [replica_of(task) for task in answer["tasks"]]
            lost = [
                *answer.get("missing", ()),
                *(each["taskId"] for each in answer.get("deleted", ())),
            ]
            self._journal.adopt(tasks, lost)
            report.pulled += len(tasks)
            answered = {*lost, *(task.id for task in tasks)}
            if answered.isdisjoint(left):
                return
            left = [name for name in left if name not in answered]

    # -- writing -----------------------------------------------------------------------------------

    async def _push(self, report: SyncReport) -> bool:
        sealings = to_send(self._journal.log(), PUSHED_AT_ONCE, self._bytes_max)
        if not sealings:
            return False
        self._journal.seal(sealings)
        mutations = [sealing.mutation for sealing in sealings]
        try:
            answer = await self._server.push(
                self._body(
                    tasks=[item_of(mutation) for mutation in mutations],
                    localClock=int(self._journal.value("clock") or 0),
                )
            )
        except (TooLarge, BatchTooLarge) as error:
            if len(mutations) > 1:
                raise
            # No request can carry it: it must not block the changes after it.
            answer = {"results": [{"error": "TOO_LARGE", "detail": str(error)}]}
        self._note_clock(answer)
        for mutation, result in zip(mutations, answer["results"], strict=True):
            if result.get("success"):
                report.pushed += 1
                report.refused += int(bool(result.get("contentError")))
                self._accept(mutation, result)
            else:
                report.refused += 1
                self._refuse(mutation, result)
        return True

    def _accept(self, mutation: Mutation, result: Fields) -> None:
        journal = self._journal
        version = int(result["newVersion"])
        moved = after_success(mutation, self._later(mutation), version)
        replica = journal.replica(mutation.task_id)
        content = overlay(None if replica is None else replica.content, [mutation])
        state = {**(content or {}), "id": mutation.task_id, "version": version}
        # Others may have written before: the whole state is read again.
        journal.accept(
            mutation,
            moved,
            Replica(mutation.task_id, version, None, state, needs_pull=True),
            content_left(mutation, result),
            self._clock.now(),
        )

    def _refuse(self, mutation: Mutation, result: Fields) -> None:
        """The server's state replaces the local one; the local change is kept as evidence."""
        journal = self._journal
        ended = [mutation, *after_refusal(mutation, self._later(mutation))]
        state = result.get("serverState")
        adopted: Replica | None = None
        if isinstance(state, dict):
            before = journal.replica(mutation.task_id)
            content = {**(before.content if before else {}), **state}
            adopted = Replica(
                mutation.task_id, int(state["version"]), None, content, needs_pull=True
            )
        elif result.get("error") not in NO_TASK:
            before = journal.replica(mutation.task_id)
            adopted = None if before is None else msgspec.structs.replace(before, needs_pull=True)
        journal.refuse(ended, result, adopted, self._clock.now())

    def _later(self, mutation: Mutation) -> Iterable[Mutation]:
        return [each for each in self._journal.log(mutation.task_id) if each.seq > mutation.seq]

    # -- both --------------------------------------------------------------------------------------

    def _body(self, **fields: Any) -> Fields:
        given = {name: value for name, value in fields.items() if value is not None}
        return {"nodeId": self._node_id, **given}

    def _note_clock(self, answer: Fields) -> None:
        """Keeps the logical clock: it never goes back."""
        clock = answer.get("serverClock")
        if isinstance(clock, int) and clock > int(self._journal.value("clock") or 0):
            self._journal.set_value("clock", str(clock))


def content_left(mutation: Mutation, result: Fields) -> Left | None:
    """The content that the server did not take although it accepted the status: its author must see it."""
    error = result.get("contentError")
    if not error:
        return None
    change = {name: value for name, value in mutation.change.items() if name in CONTENT}
    answer = {**result, "error": error, "detail": "the status was accepted, but not the content"}
    return Left(msgspec.structs.replace(mutation, change=change), answer)


def replica_of(task: Fields) -> Replica:
    """What the node keeps of a task that the server sent."""
    sync = task.get("sync")
    hash = sync.get("contentHash") if isinstance(sync, dict) else None
    return Replica(str(task["id"]), int(task["version"]), hash, task)
