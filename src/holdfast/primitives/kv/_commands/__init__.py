"""Every command, defined once: its signature, its words, how to read its answer.

scripts/kv_fronts.py generates the fronts (`RedisKV`, `AsyncRedisKV`, `Batch`) from these signatures.
"""

from __future__ import annotations

from holdfast.primitives.kv._commands import (
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
