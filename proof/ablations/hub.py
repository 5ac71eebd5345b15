"""Safeguards of gateways and of their clients."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

from msgspec.structs import replace

from holdfast.client import watch
from holdfast.client.node import exchange
from holdfast.core import decision as decisions, intervention
from holdfast.core.event import Position
from holdfast.core.subscription import StreamCursor
from holdfast.core.watching import Watching
from holdfast.core.worker.changes import is_report
from holdfast.core.worker.protocol import Reception, receive
from holdfast.core.worker.wire import SyncAck
from holdfast.gateway.feed import connection
from holdfast.store.script import Script
from holdfast.store.scripts import interventions
from holdfast.sync.worker import group_commit, messages
from proof.ablations.swap import Ablation, Swap, statement

HUB: Final = (
    *(("nodes", "1"), ("clients", "1"), ("act_seconds", "2"), ("hours", "0.02")),
    *(("holders", "0"), ("traders", ""), ("lock_servers", "0"), ("rate", "3")),
    *(("gateways", "2"), ("remote_workers", "2"), ("watchers", "2"), ("operators", "2")),
    *(("offline_nodes", "2"), ("keep_seconds", "1e9"), ("faults", "crash,cut,loss,half-open")),
)


FROZEN: Final = (*HUB, ("act_seconds", "1"), ("rate", "8"), ("faults", "freeze,slow,cut"))
LEASED: Final = (
    *(*HUB, ("lease_seconds", "5"), ("rate", "25"), ("faults", "cut,half-open")),
    *(("act_seconds", "0.7"), ("clients", "3")),
)
RESTARTED: Final = (*HUB, ("act_seconds", "1"), ("rate", "6"), ("faults", "restart,crash,cut"))
PRUNING: Final = (
    *(*HUB, ("hours", "0.02"), ("keep_seconds", "10"), ("faults", ""), ("recover_hours", "0.1")),
    *(("gateways", "1"), ("remote_workers", "0"), ("watchers", "0"), ("operators", "1")),
)
ASKING: Final = (*HUB, ("operators", "3"), ("hours", "0.04"))


def _catch_up() -> list[Swap]:
    async def at_once(self: Any, subscription: Any) -> None:
        head = self.broadcaster.boundary
        subscription.cursor = StreamCursor(subscription.cursor.last, head)
        self._go_live(subscription)

    return [(connection.Connection, "_step", at_once)]


def _resume_point() -> list[Swap]:
    def earlier(state: Watching) -> Watching:
        if state.position is None:
            return Watching()
        position = Position.parse(state.position)
        return Watching(str(position._replace(offset=max(1, position.offset - 3))))

    return [(watch, "connected", earlier)]


def _nothing(_: object) -> Iterator[Any]:
    yield from ()


def _sequence() -> list[Swap]:
    def any_message(known: Any, incarnation: int, sequence: int) -> Any:
        outcome, after = receive(known, incarnation, sequence)
        return (Reception.APPLY if outcome is Reception.DUPLICATE else outcome), after

    return [(messages, "receive", any_message), (messages, "keep_refused", _nothing)]


def _remote_fence() -> list[Swap]:
    def any_fence(self: Any, change: Any, task: Any, fence: int) -> Any:
        return change_task(self, change, task, task.fence if is_report(change) else fence)

    change_task = messages._Effect._change_task
    return [(messages._Effect, "_change_task", any_fence)]


def _early_ack() -> list[Swap]:
    def at_once(self: Any, message: Any) -> Any:
        put(self, message).add_done_callback(lambda done: done.cancelled() or done.exception())
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        ack = SyncAck(accepted=True, sequence=message.sequence)
        answer.set_result(messages.MessageAnswer(Reception.APPLY, ack))
        return answer

    put = group_commit.GroupCommit.put
    return [(group_commit.GroupCommit, "put", at_once)]


def _deleted() -> list[Swap]:
    async def kept(self: Any, stale: Any, gone: Any, report: Any) -> Any:
        return await pull(self, stale, [], report)

    pull = exchange.Exchange._pull
    return [(exchange.Exchange, "_pull", kept)]


def _intervention_id() -> list[Swap]:
    def unknown(_: str) -> Script[Any]:
        yield from ()
        return None

    swaps = statement("add_interventions", ("INSERT INTO", "INSERT OR REPLACE INTO"))
    return [*swaps, (interventions, "get", unknown)]


def _ladder() -> list[Swap]:
    return [(intervention, "due", lambda row, *_: row)]


def _one_answer() -> list[Swap]:
    def any_answer(decision: Any, choice: Any, now: float) -> Any:
        opened = replace(decision, state=decisions.DecisionState.OPEN, deadline_at=None)
        return decided(opened, choice, now)

    decided = decisions.decided
    return [(decisions, "decided", any_answer)]


HUBS: Final = (
    Ablation("catch-up", "a subscription goes live without what it missed", _catch_up, HUB),
    Ablation("resume-point", "a watcher resumes before its position", _resume_point, HUB),
    Ablation(
        "sequence", "a message whose acknowledgement was lost is applied again", _sequence, FROZEN
    ),
    Ablation("remote-fence", "a late report of a remote worker counts", _remote_fence, LEASED),
    Ablation("early-ack", "a gateway acknowledges before the commit", _early_ack, RESTARTED),
    Ablation("deleted", "an offline node keeps tasks that were deleted", _deleted, PRUNING),
    Ablation(
        "intervention-id", "a repeated intervention counts as a new one", _intervention_id, HUB
    ),
    Ablation("ladder", "commands to runners that are gone do not end", _ladder, HUB),
    Ablation("one-answer", "an answered decision can be answered again", _one_answer, ASKING),
)
