"""The one table of roles and operations.

Promises: every operation has a row and every role a column. The documentation, `access.py` and the tests of
each transport follow this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Role(StrEnum):
    """What a principal is. The roles of one principal add up."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    APPROVER = "approver"
    ADMIN = "admin"
    WORKER = "worker"
    AGENT = "agent"
    JOIN = "join"
    WEBHOOK = "webhook"


class PrincipalKind(StrEnum):
    """What kind of credential a principal has."""

    USER = "user"
    NODE = "node"
    AGENT = "agent"
    JOIN = "join"
    WEBHOOK = "webhook"


ROLES_OF: Final[Mapping[PrincipalKind, frozenset[Role]]] = MappingProxyType(
    {
        PrincipalKind.USER: frozenset({Role.VIEWER, Role.OPERATOR, Role.APPROVER, Role.ADMIN}),
        PrincipalKind.NODE: frozenset({Role.WORKER}),
        PrincipalKind.AGENT: frozenset({Role.AGENT}),
        PrincipalKind.JOIN: frozenset({Role.JOIN}),
        PrincipalKind.WEBHOOK: frozenset({Role.WEBHOOK}),
    }
)
"""The roles that a kind of credential can have. Another role in its row counts for nothing."""


class Operation(StrEnum):
    """Every use case that a transport offers."""

    TASKS_READ = "tasks.read"
    OUTPUT_READ = "output.read"
    EVENTS_READ = "events.read"
    STATS_READ = "stats.read"
    TASKS_SUBMIT = "tasks.submit"
    TASKS_EDIT = "tasks.edit"
    TASKS_COPY = "tasks.copy"
    TASKS_INTERVENE = "tasks.intervene"
    TASKS_FORCE = "tasks.force"
    QUEUES_READ = "queues.read"
    QUEUES_PAUSE = "queues.pause"
    TYPES_WEIGH = "types.weigh"
    DEAD_REPLAY = "dead.replay"
    DEAD_DISCARD = "dead.discard"
    OPERATIONS_RUN = "operations.run"
    NODES_READ = "nodes.read"
    NODES_MANAGE = "nodes.manage"
    NODES_REGISTER = "nodes.register"
    NODES_ACT_AS = "nodes.act_as"
    SYNC_EXCHANGE = "sync.exchange"
    SYNC_RUN = "sync.run"
    SYNC_STATUS = "sync.status"
    SYNC_LOG = "sync.log"
    CONFLICTS_READ = "conflicts.read"
    SYNC_REPAIR = "sync.repair"
    CONFLICTS_SETTLE = "conflicts.settle"
    LOCKS_READ = "locks.read"
    LOCKS_REVOKE = "locks.revoke"
    SCHEDULES_READ = "schedules.read"
    SCHEDULES_WRITE = "schedules.write"
    DECISIONS_READ = "decisions.read"
    DECISIONS_DECIDE = "decisions.decide"
    JOBS_READ = "jobs.read"
    HOSTS_READ = "hosts.read"
    BLOCKS_READ = "blocks.read"
    JOBS_CREATE = "jobs.create"
    JOBS_CONTROL = "jobs.control"
    JOBS_APPROVE = "jobs.approve"
    JOBS_BREAK_GLASS = "jobs.break_glass"
    HOSTS_WRITE = "hosts.write"
    BLOCKS_WRITE = "blocks.write"
    AGENTS_SYNC = "agents.sync"
    AGENTS_ENROL = "agents.enrol"
    TOKENS_MANAGE = "tokens.manage"
    PROJECTS_MANAGE = "projects.manage"
    WEBHOOKS_MANAGE = "webhooks.manage"
    AUDIT_READ = "audit.read"
    PRESETS_READ = "presets.read"
    PRESETS_WRITE = "presets.write"


class Right(StrEnum):
    """One cell of the table."""

    ALLOWED = "yes"
    OWN = "own"
    """For the node of the credential only: its claims, the tasks it holds, itself."""
    AS_NODE = "as_node"
    """In the name of a node, by a principal that may also do `nodes.act_as`."""
    DENIED = "-"


