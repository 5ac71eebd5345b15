"""A server of the agent protocol, a host and a network in memory, for tests of the agent."""

import asyncio
import contextvars
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import sha256

from msgspec.structs import replace

from holdfast.agent.agent import Agent
from holdfast.agent.memory import MemoryJournal
from holdfast.agent.ports import ExitRecord, Sight, StreamEnd, Work
from holdfast.agent.settings import AgentSettings
from holdfast.clock import Clock
from holdfast.core.errors import GatewayUnavailable, NodeFenced
from holdfast.core.fleet.agents.journal import ProcessEvidence, ProcessMark
from holdfast.core.fleet.agents.wire import (
    AgentBlock,
    AgentCommand,
    AgentOffer,
    AgentResult,
    AgentStart,
    AgentStarted,
    AgentSync,
    AgentSyncAnswer,
    AgentWithdrawal,
    TokenRef,
)
from holdfast.sim.clock import NodeClock
from holdfast.sim.draw import Draw


class Task:
    """An execution as the server sees it."""

    def __init__(self, id: str, offer: AgentOffer) -> None:
        self.id, self.offer = id, offer
        self.token = 0
        self.state = "queued"
        """queued, offered, go, started, done"""
        self.results: list[AgentResult] = []
        """Every result that was taken, in order."""
        self.output: dict[str, bytes] = {}
        self.gaps: dict[str, int] = {}
        self.offered_at = 0.0


