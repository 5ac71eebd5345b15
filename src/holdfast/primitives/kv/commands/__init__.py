"""Every command once: its signature, its words, how to read its answer.

The fronts (`RedisKV`, `AsyncRedisKV`, `Batch`) are made from these signatures by scripts/kv_fronts.py.
"""

from __future__ import annotations

from holdfast.primitives.kv.commands import (
    compare,
    hashes,
    keys,
    lists,
    sets,
    streams,
    strings,
    zsets,
)

__all__ = ["compare", "hashes", "keys", "lists", "sets", "streams", "strings", "zsets"]
