"""redis-py's Lock."""

from __future__ import annotations

import redis

from proof.bench.subject import NAME, TTL_MS, LockSubject
from proof.lab.subject import main


class RedisPyLock(LockSubject):
    """One client, a new Lock each time, as in its manual."""

    def open(self) -> None:
        """One client."""
        self.client = redis.Redis.from_url(self.options.url)

    def close(self) -> None:
        """Close it."""
        self.client.close()

    def once(self) -> None:
        """One pair."""
        lock = self.client.lock(NAME, timeout=TTL_MS / 1000)
        if not lock.acquire(blocking=False):
            raise AssertionError("the lock was not free")
        lock.release()


if __name__ == "__main__":
    main(RedisPyLock)
