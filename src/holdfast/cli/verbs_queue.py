"""Verbs of task groups, decisions, dead letters, queues, events, schedules and locks."""

from __future__ import annotations

from typing import Final

from holdfast.cli.verb import HERE, Kind, Verb

QUEUE_VERBS: Final = (
    Verb(
        "task-group enqueue",
        "Enqueue tasks as a group",
        f"{HERE}.task_group:enqueue",
        ("holdfast task-group enqueue tasks.jsonl --id nightly-42",),
        Kind.WRITE,
    ),
    Verb(
        "task-group show",
        "Show how far a task group is",
        f"{HERE}.task_group:show",
        ("holdfast task-group show nightly-42",),
        Kind.SHOW,
    ),
    Verb(
        "task-group wait",
        "Wait until all tasks of a group have ended",
        f"{HERE}.task_group:wait",
        ("holdfast task-group wait nightly-42 --timeout 10m",),
        Kind.SHOW,
    ),
    Verb(
        "task-group cancel",
        "Abort the tasks of a group that have not ended",
        f"{HERE}.task_group:cancel",
        ('holdfast task-group cancel nightly-42 --reason "wrong input"',),
        Kind.WRITE,
    ),
    Verb(
        "decision list",
        "List decisions that tasks wait for",
        f"{HERE}.decision:list_",
        (
            "holdfast decision list",
            "holdfast decision list --state all -o json",
        ),
        Kind.LIST,
    ),
    Verb(
        "decision show",
        "Show a decision with what its task saved",
        f"{HERE}.decision:show",
        ("holdfast decision show dec_0199a1b27c3e",),
        Kind.SHOW,
    ),
    Verb(
        "decision answer",
        "Answer a decision; its task goes on",
        f"{HERE}.decision:answer",
        ('holdfast decision answer dec_0199a1b27c3e yes --reason "all green"',),
        Kind.WRITE,
    ),
    Verb(
        "dlq list",
        "List dead letters, latest first",
        f"{HERE}.dlq:list_",
        ("holdfast dlq list --type send_email",),
        Kind.LIST,
    ),
    Verb(
        "dlq groups",
        "Group dead letters by cause",
        f"{HERE}.dlq:groups",
        ("holdfast dlq groups",),
        Kind.LIST,
    ),
    Verb(
        "dlq show",
        "Show a dead letter with its traceback",
        f"{HERE}.dlq:show",
        ("holdfast dlq show 0199a1b2-7c3e",),
        Kind.SHOW,
    ),
    Verb(
        "dlq replay",
        "Give dead letters new attempts",
        f"{HERE}.dlq_change:replay",
        (
            "holdfast dlq replay 0199a1b2-7c3e",
            "holdfast dlq replay --type send_email --rate 50 --dry-run",
            "holdfast dlq replay --fingerprint 3f2a --yes",
        ),
        Kind.WRITE,
    ),
    Verb(
        "dlq discard",
        "End dead letters for good",
        f"{HERE}.dlq_change:discard",
        (
            "holdfast dlq discard 0199a1b2-7c3e",
            "holdfast dlq discard --type old_type --yes",
        ),
        Kind.WRITE,
    ),
    Verb(
        "dlq edit",
        "Change the payload of a dead or waiting task",
        f"{HERE}.dlq_change:edit",
        (
            "holdfast dlq edit 0199a1b2-7c3e to=b@example.com subject=Hello",
            "holdfast dlq edit 0199a1b2-7c3e --replace to=b@example.com",
        ),
        Kind.WRITE,
    ),
    Verb(
        "queue list",
        "List queues with their waiting and running tasks",
        f"{HERE}.queue:list_",
        ("holdfast queue list",),
        Kind.LIST,
    ),
    Verb(
        "queue show", "Show a queue", f"{HERE}.queue:show", ("holdfast queue show mail",), Kind.SHOW
    ),
    Verb(
        "queue pause",
        "Stop starting tasks of a queue",
        f"{HERE}.queue:pause",
        ('holdfast queue pause mail --reason "provider is down"',),
        Kind.WRITE,
    ),
    Verb(
        "queue resume",
        "Resume a paused queue",
        f"{HERE}.queue:resume",
        ("holdfast queue resume mail",),
        Kind.WRITE,
    ),
    Verb(
        "type list",
        "List the types of tasks that workers have registered",
        f"{HERE}.type:list_",
        ("holdfast type list",),
        Kind.LIST,
    ),
    Verb(
        "weight list",
        "List the keys of a type whose weight is not 1",
        f"{HERE}.weight:list_",
        ("holdfast weight list export",),
        Kind.LIST,
    ),
    Verb(
        "weight set",
        "Set how many tasks a key starts in one turn",
        f"{HERE}.weight:set_",
        ("holdfast weight set export customer-7 4",),
        Kind.WRITE,
    ),
    Verb(
        "events tail",
        "Print events, in order",
        f"{HERE}.events:tail",
        (
            "holdfast events tail --follow",
            "holdfast events tail --after start --limit 0 -o jsonl > events.jsonl",
        ),
        Kind.LIST,
    ),
    Verb(
        "schedule list",
        "List cron schedules",
        f"{HERE}.schedule:list_",
        ("holdfast schedule list",),
        Kind.LIST,
    ),
    Verb(
        "schedule show",
        "Show a schedule with its next fires",
        f"{HERE}.schedule:show",
        ("holdfast schedule show nightly",),
        Kind.SHOW,
    ),
    Verb(
        "schedule add",
        "Add or change a cron schedule",
        f"{HERE}.schedule:add",
        (
            "holdfast schedule add nightly '0 3 * * *' report day=yesterday --timezone Europe/Prague",
        ),
        Kind.WRITE,
    ),
    Verb(
        "schedule remove",
        "Remove a schedule; its tasks stay",
        f"{HERE}.schedule:remove",
        ("holdfast schedule remove nightly",),
        Kind.WRITE,
    ),
    Verb(
        "schedule pause",
        "Stop firing a schedule until it is resumed",
        f"{HERE}.schedule:pause",
        ("holdfast schedule pause nightly --reason 'the partner is down'",),
        Kind.WRITE,
    ),
    Verb(
        "schedule resume",
        "Resume a paused schedule",
        f"{HERE}.schedule:resume",
        ("holdfast schedule resume nightly",),
        Kind.WRITE,
    ),
    Verb(
        "schedule run",
        "Enqueue the task of a schedule now",
        f"{HERE}.schedule:run",
        ("holdfast schedule run nightly --reason 'missed'",),
        Kind.WRITE,
    ),
    Verb(
        "schedule backfill",
        "Enqueue the tasks of past times of a schedule, each once",
        f"{HERE}.backfill:backfill",
        (
            "holdfast schedule backfill nightly --from 2026-08-01 --to 2026-08-04 --dry-run",
            "holdfast schedule backfill nightly --from 2026-08-01T03:00 --yes -m 'the disk was full'",
        ),
        Kind.WRITE,
    ),
    Verb(
        "lock list",
        "List locks that are held",
        f"{HERE}.lock:list_",
        ("holdfast lock list",),
        Kind.LIST,
    ),
    Verb(
        "lock show",
        "Show a lock with its waiters",
        f"{HERE}.lock:show",
        ("holdfast lock show host:42",),
        Kind.SHOW,
    ),
    Verb(
        "lock revoke",
        "Take a lock from its holder",
        f"{HERE}.lock:revoke",
        ('holdfast lock revoke host:42 --reason "the host is gone"',),
        Kind.WRITE,
    ),
)
