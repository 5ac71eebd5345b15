"""The loop of an agent: report, hear, obey.

    offer → accept → go → started → output → result → ack

Promises: everything goes through the ports, so the same agent runs on a real host, over SSH and in virtual
time. One call is open at a time. A call that the server holds is given up when something happens on the
host. While no gateway answers, commands go on and their results wait. Only durations count: the host's
clock may be years off. An agent whose incarnation does not count any more starts again; one that the server
has shut out, or whose identity another process uses, ends.
Never: starts what the server did not let go; ends a command because a gateway is away.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from holdfast.agent.link import HostGone
from holdfast.agent.message import OUTPUT_BYTES_MAX, Report, compose
from holdfast.agent.parts import NOTHING, give_up, parts_of
from holdfast.agent.ports import Executor, Journal, Transport
from holdfast.agent.runs import Runs
from holdfast.agent.settings import AgentSettings, OnStop
from holdfast.clock import Clock
from holdfast.core.errors import Forbidden, NodeFenced, TooLarge, Unauthenticated
from holdfast.core.fleet.agents.journal import Step
from holdfast.core.fleet.agents.wire import (
    WAIT_SECONDS_MAX,
    AgentCommandAck,
    AgentStart,
    AgentSync,
    AgentSyncAnswer,
    TokenRef,
)
from holdfast.core.watching import backoff_seconds
from holdfast.errors import HoldfastError, InvalidInput, NotFound

FATAL: Final = (NodeFenced, Unauthenticated, Forbidden, NotFound)
"""Errors that another try does not change."""
EMPTY_SECONDS: Final = 0.1
"""The first pause after an answer that changed nothing and came too early. Each later one is twice as
long."""
GOODBYE_SECONDS: Final = 5.0
"""How long a stopping agent tries to say what it gives back."""
OUTPUT_BYTES_MIN: Final = 65_536
FENCED_SECONDS: Final = 600.0
"""Within this time `AgentSettings.starts_again` counts."""
log = logging.getLogger("holdfast.agent")


class Agent:
    """One host of the fleet."""

    def __init__(
        self,
        transport: Transport,
        journal: Journal,
        executor: Executor,
        clock: Clock,
        *,
        jitter: Callable[[], float],
        settings: AgentSettings | None = None,
        facts: Mapping[str, object] | None = None,
        session: str = "",
    ) -> None:
        """`jitter`: random numbers in [0, 1). `session`: names this process."""
        self._transport, self._journal, self._executor = transport, journal, executor
        self._clock, self._jitter = clock, jitter
        self._settings = settings or AgentSettings()
        self._facts = dict(facts or {})
        self._session = session
        self.runs = Runs(journal, executor, clock, self._settings, self._facts)
        self.incarnation: int | None = None
        self.is_stopping = False
        self.is_recovered = False
        self._seq = 0
        self._heartbeat_seconds = self._settings.wait_seconds
        self._lease_seconds = 60.0
        self._output_bytes = OUTPUT_BYTES_MAX
        self._empty = 0
        self._changed = asyncio.Event()
        self._held: asyncio.Task[AgentSyncAnswer] | None = None
        self._is_interrupted = False
        self._fenced_at: list[float] = []
        executor.watch(self.wake)

    # -- from outside ------------------------------------------------------------------------------

    def wake(self) -> None:
        """Something has happened on the host: a held call is given up."""
        self._changed.set()
        if self._held is not None:
            self._is_interrupted = True
            self._held.cancel()

    def stop(self) -> None:
        """Takes no new work, and ends `run`: at once, or after the commands (`AgentSettings.on_stop`)."""
        self.is_stopping = self.runs.is_draining = True
        self.wake()

    @property
    def is_over(self) -> bool:
        if self.runs.is_updated:
            return True
        if not self.is_stopping:
            return False
        if self._settings.on_stop is OnStop.LEAVE:
            return True
        return not self.runs.by_token

    # -- the loop ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serves until `stop`, or an update. Raises an error that ends the agent for good."""
        failures = 0
        while not self.is_over:
            try:
                await self._round()
                failures = 0
            except (*FATAL, HostGone):
                # Without its host an agent knows nothing: another one goes on from the journal.
                raise
            except (HoldfastError, OSError) as error:
                if isinstance(error, TooLarge):
                    self._output_bytes = max(OUTPUT_BYTES_MIN, self._output_bytes // 2)
                if failures & (failures + 1) == 0:  # At once, then ever more rarely.
                    log.warning("%s; trying again", error)
                if self.is_stopping and not self._has_running():
                    break
                pause = backoff_seconds(failures, self._jitter())
                failures += 1
                self._changed.clear()
                await self._clock.wait(self._changed, pause)
        await self._goodbye()

    async def _round(self) -> None:
        """One exchange with the server."""
        if not self.is_recovered:
            await self.runs.recover()
            self.is_recovered = True
        if self.incarnation is None:
            await self._start()
        self._changed.clear()
        is_growing = await self.runs.look() and self._has_running()
        report = await compose(self.runs, self._executor, self._output_bytes)
        if report.is_urgent or self.runs.is_updated or is_growing:
            wait_seconds = 0.0
        else:
            wait_seconds = self._hold_seconds()
        began_at = self._clock.monotonic()
        before = self._state()
        try:
            answer = await self._sync(report, wait_seconds)
        except TooLarge:
            raise
        except NodeFenced as error:
            await self._start_again(error)
            return
        except InvalidInput as error:
            await self._sync_alone(report, error)
            await self._pace()
            return
        if answer is None:
            return
        await self._obey(answer, report)
        is_early = self._clock.monotonic() - began_at < wait_seconds / 2
        if is_growing:
            # Output flows: a held call would be given up again at once.
            await self._clock.wait(self._changed, self._settings.flush_seconds)
        elif self._state() == before and (is_early or report.is_urgent):
            await self._pace()
        else:
            self._empty = 0

    async def _start(self) -> None:
        session = self._session if self._fenced_at else ""
        request = AgentStart(
            boot_id=self._executor.boot_id or "unknown",
            journal_id=self._journal.journal_id,
            version=self._settings.version,
            facts=self._facts,
            session=session,
        )
        try:
            started = await self._transport.start(request)
        except InvalidInput:
            self._session = ""  # An older gateway does not know it.
            raise
        self.incarnation, self._seq = started.incarnation, 0
        self._heartbeat_seconds = started.heartbeat_seconds
        if self.runs.is_new:
            self.runs.base_token = started.last_token
        # The newest token may be that of an offer whose answer was lost.
        self.runs.last_token = max(self.runs.last_token, started.last_token - 1)
        log.info("started: host %s, incarnation %d", started.host_id, started.incarnation)

    async def _start_again(self, fenced: NodeFenced) -> None:
        """Another incarnation counts. It may be one of this process: a start whose answer was lost, and that
        took effect late. A server that has shut the agent out refuses the start too. If it happens again and
        again, another process uses this identity."""
        now = self._clock.monotonic()
        self._fenced_at = [at for at in self._fenced_at if at > now - FENCED_SECONDS] + [now]
        if len(self._fenced_at) > self._settings.starts_again:
            raise fenced
        log.warning("%s", fenced)
        self.incarnation = None
        await self._pace()

    def _hold_seconds(self) -> float:
        wait = min(self._settings.wait_seconds, self._heartbeat_seconds, WAIT_SECONDS_MAX)
        return min(wait, self._lease_seconds / 3) if self.runs.by_token else wait

    async def _sync_alone(self, report: Report, error: InvalidInput) -> None:
        """Says each part of a refused report by itself. The server gets all that it can take, and a part that
        it never takes is given up, so no part can silence the host."""
        log.warning("the gateway refused a report, so its parts are sent alone: %s", error)
        await self._sync(NOTHING, 0.0, is_part=True)  # Refused too: the parts are not the cause.
        for part in parts_of(report):
            try:
                answer = await self._sync(part, 0.0, is_part=True)
            except TooLarge:
                raise
            except InvalidInput as refusal:
                await give_up(self.runs, part, str(refusal))
            else:
                assert answer is not None
                await self._obey(answer, part)

    async def _sync(
        self, report: Report, wait_seconds: float, *, is_part: bool = False
    ) -> AgentSyncAnswer | None:
        """The answer. None: the call was given up because something happened on the host."""
        self._seq += 1
        assert self.incarnation is not None
        runs = self.runs
        is_leaving = runs.is_draining or runs.is_updating or runs.is_updated
        is_closed = is_leaving or is_part or runs.spool.is_full
        message = AgentSync(
            boot_id=self._executor.boot_id or "unknown",
            incarnation=self.incarnation,
            seq=self._seq,
            wait_seconds=wait_seconds,
            block_epoch=self.runs.blocks.epoch,
            capacity=0 if is_closed else 1,
            spool=self.runs.spool.usage,
            accepts=report.accepts,
            refuses=report.refuses,
            running=report.running,
            chunks=report.chunks,
            results=report.results,
            command_acks=report.command_acks,
            last_token=runs.last_token if runs.is_ahead else 0,
        )
        if not wait_seconds:
            return await self._transport.sync(message)
        return await self._held_call(message)

    async def _held_call(self, message: AgentSync) -> AgentSyncAnswer | None:
        if self._changed.is_set():
            return None
        self._is_interrupted = False
        self._held = asyncio.create_task(self._transport.sync(message))
        watching = None
        if self._executor.poll_seconds is not None and self._has_running():
            watching = asyncio.create_task(self._watch(self._executor.poll_seconds))
        try:
            return await self._held
        except asyncio.CancelledError:
            if self._is_interrupted:
                return None
            raise
        finally:
            self._held = None
            if watching is not None:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)

    async def _watch(self, seconds: float) -> None:
        """Looks at runs that announce nothing: those of an earlier process, and output."""
        while True:
            await self._clock.sleep(seconds)
            if await self.runs.look():
                self.wake()
                return

    async def _pace(self) -> None:
        """Waits longer after each answer that changed nothing and came at once: the server does not hold."""
        pause = min(EMPTY_SECONDS * 2.0**self._empty, self._heartbeat_seconds)
        self._empty = min(self._empty + 1, 20)
        await self._clock.wait(self._changed, pause * (0.5 + 0.5 * self._jitter()))

    def _state(self) -> object:
        """What an answer may change."""
        runs = self.runs
        steps = tuple((token, run.step) for token, run in runs.by_token.items())
        return steps, len(runs.refuses), len(runs.command_acks), runs.spool.usage, runs.last_token

    def _has_running(self) -> bool:
        return any(run.is_started for run in self.runs.by_token.values())

    # -- what the server says ----------------------------------------------------------------------

    async def _obey(self, answer: AgentSyncAnswer, report: Report) -> None:
        self._heartbeat_seconds = answer.heartbeat_seconds
        self._lease_seconds = answer.lease_seconds
        runs = self.runs
        runs.blocks.hear(answer.block_epoch, answer.blocks, self._clock.monotonic())
        for ack in report.command_acks:
            runs.command_acks.pop(ack.id, None)
        await runs.acked({*answer.acks})
        self._take_log_next(answer.log_next)
        if answer.acked_token:
            await runs.forget(answer.acked_token)
        for withdrawal in answer.withdraw:
            await runs.withdraw(withdrawal.token, withdrawal.execution, withdrawal.reason)
        for command in answer.commands:
            if command.type == "ABORT":
                await runs.abort(command.id, TokenRef(command.execution, command.token))
            else:
                reason = f"this version of the agent does not know {command.type}"
                runs.command_acks[command.id] = AgentCommandAck(command.id, "refused", reason[:200])
        for ref in answer.probe:
            await runs.probe(ref)
        if answer.seq != self._seq:
            return
        was_running = self._has_running()
        for ref in answer.go:
            await runs.go(ref)
        for offer in answer.offers:
            await runs.offer(offer)
        if self._has_running() and not was_running:
            await self._clock.wait(self._changed, self._settings.settle_seconds)

    def _take_log_next(self, log_next: Mapping[str, int]) -> None:
        for key, position in log_next.items():
            execution, _, stream = key.rpartition("/")
            for run in self.runs.by_token.values():
                if run.execution == execution:
                    self.runs.spool.taken(run.token, stream, position)

    # -- the end -----------------------------------------------------------------------------------

    async def _goodbye(self) -> None:
        """Gives back what has not started, if a gateway answers soon."""
        for run in [run for run in self.runs.by_token.values() if run.step is Step.ACCEPTED]:
            await self.runs.give_back(run, "the agent stops")
        if self.incarnation is None:
            return
        try:
            async with asyncio.timeout(GOODBYE_SECONDS):
                report = await compose(self.runs, self._executor, self._output_bytes)
                answer = await self._sync(report, 0.0)
                assert answer is not None
                await self.runs.acked({*answer.acks})
        except HostGone:
            raise
        except (HoldfastError, OSError) as error:  # TimeoutError is an OSError.
            log.warning("the gateway was not informed of the stop: %s", error)