O: Final = Operation  # noqa: E741 - the table below reads as its page
ORDER: Final = (
    Role.VIEWER, Role.OPERATOR, Role.APPROVER, Role.ADMIN, Role.WORKER, Role.AGENT, Role.JOIN, Role.WEBHOOK,
)  # fmt: skip
TABLE: Final[tuple[tuple[Operation, str], ...]] = (
    #                      viewer operator approver admin worker agent join webhook
    (O.TASKS_READ,         "yes   yes      yes      yes     yes  -     -    -"),
    (O.OUTPUT_READ,        "yes   yes      yes      yes     yes  -     -    -"),
    (O.EVENTS_READ,        "yes   yes      yes      yes     yes  -     -    -"),
    (O.STATS_READ,         "yes   yes      yes      yes     yes  -     -    -"),
    (O.TASKS_SUBMIT,       "-     yes      -        yes     yes  -     -    -"),
    (O.TASKS_EDIT,         "-     yes      -        yes     yes  -     -    -"),
    (O.TASKS_COPY,         "-     yes      -        yes     yes  -     -    -"),
    (O.TASKS_INTERVENE,    "-     yes      -        yes     -    -     -    -"),
    (O.TASKS_FORCE,        "-     -        -        yes     -    -     -    -"),
    (O.QUEUES_READ,        "yes   yes      yes      yes     yes  -     -    -"),
    (O.QUEUES_PAUSE,       "-     yes      -        yes     -    -     -    -"),
    (O.TYPES_WEIGH,        "-     yes      -        yes     -    -     -    -"),
    (O.DEAD_REPLAY,        "-     yes      -        yes     -    -     -    -"),
    (O.DEAD_DISCARD,       "-     yes      -        yes     -    -     -    -"),
    (O.OPERATIONS_RUN,     "-     yes      -        yes     -    -     -    -"),
    (O.NODES_READ,         "yes   yes      yes      yes     own  -     -    -"),
    (O.NODES_MANAGE,       "-     yes      -        yes     -    -     -    -"),
    (O.NODES_REGISTER,     "-     -        -        yes     own  -     yes  -"),
    (O.NODES_ACT_AS,       "-     -        -        yes     -    -     -    -"),
    (O.SYNC_EXCHANGE,      "-     -        -        as_node own  -     -    -"),
    (O.SYNC_RUN,           "-     -        -        as_node own  -     -    -"),
    (O.SYNC_STATUS,        "yes   yes      yes      yes     yes  -     -    -"),
    (O.SYNC_LOG,           "yes   yes      yes      yes     yes  -     -    -"),
    (O.CONFLICTS_READ,     "yes   yes      yes      yes     yes  -     -    -"),
    (O.SYNC_REPAIR,        "-     yes      -        yes     -    -     -    -"),
    (O.CONFLICTS_SETTLE,   "-     yes      -        yes     -    -     -    -"),
    (O.LOCKS_READ,         "yes   yes      yes      yes     yes  -     -    -"),
    (O.LOCKS_REVOKE,       "-     yes      -        yes     -    -     -    -"),
    (O.SCHEDULES_READ,     "yes   yes      yes      yes     yes  -     -    -"),
    (O.SCHEDULES_WRITE,    "-     yes      -        yes     -    -     -    -"),
    (O.DECISIONS_READ,     "yes   yes      yes      yes     own  -     -    -"),
    (O.DECISIONS_DECIDE,   "-     -        yes      yes     -    -     -    -"),
    (O.JOBS_READ,          "yes   yes      yes      yes     -    own   -    -"),
    (O.HOSTS_READ,         "yes   yes      yes      yes     -    own   -    -"),
    (O.BLOCKS_READ,        "yes   yes      yes      yes     -    own   -    -"),
    (O.JOBS_CREATE,        "-     yes      -        yes     -    -     -    yes"),
    (O.JOBS_CONTROL,       "-     yes      -        yes     -    -     -    -"),
    (O.JOBS_APPROVE,       "-     -        yes      yes     -    -     -    -"),
    (O.JOBS_BREAK_GLASS,   "-     -        -        yes     -    -     -    -"),
    (O.HOSTS_WRITE,        "-     yes      -        yes     -    -     -    -"),
    (O.BLOCKS_WRITE,       "-     yes      -        yes     -    -     -    -"),
    (O.AGENTS_SYNC,        "-     -        -        -       -    yes   -    -"),
    (O.AGENTS_ENROL,       "-     -        -        -       -    -     yes  -"),
    (O.TOKENS_MANAGE,      "-     -        -        yes     -    -     -    -"),
    (O.PROJECTS_MANAGE,    "-     -        -        yes     -    -     -    -"),
    (O.WEBHOOKS_MANAGE,    "-     -        -        yes     -    -     -    -"),
    (O.AUDIT_READ,         "-     -        -        yes     -    -     -    -"),
    (O.PRESETS_READ,       "yes   yes      yes      yes     -    -     -    -"),
    (O.PRESETS_WRITE,      "-     yes      -        yes     -    -     -    -"),
)  # fmt: skip
"""The rights of each role, in the order of `ORDER`."""
RIGHTS: Final[Mapping[tuple[Role, Operation], Right]] = MappingProxyType(
    {
        (role, operation): Right(cell)
        for operation, cells in TABLE
        for role, cell in zip(ORDER, cells.split(), strict=True)
    }
)
