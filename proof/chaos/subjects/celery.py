"""Celery on Redis, prefork: late acknowledgement, the lease as visibility timeout, and the settings that its
documentation names for a broker that goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from celery import Celery, group
from redis import Redis

from proof.chaos import journal
from proof.chaos.plan import LEASE_SECONDS, SLOTS
from proof.chaos.subject import Chaotic
from proof.lab.subject import Options, main

THREADS = 8


class CeleryChaos(Chaotic):
    """Its API blocks, so enqueues use a few threads."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.app = Celery("chaos", broker=options.url)
        self.app.conf.update(
            task_ignore_result=True,
            worker_hijack_root_logger=False,
            task_acks_late=True,
            task_reject_on_worker_lost=True,
            worker_prefetch_multiplier=1,
            broker_connection_retry_on_startup=True,
            broker_connection_max_retries=None,
            broker_transport_options={
                "visibility_timeout": LEASE_SECONDS,
                "unacked_restore_interval": 1,
                "unacked_restore_throttle": 1,
                "unacked_restore_limit": 1_000,
                "socket_timeout": LEASE_SECONDS,
                "socket_connect_timeout": LEASE_SECONDS,
                "health_check_interval": 2,
            },
        )
        self.job = self.app.task(name="job", bind=True)(_handler)
        self.threads = ThreadPoolExecutor(THREADS)

    def open(self) -> None:
        self.redis = Redis.from_url(self.options.url, socket_timeout=5)

    async def put(self, job: int, ms: int) -> None:
        await self._call(self.job.delay, job, ms)

    async def put_many(self, jobs: Sequence[int], ms: int) -> None:
        await self._call(group(self.job.s(job, ms) for job in jobs).apply_async)

    async def _call(self, function: Any, *args: Any) -> None:
        await asyncio.get_running_loop().run_in_executor(self.threads, function, *args)

    async def unfinished(self) -> int:
        return int(self.redis.llen("celery")) + int(self.redis.hlen("unacked"))

    def work(self) -> None:
        flags = ["--loglevel=WARNING", f"--concurrency={SLOTS}"]
        self.app.worker_main(["worker", *flags])


def _handler(self: Any, job: int, ms: int) -> None:
    journal.run(job, ms, self.request.id, self.request.retries)


if __name__ == "__main__":
    main(CeleryChaos)
