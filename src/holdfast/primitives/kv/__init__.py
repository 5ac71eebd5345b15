"""A key-value store with the commands of Redis: in memory by default, or on a live Redis.

    from holdfast.primitives.kv import RedisKV

    kv = RedisKV()                                     # in memory, no network
    kv = RedisKV.connect("redis://localhost:6379/0")   # live

See docs/howto/kv.md.
"""

from __future__ import annotations

from holdfast.primitives.kv.answer import Answer
from holdfast.primitives.kv.errors import WatchFailed
from holdfast.primitives.kv.fronts import AsyncRedisKV, RedisKV
from holdfast.primitives.kv.jsonl import dumps, dumps_line, loads
from holdfast.primitives.kv.memory.twin import MemoryKV
from holdfast.primitives.kv.op import Entry, Op
from holdfast.primitives.kv.transaction import AsyncTransaction, Transaction

__all__ = [
    "Answer",
    "AsyncRedisKV",
    "AsyncTransaction",
    "Entry",
    "MemoryKV",
    "Op",
    "RedisKV",
    "Transaction",
    "WatchFailed",
    "dumps",
    "dumps_line",
    "loads",
]
