"""Floor: SET NX PX and a Lua script that compares and deletes, by hand with redis-py."""

from __future__ import annotations

import uuid

import redis

from proof.bench.subject import NAME, TTL_MS, LockSubject
from proof.lab.subject import main

RELEASE = """
if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
end
return 0
"""


class LocksFloor(LockSubject):
    """No validity, no timeouts, no typed errors."""

    def open(self) -> None:
        """One client."""
        self.client = redis.Redis.from_url(self.options.url)
        self.release = self.client.register_script(RELEASE)

    def close(self) -> None:
        """Close it."""
        self.client.close()

    def once(self) -> None:
        """One pair."""
        token = uuid.uuid4().hex
        if not self.client.set(NAME, token, nx=True, px=TTL_MS):
            raise AssertionError("the lock was not free")
        if not self.release(keys=[NAME], args=[token]):
            raise AssertionError("the lock was not ours")


if __name__ == "__main__":
    main(LocksFloor)
