"""Subjects: a queue, a key-value store, a lock. The measuring loops are the same for all."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from proof.bench.operations import OPERATIONS, Result
from proof.lab.subject import Subject

KEYS = 1_000
LOCK_WARM_UP = 100
TTL_MS = 10_000
NAME = "bench"


class QueueSubject(Subject):
    """`operations` measures it; a subject may replace an operation by a method ``op_<name>``."""

    settles = False
    """True: `unfinished` is exact, so that a drain also reports when the store was done."""
    embedded = False
    """True: pick-up latency is measured with the worker inside the producer's process."""

    def enqueue(self, kind: str, arg: int) -> Any:
        """Enqueue one task and return when the store has acknowledged it."""
        raise NotImplementedError

    enqueue_many: Callable[[str, Sequence[int]], Any] | None = None
    """Bulk API, if the queue has one: all ``args`` in calls of a size that suits the queue."""

    def calls(self) -> Any:
        """Store calls so far, from all clients; None if the store does not count them."""
        return None

    def start_embedded(self) -> Any:
        """Start a worker inside this process (only if `embedded`)."""
        raise NotImplementedError

    def stop_embedded(self) -> Any:
        """Stop it."""
        raise NotImplementedError

    def operation(self, name: str) -> Callable[..., Any]:
        if hasattr(self, f"op_{name}"):
            return super().operation(name)
        return partial(OPERATIONS[name], self)


class KvSubject(Subject):
    """Sets ``kv``: a client with ``set``, ``get``, ``hset``, ``lpush`` and ``incr``."""

    kv: Any

    def op_kv(self, n: int) -> Result:
        """``n`` calls, five kinds in turn, over a thousand keys of each type."""
        kv = self.kv
        started = time.perf_counter()
        for number in range(n // 5):
            key = str(number % KEYS)
            kv.set("text:" + key, "a value of some length")
            kv.get("text:" + key)
            kv.hset("hash:" + key, "field", "a value of some length")
            kv.lpush("list:" + key, "a value of some length")
            kv.incr("count:" + key)
        seconds = time.perf_counter() - started
        assert kv.get("count:0") == str(-(-(n // 5) // KEYS)), "calls were lost"
        return {"rate": n // 5 * 5 / seconds}


class LockSubject(Subject):
    """A lock on one Redis; one caller, no contention."""

    def once(self) -> None:
        """Acquires and releases the lock; raises if either fails."""
        raise NotImplementedError

    def op_locks(self, n: int) -> Result:
        """Pairs of acquire and release per second."""
        once = self.once
        for _ in range(LOCK_WARM_UP):
            once()
        started = time.perf_counter()
        for _ in range(n):
            once()
        return {"rate": n / (time.perf_counter() - started)}
