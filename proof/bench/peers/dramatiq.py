"""Dramatiq on Redis: eight threads per worker process, the default of its command line."""

from __future__ import annotations

import logging
import time

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from proof.bench.probe import KINDS, run
from proof.bench.subject import QueueSubject
from proof.lab.subject import Options, main


class DramatiqSubject(QueueSubject):
    """One actor per kind, one queue."""

    def __init__(self, options: Options) -> None:
        """Declare the actors."""
        super().__init__(options)
        logging.getLogger("dramatiq").setLevel(logging.WARNING)
        self.broker = RedisBroker(url=options.url)
        dramatiq.set_broker(self.broker)
        self.actors = {
            kind: dramatiq.actor(_handler(kind), actor_name=kind, broker=self.broker)
            for kind in KINDS
        }

    def close(self) -> None:
        """Disconnect."""
        self.broker.close()

    def enqueue(self, kind: str, arg: int) -> None:
        """One message."""
        self.actors[kind].send(arg)

    def work(self) -> None:
        """Until killed."""
        threads = self.options.concurrency or 8
        self.broker.emit_after("process_boot")
        dramatiq.Worker(self.broker, worker_threads=threads).start()
        while True:
            time.sleep(60)


def _handler(kind: str):  # type: ignore[no-untyped-def]
    def handler(arg: int) -> None:
        run(kind, arg)

    return handler


if __name__ == "__main__":
    main(DramatiqSubject)
