"""Holdfast's key-value store in memory."""

from __future__ import annotations

from benchmarks.subjects._kv import KvSubject
from benchmarks.subjects._protocol import main
from holdfast.primitives.kv import RedisKV


class HoldfastKv(KvSubject):
    """The memory twin."""

    def open(self) -> None:
        """Nothing to connect to."""
        self.kv = RedisKV()


if __name__ == "__main__":
    main(HoldfastKv)
