"""DBOS Transact: one durable workflow per task, on one queue without limits, polled every second."""

from __future__ import annotations

import time

import sqlalchemy
from dbos import DBOS, DBOSClient, DBOSConfig

from proof.bench.probe import KINDS, run
from proof.bench.subject import QueueSubject
from proof.lab.subject import main


class DbosSubject(QueueSubject):
    """Its client as the producer, so that only workers run workflows."""

    settles = True

    def _launch(self) -> None:
        config: DBOSConfig = {
            "name": "bench",
            "system_database_url": self.options.url,
            "run_admin_server": False,
            "log_level": "ERROR",
            "application_version": "1",
        }
        DBOS(config=config)
        for kind in KINDS:
            DBOS.workflow(name=kind)(_handler(kind))
        DBOS.launch()

    def install(self) -> None:
        """Launching makes its schema; nothing may run in this process afterwards."""
        self._launch()
        DBOS.destroy()

    def open(self) -> None:
        """Its client, and a connection to count by."""
        self.client = DBOSClient(system_database_url=self.options.url)
        url = self.options.url.replace("postgresql:", "postgresql+psycopg:")
        self.engine = sqlalchemy.create_engine(url)

    def close(self) -> None:
        """Disconnect."""
        self.client.destroy()
        self.engine.dispose()

    def enqueue(self, kind: str, arg: int) -> None:
        """One workflow."""
        self.client.enqueue({"queue_name": "bench", "workflow_name": kind}, arg)

    def unfinished(self) -> int:
        """Workflows enqueued or pending."""
        query = "select count(*) from dbos.workflow_status where status in ('ENQUEUED', 'PENDING')"
        with self.engine.connect() as conn:
            return int(conn.execute(sqlalchemy.text(query)).scalar_one())

    def work(self) -> None:
        """Until killed."""
        self._launch()
        DBOS.register_queue("bench", worker_concurrency=self.options.concurrency or None)
        while True:
            time.sleep(60)


def _handler(kind: str):  # type: ignore[no-untyped-def]
    def handler(arg: int) -> None:
        run(kind, arg)

    handler.__qualname__ = kind
    return handler


if __name__ == "__main__":
    main(DbosSubject)
