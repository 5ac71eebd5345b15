"""The runs of an agent: what it has accepted, what runs, what it has to report.

Promises: a token is accepted once, and only if it is newer than all before it. Nothing starts without a go,
and not before its start is in the journal. A token that the agent called not started never starts: what had
not started before a restart of the agent is given back. A start whose end is not known is reported as
unknown, unless the probe of its type decides.
Never: speaks with the server (`agent.py`).
"""

from __future__ import annotations

import logging

from holdfast.agent import builtins
from holdfast.agent.blocks import BlockView
from holdfast.agent.executor import CannotStart
from holdfast.agent.ports import Executor, ExitRecord, Journal, Sight, StreamEnd
from holdfast.agent.refusal import never_runs
from holdfast.agent.run import (
    Run,
    exited,
    is_overdue,
    not_begun,
    result_of,
    timed_out_unkept,
    unknown_offer,
)
from holdfast.agent.settings import AgentSettings, StaleBlocks
from holdfast.agent.spool import Spool
from holdfast.clock import Clock
from holdfast.core.fleet.agents.journal import (
    AcceptedRecord,
    AckedRecord,
    DroppedRecord,
    ExitedRecord,
    Finding,
    GoRecord,
    OfferedRecord,
    ProcessEvidence,
    Record,
    StartedRecord,
    Step,
    TokenLog,
    last_token,
    recover,
)
from holdfast.core.fleet.agents.wire import AgentCommandAck, AgentOffer, AgentResult, TokenRef
from holdfast.errors import DiskFull

log = logging.getLogger("holdfast.agent")


