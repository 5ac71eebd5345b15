"""Holdfast's Redlock on one Redis."""

from __future__ import annotations

from holdfast.primitives.locks import Redlock
from proof.bench.subject import NAME, TTL_MS, LockSubject
from proof.lab.subject import main


class HoldfastLocks(LockSubject):
    """As a user makes it."""

    def open(self) -> None:
        """Connects when first used."""
        self.locks = Redlock.connect(self.options.url)

    def close(self) -> None:
        """Close it."""
        self.locks.close()

    def once(self) -> None:
        """One pair."""
        token = self.locks.acquire(NAME, TTL_MS)
        if token is None or not self.locks.release(NAME, token):
            raise AssertionError("the lock was not free")


if __name__ == "__main__":
    main(HoldfastLocks)
