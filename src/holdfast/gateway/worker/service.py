"""What all worker sessions of a gateway share: the use cases, commands, the list of sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

import msgspec

from holdfast.clock import Clock
from holdfast.core.claim_by_id import ClaimById
from holdfast.core.decision import Decision
from holdfast.core.errors import Forbidden, GatewayUnavailable
from holdfast.core.event import Position
from holdfast.core.lease import renewal_interval
from holdfast.core.rights import Operation
from holdfast.core.schedule import SILENT_SECONDS
from holdfast.core.speaking import NodeAct, Voice
from holdfast.core.task import Task
from holdfast.core.transition import Refusal
from holdfast.core.worker.protocol import Greeting, Reception, Window
from holdfast.core.worker.wire import (
    Ask,
    ClaimedTask,
    DrainFrame,
    GatewayMessage,
    HeldRunState,
    Hello,
    LostRun,
    Renew,
)
from holdfast.errors import HoldfastError
from holdfast.gateway.heard_nodes import HeardNodes
from holdfast.gateway.worker.calls import WorkerCalls
from holdfast.gateway.worker.offer import offer_of
from holdfast.gateway.worker.ports import CommandSource, Listen
from holdfast.gateway.worker.speaker import Speaker
from holdfast.gateway.worker.taken import TakenRuns
from holdfast.gateway.worker.work_news import WorkNews
from holdfast.queue.by import By
from holdfast.store.interventions import Act
from holdfast.store.store import Store
from holdfast.sync.errors import NodeFenced, NotClaimable, Replaced, UnknownNode
from holdfast.sync.nodes.nodes import Nodes, Registration
from holdfast.sync.speaking import heard
from holdfast.sync.worker.claims import NamedClaim
from holdfast.sync.worker.decisions import answers_json
from holdfast.sync.worker.receivers import Start
from holdfast.sync.worker.types import announce_schedules, register_types, type_rows
from holdfast.sync.worker.worker_sync import (
    RenewedRuns,
    WorkerSync,
    loss_reason,
)

ASK_WAIT_SECONDS_MAX: Final = 30.0
ANNOUNCE_SECONDS: Final = SILENT_SECONDS / 3
"""How often the schedules of a connected worker are announced."""
DRAIN_SECONDS: Final = 0.5
"""How long a gateway that stops waits for its workers to close their connections."""


class Greeted(msgspec.Struct, frozen=True):
    """A worker that has said hello."""

    voice: Voice
    project: str
    hello: Hello


class ServedSession(Protocol):
    """A session as the service sees it, which speaks to its worker and may end it."""

    def end(self, error: HoldfastError) -> None:
        """Ends the session after what is queued was sent."""
        ...

    def push(self, message: GatewayMessage) -> None:
        """Sends a message that answers none."""
        ...

    def recheck(self) -> None:
        """Checks the credential of the connection soon."""
        ...


class WorkerService:
    """The part of a gateway that serves remote workers."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        sync: WorkerSync,
        commands: CommandSource,
        *,
        nodes: Nodes | None = None,
        gateway: str = "",
        window: Window | None = None,
        listen: Listen | None = None,
        on_scheduled: Callable[[], None] = lambda: None,
        decision_deadline: float | None = None,
        heard_nodes: HeardNodes | None = None,
    ) -> None:
        """`listen`: hints of new work. Without it the service polls. `on_scheduled`: called when a worker has
        brought schedules. `decision_deadline`: of questions without one, in seconds."""
        self.heard_nodes = heard_nodes or HeardNodes(store.now)
        self.clock = clock
        self.sync = sync
        self.gateway = gateway
        self.window = window or Window()
        self.commands = commands
        self.calls = WorkerCalls(store, sync.on_changed, decision_deadline)
        self._work = WorkNews(store, clock, listen)
        self._store = store
        self._nodes = nodes or Nodes(store)
        self._on_scheduled = on_scheduled
        self._announced: dict[str, float] = {}
        """When the schedules of a node are announced again."""
        self._notices: dict[str, str] = {}
        """Why a node gets no tasks."""
        self._sessions: dict[str, ServedSession] = {}
        self._left = asyncio.Event()
        self.taken = TakenRuns(store, clock)
        self._waits: dict[asyncio.Event, None] = {}
        """What ends the waits of asks and of requests for commands, also of those without a session."""
        self._is_stopping = False

    async def hello(self, speaker: Speaker, hello: Hello) -> tuple[Greeting, str]:
        """Starts an incarnation, or goes on with one. NodeFenced or UnknownNode if it may not speak. Also
        returns the credential of a node that has joined."""
        incarnation, credential = hello.incarnation, ""
        if incarnation and speaker.join_token_id is not None:
            raise Forbidden(
                "a join token only registers: connect with the credential of the welcome"
            )
        type_rows(hello.definitions_json)  # a hello that is refused starts no incarnation
        if incarnation:
            await self._nodes.check_speaks(Voice(speaker.node, incarnation))
        else:
            registered = await self._nodes.register(
                Registration(
                    node=speaker.node,
                    project=speaker.project,
                    kind=speaker.kind,
                    capabilities=hello.capabilities,
                    boot_id=hello.boot_id or None,
                    resume=[(held.task_id, held.fence) for held in hello.held],
                ),
                By(f"node:{speaker.node}"),
                join_token_id=speaker.join_token_id,
            )
            incarnation = registered.incarnation
            # Claims and preferences of the earlier incarnation have ended.
            self.sync.on_changed(True)
            if speaker.join_token_id is not None:
                credential = registered.credential or ""
        await register_types(
            self._store,
            f"node:{speaker.node}",
            hello.definitions_json,
            project=speaker.project,
            act=Act(Operation.SYNC_RUN.value),
        )
        await self._announce(speaker.node, speaker.project, hello)
        greeting = await self.sync.hello(
            Start(speaker.node, incarnation, hello.boot_id, registered=incarnation)
        )
        return greeting, credential

    async def _announce(self, node: str, project: str, hello: Hello) -> None:
        """Adds the schedules of a worker's code, or says that they still have a worker."""
        brought = await announce_schedules(
            self._store, f"node:{node}", project, hello.definitions_json
        )
        self._announced.pop(node, None)
        if brought:
            self._announced[node] = self.clock.monotonic() + ANNOUNCE_SECONDS
            self._on_scheduled()

    async def losses(self, speaker: Speaker, held: tuple[HeldRunState, ...]) -> tuple[LostRun, ...]:
        """Which of the runs that a worker names it does not hold."""
        if not held:
            return ()
        tasks = await self._store.reads.get(sorted({run.task_id for run in held}))
        lost = []
        for run in held:
            task = tasks.get(run.task_id)
            reason = loss_reason(task, speaker.node, run.fence, speaker.project)
            if reason is not None:
                lost.append(LostRun(task_id=run.task_id, fence=run.fence, reason=reason))
        return tuple(lost)

    async def wait_for_tasks(
        self, worker: Greeted, ask: Ask, ended: asyncio.Event
    ) -> list[Task] | Refusal:
        """The tasks of an `Ask`. Waits for work up to its `wait_ms`, or until `ended`."""
        deadline = self.clock.monotonic() + min(ask.wait_ms / 1000, ASK_WAIT_SECONDS_MAX)
        with self._waiting(ended), self._work.listening(ended) as stir:
            while True:
                stir.clear()
                tasks = await self.claim(worker, ask)
                remaining = deadline - self.clock.monotonic()
                if isinstance(tasks, Refusal) or tasks or remaining <= 0:
                    if not isinstance(tasks, Refusal):
                        self.taken.add(worker.voice.node, [task.run for task in tasks])
                    return tasks
                await self._work.wait(queues_of(worker.hello), stir, ended, remaining)
                if ended.is_set():
                    return []

    async def claim(self, worker: Greeted, ask: Ask) -> list[Task] | Refusal:
        """The tasks of an `Ask`, without waiting. A node that gets no tasks waits as if there were none."""
        try:
            if ask.task_id:
                return await self._claim_named(worker, ask)
            tasks = await self.sync.claim(
                NamedClaim(
                    voice=worker.voice,
                    claim_id=ask.claim_id,
                    types=worker.hello.types,
                    queues=queues_of(worker.hello),
                    slots=ask.slots,
                    lease_seconds=self.sync.lease_seconds(ask.lease_ms),
                    project=worker.project,
                )
            )
            self._notices.pop(worker.voice.node, None)
            return tasks
        except NotClaimable as error:
            if ask.task_id:
                return Refusal(ask.task_id, error.code, str(error))
            self._notices[worker.voice.node] = str(error)
            return []

    def notice_of(self, node: str) -> str:
        """Why a node gets no tasks. Empty: it may get some."""
        return self._notices.get(node, "")

    async def _claim_named(self, worker: Greeted, ask: Ask) -> list[Task] | Refusal:
        tasks = await self._store.reads.get([ask.task_id])
        task = tasks.get(ask.task_id)
        if task is None or task.project != worker.project:
            return Refusal(ask.task_id, "not-found", f"task {ask.task_id} does not exist")
        seconds = self.sync.lease_seconds(ask.lease_ms)
        claimed = await self._store.by_id.claim(
            ClaimById(ask.task_id, worker.voice.node, ask.claim_id, seconds),
            guard=lambda: heard(worker.voice, NodeAct.CLAIM),
        )
        return claimed if isinstance(claimed, Refusal) else [claimed]

    async def renew(self, worker: Greeted, renew: Renew) -> RenewedRuns:
        """Renews leases. The row of the node says what it serves."""
        hello, node = worker.hello, worker.voice.node
        again_at = self._announced.get(node)
        if again_at is not None and again_at <= self.clock.monotonic():
            await self._announce(node, worker.project, hello)
        served = {
            "types": list(hello.types),
            "queues": list(queues_of(hello)),
            "project": worker.project,
            "remote": True,
        }
        renewed = await self.sync.renew(worker.voice, renew, worker.project, served)
        self.heard_nodes.heard(node, renewal_interval(renewed.lease_seconds))
        self.taken.add(node, renewed.kept)
        return renewed

    async def offered(self, tasks: Sequence[Task]) -> tuple[ClaimedTask, ...]:
        """Claimed tasks as they travel, with the answers to what their earlier runs asked."""
        again = [task.id for task in tasks if task.fence > 1]
        decisions = await self._store.decisions.of_tasks(again) if again else []
        answers: dict[str, list[Decision]] = {}
        for decision in decisions:
            answers.setdefault(decision.task_id, []).append(decision)
        now = self._store.now()
        return tuple(
            [offer_of(task, now, answers_json(answers.get(task.id, ()))) for task in tasks]
            if answers
            else [offer_of(task, now) for task in tasks]
        )

    async def position(self) -> Position:
        return await self._store.feed.head()

    @property
    def heartbeat_ms(self) -> int:
        return int(renewal_interval(self.sync.lease_seconds(0)) * 1000)

    def enter(self, node: str, session: ServedSession, held: Iterable[HeldRunState] = ()) -> None:
        """A session speaks for a node; an earlier one of the same node ends."""
        earlier = self._sessions.get(node)
        self._sessions[node] = session
        if earlier is not session:
            self.taken.enter(node)
        self.taken.add(node, held)
        if earlier is not None and earlier is not session:
            earlier.end(Replaced("a newer connection of this worker speaks now"))

    def leave(self, node: str, session: ServedSession) -> None:
        if self._sessions.get(node) is session:
            del self._sessions[node]
            self.taken.leave(node)
            self._announced.pop(node, None)
            self._notices.pop(node, None)
            self._left.set()

    def recheck_all(self) -> None:
        """Credentials were changed."""
        for session in list(self._sessions.values()):
            session.recheck()

    def lose(self, node: str, lost: LostRun) -> None:
        """Says to a connected worker that it has lost a run."""
        if (session := self._sessions.get(node)) is not None:
            session.push(lost)

    async def end_sessions(self) -> None:
        """Ends all sessions because the gateway stops. Workers get a moment to close by themselves."""
        for session in self._sessions.values():
            session.push(DrainFrame(within_ms=int(DRAIN_SECONDS * 1000)))
        self._is_stopping = True
        for ended in self._waits:
            ended.set()
        self._left.clear()
        deadline = self.clock.monotonic() + DRAIN_SECONDS
        while self._sessions and (rest := deadline - self.clock.monotonic()) > 0:
            await self.clock.wait(self._left, rest)
            self._left.clear()
        for session in list(self._sessions.values()):
            session.end(GatewayUnavailable("this gateway stops: connect to another one"))

    async def wait_for_commands(self, node: str, seconds: float) -> None:
        """Waits until there may be a command for the node, at most these seconds."""
        ended = asyncio.Event()
        waiting = asyncio.create_task(self.commands.wait(node))
        waiting.add_done_callback(lambda _: ended.set())
        try:
            with self._waiting(ended):
                await self.clock.wait(ended, seconds)
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)

    @contextmanager
    def _waiting(self, ended: asyncio.Event) -> Iterator[None]:
        """Within it a stop of the gateway sets the event."""
        self._waits[ended] = None
        if self._is_stopping:
            ended.set()
        try:
            yield
        finally:
            self._waits.pop(ended, None)


def queues_of(hello: Hello) -> tuple[str, ...]:
    """The queues that a worker serves."""
    return hello.queues or ("default",)


def not_speaking(outcome: Reception, node: str) -> HoldfastError:
    """Why a message of the node was not applied."""
    if outcome is Reception.FENCED:
        return NodeFenced(f"a newer incarnation of node '{node}' exists: this one has ended")
    return UnknownNode(f"node '{node}' has no such incarnation: say hello with incarnation 0")


async def stop_all(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancels the tasks of a session and waits until they have ended."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)