class Server:
    """The rules of the protocol for one host."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.tasks: dict[str, Task] = {}
        self.order: list[str] = []
        self.incarnation = 0
        self.journal_id = ""
        self.journal_token = 0
        self.seq = 0
        self.token = 0
        self.slot: str | None = None
        self.taken: set[int] = set()
        self.commands: dict[str, AgentCommand] = {}
        self.acks: dict[str, str] = {}
        self.block_epoch = 0
        self.blocks: list[AgentBlock] = []
        self.changed = asyncio.Event()
        self.messages: list[AgentSync] = []
        self.starts: list[AgentStart] = []
        self.holds = True
        self.accept_within_seconds = 10.0
        self.judged: Callable[[], object] = lambda: None

    def submit(self, id: str, **fields: object) -> Task:
        offer = AgentOffer(
            execution=id,
            fence=1,
            token=0,
            job="job_1",
            **{"command_type": "exec", "kind": "argv", "argv": ["true"]} | fields,  # type: ignore[arg-type]
        )
        task = self.tasks[id] = Task(id, offer)
        self.order.append(id)
        self.changed.set()
        return task

    def abort(self, id: str) -> None:
        command = f"ivn_{id}"
        self.commands[command] = AgentCommand(command, "ABORT", id, self.tasks[id].token)
        self.changed.set()

    def block(self, *blocks: AgentBlock) -> None:
        self.block_epoch += 1
        self.blocks = list(blocks)

    async def start(self, start: AgentStart) -> AgentStarted:
        self.starts.append(start)
        self.incarnation += 1
        self.seq = 0
        if start.journal_id != self.journal_id:
            self.journal_id, self.journal_token = start.journal_id, self.token
        return AgentStarted(
            host_id="hst_1",
            incarnation=self.incarnation,
            heartbeat_seconds=25.0,
            server_epoch="e1",
            last_token=self.token,
        )

    async def sync(self, sync: AgentSync) -> AgentSyncAnswer:
        if sync.incarnation != self.incarnation:
            raise NodeFenced("another agent uses this identity")
        answer = self.judge(sync)
        if sync.wait_seconds and self.holds and not _says_anything(answer):
            self.changed.clear()
            await self.clock.wait(self.changed, sync.wait_seconds)
            if sync.incarnation != self.incarnation:
                raise NodeFenced("another agent uses this identity")
            answer = self.judge(sync)
        return answer

    def judge(self, sync: AgentSync) -> AgentSyncAnswer:
        self.messages.append(sync)
        is_newest = sync.seq >= self.seq
        self.seq = max(self.seq, sync.seq)
        go: list[TokenRef] = []
        withdraw: list[AgentWithdrawal] = []
        log_next: dict[str, int] = {}
        for ref in sync.accepts:
            task = self.current(ref.execution, ref.token)
            if task is None:
                withdraw.append(AgentWithdrawal(ref.execution, ref.token, "too late"))
            else:
                task.state = "go" if task.state == "offered" else task.state
                go.append(ref)
        for run in sync.running:
            task = self.current(run.execution, run.token)
            if task is not None and run.phase == "started":
                task.state = "started"
        for chunk in sync.chunks:
            task = self.tasks[chunk.execution]
            data = b64decode(chunk.data_base64)
            end = chunk.start + (chunk.gap or len(data))
            kept = task.output.get(chunk.stream, b"")
            have = len(kept) + task.gaps.get(chunk.stream, 0)
            if chunk.token == task.token and chunk.token not in self.taken and end > have:
                assert chunk.start <= have
                if chunk.gap:
                    task.gaps[chunk.stream] = task.gaps.get(chunk.stream, 0) + end - have
                else:
                    task.output[chunk.stream] = kept + data[have - chunk.start :]
                have = end
            log_next[f"{chunk.execution}/{chunk.stream}"] = max(have, end)
        for result in (*sync.results, *sync.refuses):
            self.take(result)
        for ack in sync.command_acks:
            self.acks[ack.id] = ack.outcome
            self.commands.pop(ack.id, None)
        offers: list[AgentOffer] = []
        probe: list[TokenRef] = []
        if is_newest:
            offers, probe = self.look_at_slot(sync)
        self.judged()
        return AgentSyncAnswer(
            seq=sync.seq,
            heartbeat_seconds=25.0,
            lease_seconds=60.0,
            server_epoch="e1",
            block_epoch=self.block_epoch,
            blocks=None if sync.block_epoch == self.block_epoch else self.blocks,
            offers=offers,
            go=go,
            withdraw=withdraw,
            commands=list(self.commands.values()),
            acks=[result.id for result in (*sync.results, *sync.refuses)],
            log_next=log_next,
            probe=probe,
            acked_token=self.token if self.slot is None else self.token - 1,
        )

    def current(self, execution: str, token: int) -> Task | None:
        is_current = self.slot == execution and self.token == token
        return self.tasks[execution] if is_current and token not in self.taken else None

    def take(self, result: AgentResult) -> None:
        task = self.tasks[result.execution]
        if result.token in self.taken:
            return
        if result.state in ("never_started", "refused") and result.token <= self.journal_token:
            result = replace(result, state="unknown")
        self.taken.add(result.token)
        if self.slot == result.execution and self.token == result.token:
            self.slot = None
        if task.token == result.token:
            task.results.append(result)
            task.state = "queued" if result.state == "never_started" else "done"

    def look_at_slot(self, sync: AgentSync) -> tuple[list[AgentOffer], list[TokenRef]]:
        listed = {(ref.execution, ref.token) for ref in sync.accepts}
        listed |= {(run.execution, run.token) for run in sync.running}
        if self.slot is not None and (self.slot, self.token) not in listed:
            task = self.tasks[self.slot]
            knows = self.token > self.journal_token
            if task.state == "offered" and knows:
                if self.clock.monotonic() < task.offered_at + self.accept_within_seconds:
                    return [task.offer], []
                # It was not accepted, so nothing can have started, except under an early go.
                if not task.offer.go:
                    self.slot, task.state = None, "queued"
                    self.taken.add(self.token)
            if task.state == "offered" and task.offer.go and knows:
                return [task.offer], []
            if self.slot is not None:
                return [], [TokenRef(self.slot, self.token)]
        queued = [id for id in self.order if self.tasks[id].state == "queued"]
        if self.slot is not None or not queued or not sync.capacity or sync.running:
            return [], []
        task = self.tasks[queued[0]]
        self.token += 1
        self.slot = task.id
        task.state, task.token = "offered", self.token
        task.offered_at = self.clock.monotonic()
        task.offer = replace(task.offer, token=self.token)
        return [task.offer], []

    @property
    def is_done(self) -> bool:
        return all(task.state == "done" for task in self.tasks.values())


def _says_anything(answer: AgentSyncAnswer) -> bool:
    return bool(
        answer.offers
        or answer.go
        or answer.withdraw
        or answer.commands
        or answer.acks
        or answer.log_next
        or answer.probe
        or answer.blocks
    )


class Host:
    """A machine in memory: its processes and files outlive the agent; a boot ends the processes."""

    poll_seconds: float | None = 1.0

    def __init__(self, clock: NodeClock) -> None:
        self.clock = clock
        self.boot_id = "boot-1"
        self.works: dict[str, Work] = {}
        self.marks: dict[str, ProcessMark] = {}
        self.exits: dict[str, ExitRecord] = {}
        self.output: dict[str, bytes] = {}
        self.ends_at: dict[str, float] = {}
        self.begun: Counter[str] = Counter()
        """Starts by execution."""
        self.most_at_once = 0
        self.prepared: set[str] = set()
        self.changed: Callable[[], None] = lambda: None
        self.pids = 0
        self.agents = 0
        self.on_prepare: Callable[[Work], None] = lambda _: None

    def watch(self, changed: Callable[[], None]) -> None:
        self.changed = changed

    async def prepare(self, work: Work) -> ProcessMark:
        self.on_prepare(work)
        self.pids += 1
        self.prepared.add(work.run)
        self.exits.pop(work.run, None)
        self.works[work.run] = work
        mark = self.marks[work.run] = ProcessMark(self.pids, self.pids, self.boot_id)
        return mark

    async def release(self, run: str) -> None:
        if run not in self.prepared:
            return
        self.prepared.remove(run)
        work = self.works[run]
        self.begun[work.env.get("HOLDFAST_EXECUTION", "")] += not run.endswith("probe")
        seconds = float(work.argv[1]) if work.argv[0] == "sleep" else 0.0
        self.output[run] = " ".join(work.argv[1:]).encode() if work.argv[0] == "echo" else b""
        self.ends_at[run] = self.clock.monotonic() + seconds
        self.most_at_once = max(self.most_at_once, len(self.ends_at))
        loop = asyncio.get_running_loop()
        code = 1 if work.argv[0] == "false" else 0
        # Outside the agent: the process goes on when the agent is killed.
        outside = contextvars.Context()
        loop.call_later(seconds, self.end, run, self.boot_id, code, context=outside)

    async def drop(self, run: str) -> None:
        self.prepared.discard(run)
        self.exits[run] = ExitRecord(state="never_started")

    def end(self, run: str, boot_id: str, code: int, *, killed: bool = False) -> None:
        if run not in self.ends_at or boot_id != self.boot_id:
            return
        del self.ends_at[run]
        data = self.output[run]
        self.exits[run] = ExitRecord(
            state="exited",
            exit_code=None if killed else code,
            signal=15 if killed else None,
            killed=killed,
            streams={"stdout": StreamEnd(len(data), sha256(data).hexdigest())},
        )
        self.changed()

    async def look(self, run: str, process: ProcessMark) -> Sight:
        sizes = {"stdout": len(self.output.get(run, b""))}
        if run in self.exits:
            return Sight(ProcessEvidence.EXITED, self.exits[run], sizes)
        is_there = process.boot_id == self.boot_id and (run in self.ends_at or run in self.prepared)
        return Sight(ProcessEvidence.ALIVE if is_there else ProcessEvidence.GONE, None, sizes)

    async def read(self, run: str, stream: str, start: int, size: int) -> str:
        return b64encode(self.output[run][start : start + size]).decode()

    async def stop(self, run: str, process: ProcessMark) -> None:
        self.end(run, process.boot_id, 0, killed=True)

    async def remove(self, run: str) -> None:
        for kept in (self.works, self.marks, self.exits, self.output):
            kept.pop(run, None)

    def agent_died(self) -> None:
        """What was not released never begins."""
        for run in self.prepared:
            self.exits[run] = ExitRecord(state="never_started")
        self.prepared.clear()
        self.changed = lambda: None

    def boot(self) -> None:
        """The machine is started again: its processes are gone, its files stay."""
        self.agents += 1
        self.boot_id = f"boot-{self.agents + 1}"
        self.ends_at.clear()
        self.prepared.clear()
        self.changed = lambda: None


class Network:
    """A way to the server that loses, repeats and delays."""

    def __init__(self, server: Server, clock: NodeClock, draw: Draw) -> None:
        self.server, self.clock, self.draw = server, clock, draw
        self.loss = 0.0
        self.duplicates = 0.0
        self.delay_seconds = 0.0
        self.is_down = False
        self.calls = 0

    async def start(self, start: AgentStart) -> AgentStarted:
        await self._way()
        answer = await self.server.start(start)
        await self._way()
        return answer

    async def sync(self, sync: AgentSync) -> AgentSyncAnswer:
        self.calls += 1
        await self._way()
        answer = await self.server.sync(sync)
        if self.draw.chance(self.duplicates):
            answer = await self.server.sync(replace(sync, wait_seconds=0.0))
        await self._way()
        return answer

    async def _way(self) -> None:
        await self.clock.sleep(self.draw.unit() * self.delay_seconds)
        if self.is_down or self.draw.chance(self.loss):
            await self.clock.sleep(1.0)
            raise GatewayUnavailable("the message was lost")


def agent_of(
    host: Host, journal: MemoryJournal, network: Network, clock: NodeClock, **settings: object
) -> Agent:
    return Agent(
        network,
        journal,
        host,
        clock,
        jitter=network.draw.unit,
        settings=AgentSettings(**settings),  # type: ignore[arg-type]
        facts={"os": "test"},
        session="p1",
    )


def states(results: Sequence[AgentResult]) -> list[str]:
    return [result.state for result in results]
