"""fakeredis: redis-py on a server that is emulated in the process."""

from __future__ import annotations

import fakeredis

from proof.bench.subject import KvSubject
from proof.lab.subject import main


class FakeRedisKv(KvSubject):
    """Its own client."""

    def open(self) -> None:
        """Nothing to connect to."""
        self.kv = fakeredis.FakeRedis(decode_responses=True)


if __name__ == "__main__":
    main(FakeRedisKv)
