"""The exchange of an offline node with the server: handshake, pull, push, until both agree.

Promises: safe to end at any moment and to repeat. Every refusal makes the node adopt the server's state. The
cursor moves after what came before it is on the disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

import msgspec

from holdfast.client.node.journal import Journal
from holdfast.clock import Clock
from holdfast.core.offline import (
    NO_TASK,
    Fields,
    Mutation,
    Replica,
    after_refusal,
    after_reset,
    after_success,
    entries,
    item_of,
    overlay,
    to_send,
)
from holdfast.errors import Conflict

PUSH_MAX: Final = 100
PULL_MAX: Final = 500
HANDSHAKE_MAX: Final = 5_000
ROUNDS_MAX: Final = 1_000
"""Rounds of one sync. Each pushes or pulls something: only a server that always changes needs many."""


class SyncServer(Protocol):
    """The three calls, as the protocol names their fields."""

    async def handshake(self, body: Fields) -> Fields: ...

    async def pull(self, body: Fields) -> Fields: ...

    async def push(self, body: Fields) -> Fields: ...


class SyncReport(msgspec.Struct):
    """What one sync did."""

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

    async def sync(self) -> SyncReport:
        """Handshakes, pulls and pushes until nothing is left to do."""
        report = SyncReport()
        while report.rounds < ROUNDS_MAX:
            report.rounds += 1
            if not await self._round(report):
                return report
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
        names = list(versions)
        place: str | None = journal.value("cursor")
        final: str | None = None
        start = 0
        while True:
            page = names[start : start + HANDSHAKE_MAX]
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
            start += HANDSHAKE_MAX
            following = answer.get("nextCursor")
            if following is None and start >= len(names):
                break
            place = following or final
        known = {replica.id for replica in replicas} | set(names)
        return [name for name in stale if name not in gone], [n for n in gone if n in known], final

    async def _pull(self, stale: Sequence[str], gone: Sequence[str], report: SyncReport) -> bool:
        journal = self._journal
        dirty = {mutation.task_id for mutation in journal.log()}
        # A deleted task with local changes stays until their push is refused: then they are evidence.
        removed = [name for name in gone if name not in dirty]
        present = {replica.id for replica in journal.replicas()}
        journal.adopt([], removed)
        for start in range(0, len(stale), PULL_MAX):
            names = list(stale[start : start + PULL_MAX])
            answer = await self._server.pull(self._body(taskIds=names))
            self._note_clock(answer)
            tasks = [replica_of(task) for task in answer["tasks"]]
            lost = [
                *answer.get("missing", ()),
                *(each["taskId"] for each in answer.get("deleted", ())),
            ]
            journal.adopt(tasks, lost)
            report.pulled += len(tasks)
        return bool(stale) or any(name in present for name in removed)

    # -- writing -----------------------------------------------------------------------------------

    async def _push(self, report: SyncReport) -> bool:
        sealings = to_send(self._journal.log(), PUSH_MAX)
        if not sealings:
            return False
        self._journal.seal(sealings)
        mutations = [sealing.mutation for sealing in sealings]
        answer = await self._server.push(
            self._body(
                tasks=[item_of(mutation) for mutation in mutations],
                localClock=int(self._journal.value("clock") or 0),
            )
        )
        self._note_clock(answer)
        for mutation, result in zip(mutations, answer["results"], strict=True):
            if result.get("success"):
                report.pushed += 1
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
            mutation, moved, Replica(mutation.task_id, version, None, state, needs_pull=True)
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


def replica_of(task: Fields) -> Replica:
    """What the node keeps of a task that the server sent."""
    sync = task.get("sync")
    hash = sync.get("contentHash") if isinstance(sync, dict) else None
    return Replica(str(task["id"]), int(task["version"]), hash, task)
