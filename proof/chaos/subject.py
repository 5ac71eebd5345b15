"""A queue as chaos drives it: a :class:`Chaotic` subject.

The producer offers jobs at a fixed rate and never repeats one: an enqueue that fails is counted and
dropped, so that every job has at most one enqueue. Only an acknowledged job can be lost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from proof.chaos import journal
from proof.chaos.plan import LONG_EVERY, LONG_MS, SHORT_MS
from proof.lab.subject import Options, Subject, settle

BULK = 1_000
AT_ONCE = 64
PUT_SECONDS = 10.0


class Chaotic(Subject):
    """A queue under faults."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._next = 0
        self._refused = 0
        self._last_error = ""
        self._pacing: asyncio.Task[None] | None = None
        self._puts: set[asyncio.Task[None]] = set()

    # -- implemented by each queue
    # -------------------------------------------------------------------

    async def put(self, job: int, ms: int) -> None:
        """Enqueues one job; returns when it is acknowledged."""
        raise NotImplementedError

    async def put_many(self, jobs: Sequence[int], ms: int) -> None:
        """At most a thousand jobs by the bulk API."""
        raise NotImplementedError

    async def ended_twice(self) -> int | None:
        """Jobs with two ends that the system accepted; None: it has no record, use the journal."""
        return None

    async def hold(self, seconds: float) -> dict[str, Any]:
        """Only for queues that take part in `open-transaction`."""
        raise NotImplementedError

    async def more(self) -> dict[str, int]:
        """Additional figures of this queue."""
        return {}

    # -- operations of the harness -----------------------------------------------------------------------

    async def op_pace(self, rate: int) -> dict[str, int]:
        """Starts offering jobs."""
        self._pacing = asyncio.create_task(self._pace(rate))
        return {}

    async def op_hush(self) -> dict[str, int]:
        """Stops offering jobs; waits for enqueues in progress."""
        if self._pacing is not None:
            self._pacing.cancel()
            await asyncio.gather(self._pacing, return_exceptions=True)
        if self._puts:
            await asyncio.wait(self._puts, timeout=PUT_SECONDS)
        return {"offered": self._next, "refused": self._refused}

    async def op_burst(self, n: int) -> dict[str, int]:
        """Enqueues many jobs at once."""
        jobs = list(range(self._next, self._next + n))
        self._next += n
        for start in range(0, n, BULK):
            part = jobs[start : start + BULK]
            try:
                await self.put_many(part, SHORT_MS)
            except Exception as error:  # a queue may raise any error
                self._refuse(error, len(part))
            else:
                journal.note(journal.ACKNOWLEDGED, part)
        return {}

    async def op_hold(self, seconds: float) -> dict[str, Any]:
        """A caller's transaction that enqueues a job and stays open for this long."""
        return await self.hold(seconds)

    async def op_unfinished(self) -> dict[str, int]:
        """Counted in the store."""
        return {"unfinished": int(await self.unfinished())}

    async def op_verdict(self) -> dict[str, Any]:
        """The final figures."""
        return {
            "ended_twice": await settle(self.ended_twice()),
            "refused": self._refused,
            "last_error": self._last_error,
            **await self.more(),
        }

    async def _pace(self, rate: int) -> None:
        due = time.monotonic()
        while True:
            if len(self._puts) < AT_ONCE:
                task = asyncio.create_task(self._put(self._next))
                self._next += 1
                self._puts.add(task)
                task.add_done_callback(self._puts.discard)
            due = max(due + 1 / rate, time.monotonic() - 0.05)
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def _put(self, job: int) -> None:
        ms = LONG_MS if job % LONG_EVERY == 0 else SHORT_MS
        try:
            async with asyncio.timeout(PUT_SECONDS):
                await self.put(job, ms)
        except Exception as error:  # a queue may raise any error
            self._refuse(error, 1)
        else:
            journal.note(journal.ACKNOWLEDGED, job)

    def _refuse(self, error: Exception, jobs: int) -> None:
        self._refused += jobs
        self._last_error = f"{type(error).__name__}: {error}"[:200]
