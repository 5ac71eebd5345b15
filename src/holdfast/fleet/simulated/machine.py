"""A simulated machine: processes that outlive the agent, but not a reboot.

Promises: a process begins when it is released, ends by the injected clock, keeps the beginning and the end of
its output within its limit, and leaves an exit record. What really ran is in `history`, which no agent
changes. Never: executes anything.
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
from base64 import b64encode
from collections.abc import Callable
from typing import Final

import msgspec

from holdfast.agent.ports import ExitRecord, Sight, StreamEnd, Work
from holdfast.clock import Clock
from holdfast.core.fleet.agents.journal import ProcessEvidence, ProcessMark
from holdfast.core.output import head_and_tail
from holdfast.fleet.simulated.commands import Behaviour, behaviour, flood_of
from holdfast.fleet.simulated.dice import Dice

HASHED_BYTES: Final = 1_048_576
SIGTERM: Final = 15
EXECUTION: Final = "HOLDFAST_EXECUTION"


class RealRun(msgspec.Struct):
    """A command that ran on the machine."""

    execution: str
    token: int
    argv: tuple[str, ...]
    started_at: float
    """By the clock of the simulation, as all times here."""
    is_probe: bool = False
    ended_at: float | None = None
    exit_code: int | None = None
    timed_out: bool = False
    killed: bool = False
    is_cut_off: bool = False
    """The machine lost its power while it ran."""


class _Stream:
    """A stream of a process: head and tail of bytes that can be made again."""

    __slots__ = ("data", "flood", "gap", "limit", "size")

    def __init__(self, data: bytes, flood: int, limit: int) -> None:
        self.data = data
        self.flood = flood
        self.limit = limit
        self.size = len(data) + flood
        head, _ = head_and_tail(limit)
        self.gap = (head, self.size - limit) if self.size > limit else (0, 0)

    def part(self, start: int, size: int) -> bytes:
        """Of the whole stream."""
        part = self.data[start : start + size]
        rest = size - len(part)
        begin = max(0, start - len(self.data))
        return part + flood_of(begin, min(rest, max(0, self.flood - begin)))

    def kept(self, start: int, size: int) -> bytes:
        """Of what was kept."""
        head, cut = self.gap
        if not cut:
            return self.part(start, size)
        first = self.part(start, min(size, max(0, head - start)))
        begin = max(start, head)
        left = min(size - len(first), self.size - cut - begin)
        return first + (self.part(begin + cut, left) if left > 0 else b"")

    def sha256(self) -> str:
        digest = hashlib.sha256()
        for at in range(0, self.size, HASHED_BYTES):
            digest.update(self.part(at, min(HASHED_BYTES, self.size - at)))
        return digest.hexdigest()

    def end(self) -> StreamEnd:
        return StreamEnd(self.size, self.sha256(), self.gap)


class _Process:
    __slots__ = ("does", "exit", "mark", "run", "streams", "timer", "work")

    def __init__(self, work: Work, mark: ProcessMark, does: Behaviour) -> None:
        self.work = work
        self.mark = mark
        self.does = does
        self.run: RealRun | None = None
        self.exit: ExitRecord | None = None
        self.timer: asyncio.Task[None] | None = None
        self.streams: dict[str, _Stream] = {}


class SimulatedMachine:
    """See `holdfast.agent.ports.Executor`."""

    poll_seconds: float | None = None

    def __init__(
        self,
        name: str,
        clock: Clock,
        dice: Dice,
        *,
        assumed: Behaviour | None = None,
        is_broken: bool = False,
        keeps_history: bool = False,
        time: Callable[[], float] | None = None,
    ) -> None:
        """`assumed`: what a rehearsal assumes that commands do. `is_broken`: its services do not
        start. `keeps_history`: without bound. `time`: the time of the history, if the clock of the host is
        not to be trusted."""
        self._name = name
        self._clock = clock
        self._dice = dice
        self._assumed = assumed
        self._is_broken = is_broken
        self._keeps_history = keeps_history
        self._time = clock.monotonic if time is None else time
        self._context = contextvars.copy_context()
        self._boots = 1
        self._pids = 100
        self._processes: dict[str, _Process] = {}
        self._changed: Callable[[], None] = lambda: None
        self.history: list[RealRun] = []

    @property
    def boot_id(self) -> str:
        return f"{self._name}-{self._boots}"

    @property
    def running(self) -> int:
        """Commands that run now."""
        return sum(p.run is not None and p.exit is None for p in self._processes.values())

    def keep_history(self) -> None:
        """Keeps what runs from now on, without bound."""
        self._keeps_history = True

    def watch(self, changed: Callable[[], None]) -> None:
        self._changed = changed

    # -- processes ---------------------------------------------------------------------------------

    async def prepare(self, work: Work) -> ProcessMark:
        self._pids += 1
        mark = ProcessMark(self._pids, self._pids, self.boot_id)
        does = behaviour(work.argv, self._assumed, is_broken=self._is_broken)
        self._processes[work.run] = _Process(work, mark, does)
        return mark

    async def release(self, run: str) -> None:
        process = self._processes[run]
        work = process.work
        token, _, probe = run.partition("-")
        process.run = RealRun(
            execution=work.env.get(EXECUTION, ""),
            token=int(token),
            argv=work.argv,
            started_at=self._time(),
            is_probe=bool(probe),
        )
        if self._keeps_history:
            self.history.append(process.run)
        low, high = process.does.seconds
        seconds = low if low == high else self._dice.between(low, high)
        if seconds <= 0.0:
            self._end(process)
            return
        process.timer = asyncio.get_running_loop().create_task(
            self._live(process, seconds), context=self._context
        )

    async def _live(self, process: _Process, seconds: float) -> None:
        limit = process.work.timeout_seconds
        await self._clock.sleep(min(seconds, limit))
        self._end(process, timed_out=seconds > limit)

    def _end(self, process: _Process, *, timed_out: bool = False, killed: bool = False) -> None:
        does, run = process.does, process.run
        assert run is not None
        run.ended_at = self._time()
        run.timed_out, run.killed = timed_out, killed
        is_stopped = timed_out or killed
        run.exit_code = None if is_stopped else does.exit_code
        if not is_stopped:
            limit = process.work.output_bytes
            streams = {"stdout": (does.stdout, does.flood), "stderr": (does.stderr, 0)}
            process.streams = {
                name: _Stream(data, flood, limit)
                for name, (data, flood) in streams.items()
                if data or flood
            }
        process.exit = ExitRecord(
            state="exited",
            exit_code=run.exit_code,
            signal=SIGTERM if is_stopped else None,
            timed_out=timed_out,
            killed=killed,
            seconds=run.ended_at - run.started_at,
            streams={name: stream.end() for name, stream in process.streams.items()},
        )
        self._changed()

    async def drop(self, run: str) -> None:
        self._processes.pop(run, None)

    async def look(self, run: str, process: ProcessMark) -> Sight:
        known = self._processes.get(run)
        if known is None or known.mark != process:
            return Sight(ProcessEvidence.GONE)
        if known.exit is not None:
            return Sight(ProcessEvidence.EXITED, known.exit)
        if known.run is None:
            # It was never released, and its keeper saw the agent die.
            return Sight(ProcessEvidence.EXITED, ExitRecord(state="never_started"))
        return Sight(ProcessEvidence.ALIVE)

    async def read(self, run: str, stream: str, start: int, size: int) -> str:
        known = self._processes.get(run)
        made = None if known is None else known.streams.get(stream)
        return "" if made is None else b64encode(made.kept(start, size)).decode()

    async def stop(self, run: str, process: ProcessMark) -> None:
        known = self._processes.get(run)
        if known is None or known.mark != process or known.exit is not None:
            return
        if known.timer is not None:
            known.timer.cancel()
        if known.run is not None:
            self._end(known, killed=True)

    async def remove(self, run: str) -> None:
        self._processes.pop(run, None)

    # -- faults ------------------------------------------------------------------------------------

    def lose_power(self) -> None:
        """All processes are gone. Exit records that were written stay."""
        self._boots += 1
        for run, process in [*self._processes.items()]:
            if process.exit is not None:
                continue
            if process.timer is not None:
                process.timer.cancel()
            if process.run is not None:
                process.run.is_cut_off = True
                process.run.ended_at = self._time()
            del self._processes[run]

    def stop_all(self) -> None:
        """The simulation ends."""
        for process in self._processes.values():
            if process.timer is not None:
                process.timer.cancel()
