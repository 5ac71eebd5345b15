"""How a key-value store in memory is measured: the same mix of calls for every subject."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.subjects._protocol import Subject
from benchmarks.subjects._support import Result

KEYS = 1_000


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
