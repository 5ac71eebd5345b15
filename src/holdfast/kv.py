"""A key-value store with the commands of Redis: in memory by default, or on a live Redis.

    from holdfast.kv import RedisKV

docs/howto/kv.md lists the commands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast._lazy import lazily

if TYPE_CHECKING:
    from holdfast.primitives.kv import (
        Answer,
        AsyncRedisKV,
        AsyncTransaction,
        BadCommand,
        Entry,
        MemoryKV,
        NotAFloat,
        NotAnInteger,
        NotText,
        Op,
        Overflow,
        RedisKV,
        Transaction,
        WatchFailed,
        WrongType,
        dumps,
        dumps_line,
        loads,
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

if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, {"holdfast.primitives.kv": __all__})
