"""What is measured of a server with subscribers. The server is this process, the clients are another one."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

from proof.lab.subject import Subject

GROUP = 50
"""Events that are published at once, before all clients must have them."""
WARM_UP = 20
STALL_GROUPS = 200
LINE_BYTES = 1 << 24


class Clients:
    """The other process."""

    async def start(self) -> None:
        """Starts it."""
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "proof.bench.live.audience",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=LINE_BYTES,
        )  # fmt: skip

    async def ask(self, op: str, **fields: Any) -> Any:
        """One call."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"op": op, **fields}).encode() + b"\n")
        line = await self.process.stdout.readline()
        if not line:
            raise RuntimeError("the clients have ended: see the log")
        return json.loads(line)

    async def stop(self) -> None:
        """Ends it."""
        assert self.process.stdin
        self.process.stdin.close()
        await self.process.wait()


class LiveSubject(Subject):
    """Override :meth:`serve`, :meth:`setting` and :meth:`publish`."""

    clients: Clients

    async def open(self) -> None:
        """Starts server and clients."""
        self.port = await self.serve()
        self.clients = Clients()
        await self.clients.start()

    async def close(self) -> None:
        """Stops both."""
        await self.clients.stop()
        await self.unserve()

    async def serve(self) -> int:
        """Starts the server in this loop; returns its port."""
        raise NotImplementedError

    async def unserve(self) -> None:
        """Stops it."""
        raise NotImplementedError

    def setting(self, **_: Any) -> dict[str, Any]:
        """How a client connects and what it counts."""
        raise NotImplementedError

    async def publish(self, n: int) -> None:
        """Sends events to all subscribers."""
        raise NotImplementedError

    async def op_fanout(self, n: int, clients: int) -> dict[str, float]:
        """Groups of events to all clients, each group after the one before has arrived everywhere."""
        before = memory()
        await self.clients.ask("open", n=clients, setting=self.setting())
        each = (memory() - before) / clients
        await self.publish(WARM_UP)
        await self.clients.ask("wait", count=WARM_UP)
        cpu, started = cpu_seconds(), time.monotonic()
        at = started
        for sent in range(GROUP, n + 1, GROUP):
            await self.publish(GROUP)
            at = await self.clients.ask("wait", count=WARM_UP + sent)
        frames = n // GROUP * GROUP * clients
        cpu = cpu_seconds() - cpu
        return {"rate": frames / (at - started), "cpu": cpu / frames * 1e6, "memory": each / 1024}

    async def op_fanout_latency(self, n: int, clients: int, interval: float) -> dict[str, float]:
        """One event at a time, then the same with a client that reads nothing."""
        p50, p99 = await self._measured(n, clients, interval)
        await self.clients.ask("drop")
        await self.clients.ask("stall", setting=self.setting())
        # More than a socket and the buffer of a connection take.
        for _ in range(STALL_GROUPS):
            await self.publish(GROUP)
            await asyncio.sleep(0)
        _, stalled = await self._measured(n, clients, interval)
        return {"p50": p50, "p99": p99, "stalled": stalled, "ratio": stalled / p99}

    async def _measured(self, n: int, clients: int, interval: float) -> tuple[float, float]:
        await self.clients.ask("open", n=clients, setting=self.setting())
        await self._paced(WARM_UP, interval, 0)
        p50, _, p99 = await self._paced(n, interval, WARM_UP)
        return p50, p99

    async def _paced(self, n: int, interval: float, first: int) -> list[float]:
        sent = []
        for _ in range(n):
            sent.append(time.monotonic())
            await self.publish(1)
            await asyncio.sleep(interval)
        await self.clients.ask("wait", count=first + n)
        found: list[float] = await self.clients.ask("latencies", sent=sent, first=first)
        return found

    async def op_watchers_idle(self, seconds: float, clients: int) -> dict[str, float]:
        """CPU of the server with clients to which nothing is sent."""
        await self.clients.ask("open", n=clients, setting=self.setting())
        await asyncio.sleep(2.0)
        cpu = cpu_seconds()
        await asyncio.sleep(seconds)
        return {"cpu": (cpu_seconds() - cpu) / seconds * 100}


def cpu_seconds() -> float:
    """CPU time of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def memory() -> int:
    """Resident bytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
