"""The faults of a run, drawn from its seed."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Callable, Sequence

from proof.hub.plan import LEASE_SECONDS, Plan
from proof.hub.site import Kept
from proof.lab.servers import Postgres, Redis

WEIGHTS = {
    "gateway killed": 6,
    "gateway stopped": 2,
    "gateway paused": 1,
    "worker killed": 6,
    "worker stopped": 2,
    "worker paused": 2,
    "offline node killed": 3,
    "redis wiped": 4,
    "redis restarted": 3,
    "postgres restarted": 1,
    "postgres killed": 2,
}


class Faults:
    """Strikes at random times. `run` ends when the time is over and everything is up again."""

    def __init__(
        self,
        plan: Plan,
        *,
        gateways: Sequence[Kept],
        workers: Sequence[Kept],
        nodes: Sequence[Kept],
        postgres: Postgres,
        redis: Redis,
    ) -> None:
        self.plan = plan
        self.rng = plan.rng("faults")
        self.gateways = gateways
        self.workers = workers
        self.nodes = nodes
        self.postgres = postgres
        self.redis = redis
        self.count: Counter[str] = Counter()
        self.log: list[tuple[float, str]] = []
        self._later: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        start = loop.time()
        names = self._schedule()
        for at, name in names:
            await asyncio.sleep(max(0.0, start + at - loop.time()))
            what = await self._strike(name)
            if what:
                self.count[name] += 1
                self.log.append((round(loop.time() - start, 2), f"{name} {what}".strip()))
        await asyncio.gather(*self._later)

    def _schedule(self) -> list[tuple[float, str]]:
        """Every kind at least once if there is room, then by weight."""
        number = int(self.plan.seconds / self.plan.fault_every_seconds)
        names = self.rng.sample(list(WEIGHTS), k=min(number, len(WEIGHTS)))
        rest = number - len(names)
        names += self.rng.choices(list(WEIGHTS), list(WEIGHTS.values()), k=max(0, rest))
        self.rng.shuffle(names)
        times = sorted(self.rng.uniform(0.0, self.plan.seconds) for _ in names)
        return list(zip(times, names, strict=True))

    async def _strike(self, name: str) -> str:
        rng = self.rng
        down = rng.choice((0.0, 0.0, 0.5, 2.0))
        target, _, act = name.rpartition(" ")
        if target == "postgres":
            await self._restart_postgres(down, is_crash=act == "killed")
            return f"for {down} s"
        if target == "redis":
            return self._redis(act, down)
        groups = {"gateway": self.gateways, "worker": self.workers, "offline node": self.nodes}
        kept = rng.choice(groups[target])
        match act:
            case "killed":
                return kept.name if kept.kill(down) else ""
            case "stopped":
                return kept.name if kept.terminate(down) else ""
            case _:
                seconds = rng.choice((1.0, LEASE_SECONDS * 1.5))
                if not kept.pause():
                    return ""
                self._after(seconds, kept.resume)
                return f"{kept.name} for {seconds} s"

    def _redis(self, act: str, down: float) -> str:
        if not self.redis.is_running:
            return ""
        if act == "wiped":
            self.redis.command("FLUSHALL")
            return "all"
        self.redis.kill()
        self._after(down, self._start_redis)
        return f"for {down} s"

    def _start_redis(self) -> None:
        if not self.redis.is_running:
            self.redis.start()

    async def _restart_postgres(self, down: float, *, is_crash: bool) -> None:
        if is_crash:
            self.postgres.kill()
        else:
            self.postgres.end(signal.SIGINT)
        await asyncio.sleep(down)
        self.postgres.start()

    def _after(self, seconds: float, act: Callable[[], None]) -> None:
        async def later() -> None:
            await asyncio.sleep(seconds)
            act()

        self._later.append(asyncio.create_task(later()))
