"""Holdfast, the same on both stores: default settings except the lease and the number of workers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

from holdfast import Context, TaskQueue
from proof.chaos import journal
from proof.chaos.plan import LEASE_SECONDS, SLOTS
from proof.chaos.subject import Chaotic
from proof.lab.subject import Options, main, run_async

HELD_PARENTS = 5
HELD_JOB = -1


class HoldfastChaos(Chaotic):
    """A worker ends when its engine gives up, as `holdfast worker` does."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.queue = TaskQueue(options.url, max_workers=SLOTS, lease_seconds=LEASE_SECONDS)
        self.queue.task(name="job")(_handler)
        self.queue.task(name="limited", concurrency=4)(_handler)
        self.url = options.url

    async def open(self) -> None:
        await self.queue.open()

    async def close(self) -> None:
        await self.queue.stop()

    async def put(self, job: int, ms: int) -> None:
        await self.queue.enqueue("job", {"job": job, "ms": ms})

    async def put_many(self, jobs: Sequence[int], ms: int) -> None:
        await self.queue.enqueue_many(
            [{"type": "job", "payload": {"job": job, "ms": ms}} for job in jobs]
        )

    async def hold(self, seconds: float) -> dict[str, Any]:
        """With a limited job that depends on running jobs."""
        import asyncpg

        parents = await self.queue.find_tasks(status="running", limit=HELD_PARENTS)
        connection = await asyncpg.connect(self.url)
        try:
            async with connection.transaction():
                await self.queue.enqueue(
                    "limited",
                    {"job": HELD_JOB, "ms": 10},
                    depends_on=[task.id for task in parents],
                    tx=connection,
                )
                await asyncio.sleep(seconds)
        finally:
            await connection.close()
        return {"parents_held": len(parents)}

    async def unfinished(self) -> int:
        return await self.queue.get_queue_size()

    async def ended_twice(self) -> int:
        """From the feed: tasks that completed more than once."""
        ends: Counter[str] = Counter()
        self.late = 0
        async for event in self.queue.events(follow=False):
            ends[event.task_id] += event.kind == "task.completed"
            self.late += event.kind == "task.late"
        return sum(n > 1 for n in ends.values())

    async def more(self) -> dict[str, int]:
        stats = await self.queue.get_stats()
        return {"late_refused": self.late, "dead_letters": stats.dead_letter_count}

    def work(self) -> None:
        run_async(self._work())

    async def _work(self) -> None:
        await self.queue.start()
        raise await self.queue.wait_failed()


async def _handler(ctx: Context, job: int, ms: int) -> None:
    await journal.run_async(job, ms, ctx.task.id, ctx.attempt)


if __name__ == "__main__":
    main(HoldfastChaos)
