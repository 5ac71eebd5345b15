"""pottery's Redlock on one Redis."""

from __future__ import annotations

import pottery
import redis

from proof.bench.subject import NAME, TTL_MS, LockSubject
from proof.lab.subject import main


class PotteryLock(LockSubject):
    """One client as the only master."""

    def open(self) -> None:
        """One client."""
        self.client = redis.Redis.from_url(self.options.url)

    def close(self) -> None:
        """Close it."""
        self.client.close()

    def once(self) -> None:
        """One pair."""
        lock = pottery.Redlock(key=NAME, masters={self.client}, auto_release_time=TTL_MS / 1000)
        if not lock.acquire(blocking=False):
            raise AssertionError("the lock was not free")
        lock.release()


if __name__ == "__main__":
    main(PotteryLock)
