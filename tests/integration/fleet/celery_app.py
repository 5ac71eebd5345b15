"""An application with Celery whose hosts are folders of this machine: real journals, real processes.

Environment: STORE, BROKER, HOSTS (a folder). The pauses before messages are sent again are short.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from celery import Celery

from holdfast.agent.executor import HostExecutor
from holdfast.agent.journal import HostJournal
from holdfast.agent.link import LocalHost
from holdfast.agent.settings import AgentSettings
from holdfast.core.fleet.model import Host, HostDriver
from holdfast.core.fleet.rules import FleetRules
from holdfast.fleet import celery as hosting, driving
from holdfast.fleet.driving import Rig
from holdfast.fleet.jobs import outbox
from holdfast.store.backends import secret_ids

RULES = FleetRules(outbox_seconds=0.2, lease_seconds=5.0, base_backoff_seconds=0.1)
AGAIN_SECONDS = 1.5
FOLDER = Path(os.environ.get("HOSTS", "."))


@asynccontextmanager
async def reach(host: Host) -> AsyncIterator[Rig]:
    """A host whose files are a folder here, as they would be over SSH."""
    folder = FOLDER / host.name
    machine = LocalHost()
    journal = HostJournal(machine, folder / "journal", secret_ids().secret())
    await journal.load()
    try:
        yield Rig(journal, HostExecutor(machine, folder / "runs"), AgentSettings(allow=("*",)))
    finally:
        await machine.close()


def make() -> Celery:
    for module, name in (
        (outbox, "CLAIM_SECONDS"),
        (outbox, "OVERDUE_SECONDS"),
        (hosting, "OVERDUE_SECONDS"),
        (driving, "LEASE_SECONDS"),
    ):
        setattr(module, name, AGAIN_SECONDS)
    made = Celery("holdfast-test", broker=os.environ["BROKER"])
    made.conf.update(
        beat_max_loop_interval=0.2,
        worker_hijack_root_logger=False,
        broker_connection_retry_on_startup=True,
        broker_connection_retry=True,
        worker_cancel_long_running_tasks_on_connection_loss=False,
    )
    hosting.install(made, os.environ["STORE"], rules=RULES, reach={HostDriver.SSH: reach})
    return made


if "BROKER" in os.environ:
    app = make()
