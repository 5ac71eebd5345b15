"""Verbs of tasks."""

from __future__ import annotations

from typing import Final

from holdfast.cli.verb import HERE, Kind, Verb

TASK_VERBS: Final = (
    Verb(
        "enqueue",
        "Enqueue a task",
        f"{HERE}.enqueue:enqueue",
        (
            "holdfast enqueue send_email to=a@example.com subject=Hello --priority high",
            "echo '{\"n\": 1}' | holdfast enqueue count --json - --wait --timeout 30s",
        ),
        Kind.WRITE,
    ),
    Verb(
        "task list",
        "List tasks, newest first",
        f"{HERE}.task:list_",
        (
            "holdfast task list --status queued --limit 20",
            "holdfast task list -q 'type:mail attempt:>2'",
            "holdfast task list --status queued -o name | holdfast task cancel -",
        ),
        Kind.LIST,
    ),
    Verb(
        "task show",
        "Show all fields of a task",
        f"{HERE}.task:show",
        (
            "holdfast task show 0199a1b2-7c3e",
            "holdfast task show @last -o json",
        ),
        Kind.SHOW,
    ),
    Verb(
        "task why",
        "Show why a task is not running",
        f"{HERE}.task:why",
        ("holdfast task why 0199a1b2-7c3e",),
        Kind.SHOW,
    ),
    Verb(
        "task history",
        "List the events of a task",
        f"{HERE}.task:history",
        ("holdfast task history 0199a1b2-7c3e",),
        Kind.LIST,
    ),
    Verb(
        "task interventions",
        "List the interventions on a task",
        f"{HERE}.task:interventions",
        ("holdfast task interventions 0199a1b2-7c3e",),
        Kind.LIST,
    ),
    Verb(
        "task output",
        "Print the output of a task",
        f"{HERE}.task_output:output",
        (
            "holdfast task output 0199a1b2-7c3e --stream stderr",
            "holdfast task output @last --follow",
        ),
        Kind.SHOW,
    ),
    Verb(
        "task checkpoints",
        "List the named checkpoints of a task",
        f"{HERE}.task_output:checkpoints",
        ("holdfast task checkpoints 0199a1b2-7c3e",),
        Kind.LIST,
    ),
    Verb(
        "task watch",
        "Print the events of a task until it has ended",
        f"{HERE}.watch:watch",
        ("holdfast task watch 0199a1b2-7c3e",),
        Kind.SHOW,
    ),
    Verb(
        "task edit",
        "Change payload, metadata or tags of a waiting task",
        f"{HERE}.dlq_change:edit",
        (
            "holdfast task edit 0199a1b2-7c3e to=b@example.com --reason typo",
            "holdfast task edit 0199a1b2-7c3e --metadata ticket=42",
            "holdfast task edit 0199a1b2-7c3e --tag vip --untag late",
        ),
        Kind.WRITE,
    ),
    Verb(
        "task copy",
        "Enqueue a task like this one",
        f"{HERE}.task_copy:copy",
        (
            "holdfast task copy 0199a1b2-7c3e",
            "holdfast task copy 0199a1b2-7c3e to=b@example.com --reason again",
        ),
        Kind.WRITE,
    ),
    Verb(
        "task cancel",
        "Abort tasks in any state",
        f"{HERE}.task_intervene:cancel",
        (
            'holdfast task cancel 0199a1b2-7c3e --reason "wrong customer"',
            "holdfast task cancel - < ids",
        ),
        Kind.WRITE,
    ),
    Verb(
        "task pause",
        "Stop running tasks until they are resumed",
        f"{HERE}.task_intervene:pause",
        ("holdfast task pause 0199a1b2-7c3e --reason maintenance",),
        Kind.WRITE,
    ),
    Verb(
        "task resume",
        "Put paused tasks back into the queue",
        f"{HERE}.task_intervene:resume",
        ("holdfast task resume 0199a1b2-7c3e",),
        Kind.WRITE,
    ),
    Verb(
        "task abort",
        "End tasks, and record how far their runners followed",
        f"{HERE}.task_intervene:abort",
        ('holdfast task abort 0199a1b2-7c3e --reason "wrong customer"',),
        Kind.WRITE,
    ),
    Verb(
        "task retry",
        "Make tasks due now",
        f"{HERE}.task_intervene:retry",
        ('holdfast task retry 0199a1b2-7c3e --reason "the provider is back"',),
        Kind.WRITE,
    ),
    Verb(
        "task reassign",
        "Reserve tasks for a node",
        f"{HERE}.task_intervene:reassign",
        ('holdfast task reassign 0199a1b2-7c3e --to worker-7 --reason "it has the data"',),
        Kind.WRITE,
    ),
    Verb(
        "task release",
        "Take tasks from their runners",
        f"{HERE}.task_intervene:release",
        ('holdfast task release 0199a1b2-7c3e --reason "the runner hangs"',),
        Kind.WRITE,
    ),
    Verb(
        "task force",
        "Set the status of tasks",
        f"{HERE}.task_intervene:force",
        (
            'holdfast task force 0199a1b2-7c3e --status completed --result 42 --reason "computed by hand"',
        ),
        Kind.WRITE,
    ),
)
