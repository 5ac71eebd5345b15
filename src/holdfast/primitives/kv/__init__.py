"""A key-value store with the commands of Redis: in memory by default, or on a live Redis.

    from holdfast.primitives.kv import RedisKV

    kv = RedisKV()                                     # in memory, no network
    kv = RedisKV.connect("redis://localhost:6379/0")   # live

See docs/howto/kv.md.
"""

from __future__ import annotations

from holdfast.primitives.kv._answer import Answer
from holdfast.primitives.kv._fronts import AsyncRedisKV, RedisKV
from holdfast.primitives.kv._jsonl import dumps, dumps_line, loads
from holdfast.primitives.kv._memory.twin import MemoryKV
from holdfast.primitives.kv._op import Entry, Op
from holdfast.primitives.kv._transaction import AsyncTransaction, Transaction
from holdfast.primitives.kv.errors import (
    BadCommand,
    NotAFloat,
    NotAnInteger,
    NotText,
    Overflow,
    WatchFailed,
    WrongType,
)

__all__ = [
    "Answer",
    "AsyncRedisKV",
    "AsyncTransaction",
    "BadCommand",
    "Entry",
    "MemoryKV",
    "NotAFloat",
    "NotAnInteger",
    "NotText",
    "Op",
    "Overflow",
    "RedisKV",
    "Transaction",
    "WatchFailed",
    "WrongType",
    "dumps",
    "dumps_line",
    "loads",
]
