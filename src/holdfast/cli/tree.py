"""The one table of verbs: their names, summaries, modules and kinds.

Promises: importing it is cheap, so help is instant; every verb has an example.
Never: imports a command.
"""

from __future__ import annotations

from typing import Final

from holdfast.cli.verbs_fleet import FLEET_VERBS
from holdfast.cli.verbs_hub import HUB_VERBS
from holdfast.cli.verbs_job import JOB_VERBS
from holdfast.cli.verbs_queue import QUEUE_VERBS
from holdfast.cli.verbs_run import RUN_VERBS
from holdfast.cli.verbs_system import SYSTEM_VERBS
from holdfast.cli.verbs_task import TASK_VERBS
from holdfast.cli.verbs_webhook import WEBHOOK_VERBS

VERBS: Final = (
    *RUN_VERBS,
    *TASK_VERBS,
    *QUEUE_VERBS,
    *HUB_VERBS,
    *JOB_VERBS,
    *FLEET_VERBS,
    *WEBHOOK_VERBS,
    *SYSTEM_VERBS,
)
BY_PATH: Final = {verb.path: verb for verb in VERBS}
NOUNS: Final = {
    "task": "Tasks",
    "task-group": "Groups of tasks",
    "decision": "Decisions that tasks wait for",
    "dlq": "Dead letters",
    "queue": "Queues",
    "type": "Types of tasks",
    "weight": "Weights of keys that take turns",
    "events": "The feed of events",
    "schedule": "Cron schedules",
    "lock": "Locks",
    "node": "Nodes",
    "conflict": "Conflicts between nodes and the server",
    "op": "Changes of many tasks",
    "sync": "The exchange with nodes",
    "approval": "Approvals that jobs wait for",
    "job": "Jobs: one command on many hosts",
    "host": "Hosts of the fleet",
    "group": "Groups of hosts",
    "block": "What keeps commands off hosts",
    "webhook": "Signed requests and events",
    "project": "Projects",
    "token": "Access tokens",
    "audit": "The audit of operators' acts",
    "db": "The database",
    "config": "Settings",
    "orders": "Orders",
}
