"""Hosts, executors and commands for tests of the agent."""

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from holdfast.agent.executor import HostExecutor
from holdfast.agent.link import LocalHost
from holdfast.agent.ports import ExitRecord, Sight, Work
from holdfast.core.fleet.agents.journal import ProcessEvidence, ProcessMark


@asynccontextmanager
async def executor_in(folder: Path) -> AsyncIterator[HostExecutor]:
    """An executor on this machine."""
    host = LocalHost()
    try:
        yield HostExecutor(host, folder)
    finally:
        await host.close()


class Watch:
    """Wakes at the ends of runs."""

    def __init__(self, executor: HostExecutor) -> None:
        self._executor = executor
        self._event = asyncio.Event()
        executor.watch(self._event.set)

    async def end(self, run: str, process: ProcessMark) -> Sight:
        """What is left of the run after its end."""
        while True:
            self._event.clear()
            sight = await self._executor.look(run, process)
            if sight.evidence is not ProcessEvidence.ALIVE:
                return sight
            await self._event.wait()


async def run(
    executor: HostExecutor, *argv: str, name: str = "1", **settings: object
) -> ExitRecord:
    """Runs a command to its end."""
    watch = Watch(executor)
    process = await executor.prepare(Work(run=name, argv=argv, **settings))  # type: ignore[arg-type]
    await executor.release(name)
    sight = await watch.end(name, process)
    assert sight.exit is not None
    return sight.exit


async def output(executor: HostExecutor, stream: str, name: str = "1") -> bytes:
    """What was kept of a stream."""
    return b64decode(await executor.read(name, stream, 0, 100_000_000))
