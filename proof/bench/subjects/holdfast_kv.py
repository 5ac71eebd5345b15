"""Holdfast's key-value store in memory."""

from __future__ import annotations

from holdfast.primitives.kv import RedisKV
from proof.bench.subject import KvSubject
from proof.lab.subject import main


class HoldfastKv(KvSubject):
    """The memory backend."""

    def open(self) -> None:
        """Nothing to connect to."""
        self.kv = RedisKV()


if __name__ == "__main__":
    main(HoldfastKv)
