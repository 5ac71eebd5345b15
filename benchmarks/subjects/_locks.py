"""Lock and unlock, over and over: the same loop for every subject."""

from __future__ import annotations

import time

from benchmarks.subjects._protocol import Subject

WARM_UP = 100
TTL_MS = 10_000
NAME = "bench"


class LockSubject(Subject):
    """A lock on one Redis; one caller, nobody else wants it."""

    def once(self) -> None:
        """Takes the lock and gives it back; raises if either fails."""
        raise NotImplementedError

    def op_locks(self, n: int) -> dict[str, float]:
        """Pairs of acquire and release a second."""
        once = self.once
        for _ in range(WARM_UP):
            once()
        begun = time.perf_counter()
        for _ in range(n):
            once()
        return {"rate": n / (time.perf_counter() - begun)}
