"""Floor: LPUSH and BRPOP of redis-py, nothing acknowledged."""

from __future__ import annotations

import redis

from proof.bench.probe import run
from proof.bench.subject import QueueSubject
from proof.lab.subject import main


class RedisFloor(QueueSubject):
    """A list."""

    def open(self) -> None:
        """One connection."""
        self.client = redis.Redis.from_url(self.options.url, decode_responses=True)

    def close(self) -> None:
        """Close it."""
        self.client.close()

    def enqueue(self, kind: str, arg: int) -> None:
        """One LPUSH."""
        self.client.lpush("jobs", f"{kind} {arg}")

    def work(self) -> None:
        """Until killed."""
        client = redis.Redis.from_url(self.options.url, decode_responses=True)
        while True:
            found = client.brpop(["jobs"], timeout=5)
            if found:
                kind, arg = str(found[1]).split()
                run(kind, int(arg))


if __name__ == "__main__":
    main(RedisFloor)