class Runs:
    """All tokens that the server has not settled."""

    def __init__(
        self,
        journal: Journal,
        executor: Executor,
        clock: Clock,
        settings: AgentSettings,
        facts: dict[str, object],
    ) -> None:
        self._journal, self._executor, self._clock = journal, executor, clock
        self._settings = settings
        self._facts = facts
        self.blocks = BlockView()
        self.spool = Spool()
        self.by_token: dict[int, Run] = {}
        self.last_token = 0
        self.settled: set[int] = set()
        """Tokens whose journal may go once the server says so."""
        self.refuses: dict[int, AgentResult] = {}
        """Offers that were not accepted, until they are acknowledged."""
        self.command_acks: dict[str, AgentCommandAck] = {}
        self.is_ahead = False
        """Whether the server offers old tokens."""
        self.base_token = 0
        """Tokens up to this one are older than the journal, which proves nothing about them."""
        self.is_new = False
        """Whether the journal was empty at the start."""
        self.is_draining = False
        self.is_updating = False
        self.is_updated = False
        """Whether an update that this process began has ended well, and the server knows it."""

    # -- after a restart ---------------------------------------------------------------------------

    async def recover(self) -> None:
        """Goes on from the journal."""
        logs = await self._journal.load()
        self.is_new = not logs
        self.last_token = max(self.last_token, last_token(logs))
        for token_log in logs:
            await self._recover(token_log)

    async def _recover(self, token_log: TokenLog) -> None:
        offer, started = token_log.offer, token_log.started
        if offer is None or token_log.step is Step.ACKED:
            self.settled.add(token_log.token)
            return
        run = Run(offer, token_log.step)
        self.by_token[run.token] = run
        for dropped in token_log.dropped:
            self.spool.gap(run.token, dropped.stream, dropped.start, dropped.size)
        evidence, ended = ProcessEvidence.NONE, None
        if started is not None:
            run.process, run.is_probe = started.process, started.probe
            sight = await self._executor.look(run.name, started.process)
            evidence, ended = sight.evidence, sight.exit
            self._grow(run, sight.sizes)
        match recover(token_log, evidence):
            case Finding.NEVER_STARTED:
                await self._end(run, result_of(offer, "never_started", "the agent was restarted"))
            case Finding.RUNNING:
                run.step = Step.STARTED
                log.info("execution %s goes on (token %d)", run.execution, run.token)
            case Finding.EXITED:
                assert ended is not None
                await self._exited(run, ended)
            case Finding.UNKNOWN:
                await self._interrupted(run)
            case _:
                run.result = token_log.result
                assert run.result is not None
                self.spool.put_result(run.result.id)
                if ended is not None and not run.is_probe:
                    self._measure(run, ended)

    # -- what the server says ----------------------------------------------------------------------

    async def offer(self, offer: AgentOffer) -> None:
        """Accepts an offer, or says why not."""
        known = self.by_token.get(offer.token)
        if known is not None:
            # The answer that accepted it was lost.
            if offer.go and known.step is Step.ACCEPTED and known.execution == offer.execution:
                await self.begin(known)
            return
        if offer.token <= self.last_token:
            log.warning("token %d was ignored: the journal is at %d", offer.token, self.last_token)
            self.is_ahead = True
            return
        self.is_ahead = False
        for run in [run for run in self.by_token.values() if run.step is Step.ACCEPTED]:
            await self.give_back(run, "a newer offer came")
        refusal = self._refusal(offer)
        if refusal is None:
            records: list[Record] = [OfferedRecord(offer), AcceptedRecord()]
            try:
                await self._journal.append(offer.token, *records)
            except DiskFull as error:
                refusal = result_of(offer, "never_started", str(error))
        if refusal is not None:
            log.warning("execution %s was refused: %s", offer.execution, refusal.reason)
            self.refuses[offer.token] = refusal
            return
        self.refuses.pop(offer.token, None)
        self.last_token = offer.token
        run = self.by_token[offer.token] = Run(offer, Step.ACCEPTED)
        if offer.go:
            await self.begin(run)

    def _refusal(self, offer: AgentOffer) -> AgentResult | None:
        """`refused` ends the execution; `never_started` lets the server offer it again later."""
        if (refusal := never_runs(offer, self._settings)) is not None:
            return refusal
        if self.is_draining or self.is_updating:
            return result_of(offer, "never_started", "the agent is draining")
        if self.spool.is_full:
            return result_of(offer, "never_started", "the spool of the agent is full")
        if any(run.is_started for run in self.by_token.values()):
            return result_of(offer, "never_started", "another command runs")
        return self._blocked(offer)

    def _blocked(self, offer: AgentOffer) -> AgentResult | None:
        now = self._clock.monotonic()
        block = self.blocks.blocking(offer.command_type, now)
        if block is not None:
            reason = f"blocked by {block.id}: {block.reason}"
            return result_of(offer, "never_started", reason)
        if self.blocks.is_stale(now) and self._settings.stale_blocks is StaleBlocks.STRICT:
            return result_of(offer, "never_started", "the agent's list of blocks is stale")
        return None

    async def go(self, ref: TokenRef) -> None:
        run = self.by_token.get(ref.token)
        if run is not None and run.execution == ref.execution and run.step is Step.ACCEPTED:
            await self.begin(run)

    async def withdraw(self, token: int, execution: str, reason: str) -> None:
        run = self.by_token.get(token)
        if run is not None and run.execution == execution and run.step < Step.STARTED:
            await self.give_back(run, reason)

    async def give_back(self, run: Run, reason: str) -> None:
        """Ends a run that has not started."""
        if run.result is None:
            await self._end(run, result_of(run.offer, "never_started", reason))

    async def abort(self, id: str, ref: TokenRef) -> None:
        """Ends a run by command. The command is acknowledged when the run has ended."""
        run = self.by_token.get(ref.token)
        if run is None or run.execution != ref.execution or run.result is not None:
            if id not in self.command_acks:
                self.command_acks[id] = AgentCommandAck(id, "refused", "it does not run")
            return
        if id not in run.aborts:
            run.aborts.append(id)
        if run.is_started:
            assert run.process is not None
            await self._executor.stop(run.name, run.process)
        else:
            await self.give_back(run, "it was aborted before its start")

    async def probe(self, ref: TokenRef) -> None:
        """The server asks about a token. Known ones are in every sync; of others the journal decides."""
        if ref.token in self.by_token:
            return
        token_log = TokenLog(token=ref.token, is_damaged=ref.token in self.settled)
        # Older than the newest here: the server was restored, and the journal of the token may be forgotten.
        is_ours = self.base_token < ref.token >= self.last_token
        finding = recover(token_log, ProcessEvidence.NONE, is_ours=is_ours)
        offer = unknown_offer(ref)
        run = Run(offer, Step.NONE)
        if finding is Finding.NEVER_STARTED:
            # The promise must outlive this process: the offer may still be on its way.
            result = result_of(offer, "never_started", "the journal has no record", is_unheard=True)
            await self._journal.append(ref.token, OfferedRecord(offer), ExitedRecord(result))
            self.last_token = max(self.last_token, ref.token)
        else:
            result = result_of(offer, "unknown", "the journal does not reach back to the token")
        run.result = result
        self.by_token[ref.token] = run
        self.spool.put_result(result.id)

    async def acked(self, ids: set[str]) -> None:
        """The server has these results."""
        for token, refusal in [*self.refuses.items()]:
            if refusal.id in ids:
                del self.refuses[token]
        for token, run in [*self.by_token.items()]:
            if run.result is not None and run.result.id in ids:
                await self._forget(token, run)

    async def _forget(self, token: int, run: Run) -> None:
        assert run.result is not None
        self.spool.acked(run.result.id)
        self.spool.forget(token)
        del self.by_token[token]
        try:
            await self._journal.append(token, AckedRecord(), sync=False)
        except DiskFull as error:
            # It is sent again after a restart, and acknowledged again.
            log.warning("%s", error)
        self.settled.add(token)
        if self.is_updating and run.offer.kind == "builtin":
            self.is_updating = False
            self.is_updated = run.result.exit_code == 0
        if run.process is not None:
            await self._executor.remove(str(token))
            if run.is_probe:
                await self._executor.remove(run.name)

    async def forget(self, acked_token: int) -> None:
        """Removes journals that the server will not ask for."""
        tokens = sorted(token for token in self.settled if token <= acked_token)
        if tokens:
            await self._journal.forget(tokens)
            self.settled = {t for t in self.settled if t > acked_token or t == self.last_token}

    # -- commands ----------------------------------------------------------------------------------

    async def begin(self, run: Run) -> None:
        """Starts a run that has its go."""
        if (blocked := self._blocked(run.offer)) is not None:
            run.is_later = True
            await self._end(run, blocked)
        elif run.offer.kind == "noop":
            await self._finish(run, builtins.Done())
        elif run.offer.kind == "builtin" and run.offer.argv[0] != builtins.UPDATE:
            await self._finish(run, builtins.do(run.offer.argv[0], self._facts))
        else:
            await self._start(run)

    async def _finish(self, run: Run, done: builtins.Done) -> None:
        """A command that the agent did itself."""
        run.inline = {"stdout": done.stdout} if done.stdout else {}
        self.is_draining = self.is_draining or done.drains
        self._grow(run, {"stdout": len(done.stdout)} if done.stdout else {})
        streams = {"stdout": StreamEnd(len(done.stdout))} if done.stdout else {}
        await self._exited(run, ExitRecord(state="exited", exit_code=0, streams=streams))

    async def _start(self, run: Run) -> None:
        env = {"HOLDFAST_JOB": run.offer.job, "HOLDFAST_EXECUTION": run.execution}
        work = run.work(env)
        if run.offer.kind == "builtin":
            work = run.work(env, self._settings.update_argv)
            self.is_updating = True
        try:
            process = await self._executor.prepare(work)
        except CannotStart as error:
            await self._end(run, not_begun(run, "refused", error))
            return
        except DiskFull as error:
            run.is_later = not run.is_probe
            await self._end(run, not_begun(run, "never_started", error))
            return
        try:
            records = (GoRecord(), StartedRecord(process, probe=run.is_probe))
            await self._journal.append(run.token, *records)
        except DiskFull as error:
            await self._executor.drop(run.name)
            run.is_later = not run.is_probe
            await self._end(run, not_begun(run, "never_started", error))
            return
        run.process, run.step = process, Step.STARTED
        await self._executor.release(run.name)

    async def look(self) -> bool:
        """Looks at what runs. Returns whether output has grown or a run has ended."""
        is_news = False
        for run in [run for run in self.by_token.values() if run.is_started]:
            assert run.process is not None
            sight = await self._executor.look(run.name, run.process)
            before = self.spool.ends(run.token)
            if sight.exit is not None:
                await self._exited(run, sight.exit)
                is_news = True
            elif sight.evidence is ProcessEvidence.GONE:
                await self._gone(run, sight)
                is_news = True
            else:
                self._grow(run, sight.sizes)
                is_news = is_news or self.spool.ends(run.token) != before
                run.is_overdue = run.is_overdue or is_overdue(run, sight)
                if run.aborts or run.is_overdue:
                    await self._executor.stop(run.name, run.process)
        if is_news:
            await self._shed()
        return is_news

    def _grow(self, run: Run, sizes: dict[str, int]) -> None:
        if not run.is_probe:
            for stream, size in sizes.items():
                self.spool.grow(run.token, stream, size)

    def _measure(self, run: Run, ended: ExitRecord) -> None:
        """The final sizes of output, and what its limit has cut out."""
        for stream, end in ended.streams.items():
            if end.gap[1]:
                self.spool.gap(run.token, stream, *end.gap)
            if end.size:
                self.spool.grow(run.token, stream, end.size)

    async def _shed(self) -> None:
        for shed in self.spool.shed():
            record = DroppedRecord(shed.stream, shed.start, shed.size)
            try:
                await self._journal.append(shed.token, record, sync=False)
            except DiskFull as error:
                log.warning("%s", error)

    async def _exited(self, run: Run, ended: ExitRecord) -> None:
        if not run.is_probe:
            self._measure(run, ended)
        result = exited(run, ended)
        if result.state == "never_started":
            self.spool.forget(run.token)
        await self._end(run, result)

    async def _gone(self, run: Run, sight: Sight) -> None:
        """The process is gone without an exit record. One that was stopped at its time limit is known."""
        if run.is_overdue and not run.is_probe:
            await self._exited(run, timed_out_unkept(sight))
        else:
            await self._interrupted(run)

    async def _interrupted(self, run: Run) -> None:
        """The process is gone and has left no exit record, e.g. because the host was started again."""
        offer = run.offer
        if offer.on_restart == "probe" and offer.probe_argv and not run.is_probe:
            run.is_probe = True
            await self._start(run)
            return
        reason = "the process is gone and left no exit code"
        await self._end(run, result_of(offer, "unknown", reason))

    async def _end(self, run: Run, result: AgentResult) -> None:
        """Journals the result. Without the record the journal and the exit file lead to the same one."""
        run.result = result
        run.step = Step.EXITED
        self.spool.put_result(result.id)
        for id in run.aborts:
            self.command_acks[id] = AgentCommandAck(id, "done")
        try:
            await self._journal.append(run.token, ExitedRecord(result))
        except DiskFull as error:
            log.warning("%s", error)
        log.info("execution %s: %s (token %d)", run.execution, result.state, run.token)
