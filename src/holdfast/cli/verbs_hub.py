"""Verbs of the sync hub: nodes, conflicts, changes of many tasks, the exchange, projects."""

from __future__ import annotations

from typing import Final

from holdfast.cli.verb import HERE, Kind, Verb

HUB_VERBS: Final = (
    Verb(
        "node list",
        "List the processes that run tasks",
        f"{HERE}.node:list_",
        ("holdfast node list",),
        Kind.LIST,
    ),
    Verb(
        "node show",
        "Show a node that has registered",
        f"{HERE}.node_change:show",
        ("holdfast node show plugin-a",),
        Kind.SHOW,
    ),
    Verb(
        "node register",
        "Register a node; its credential is shown once",
        f"{HERE}.node_register:register",
        ("holdfast node register plugin-a --project web",),
        Kind.WRITE,
    ),
    Verb(
        "node join-token",
        "Create a token with which nodes register or hosts enrol",
        f"{HERE}.token:join",
        (
            "holdfast node join-token --project web --uses 20 --expires 7d",
            "holdfast node join-token --kind agent --uses 100 --expires 7d",
        ),
        Kind.WRITE,
    ),
    Verb(
        "node cordon",
        "Give a node no new tasks",
        f"{HERE}.node_change:cordon",
        ('holdfast node cordon plugin-a --reason "disk is full"',),
        Kind.WRITE,
    ),
    Verb(
        "node uncordon",
        "Admit a node again",
        f"{HERE}.node_change:uncordon",
        ("holdfast node uncordon plugin-a",),
        Kind.WRITE,
    ),
    Verb(
        "node drain",
        "Give a node no new tasks; running ones finish",
        f"{HERE}.node_change:drain",
        ("holdfast node drain plugin-a",),
        Kind.WRITE,
    ),
    Verb(
        "node quarantine",
        "Refuse everything that a node sends",
        f"{HERE}.node_change:quarantine",
        ('holdfast node quarantine plugin-a --reason "it was cloned"',),
        Kind.WRITE,
    ),
    Verb(
        "node revoke",
        "End the runs and the credential of a node",
        f"{HERE}.node_change:revoke",
        ('holdfast node revoke plugin-a --reason "the laptop is lost"',),
        Kind.WRITE,
    ),
    Verb(
        "conflict list",
        "List conflicts that wait for a person",
        f"{HERE}.conflict:list_",
        (
            "holdfast conflict list --project web",
            "holdfast conflict list --state all -o json",
        ),
        Kind.LIST,
    ),
    Verb(
        "conflict show",
        "Show a conflict with both sides",
        f"{HERE}.conflict:show",
        ("holdfast conflict show con_0199a1b27c3e",),
        Kind.SHOW,
    ),
    Verb(
        "conflict settle",
        "Settle a conflict with one of its sides",
        f"{HERE}.conflict:settle",
        ('holdfast conflict settle con_0199a1b27c3e client --reason "theirs is newer"',),
        Kind.WRITE,
    ),
    Verb(
        "op run",
        "Change all tasks that match a query",
        f"{HERE}.op:run",
        (
            "holdfast op run abort -q 'type:mail status:queued' --dry-run",
            "holdfast op run replay -q type:mail --rate 50 --reason fixed",
        ),
        Kind.WRITE,
    ),
    Verb(
        "op list",
        "List operations, latest first",
        f"{HERE}.op:list_",
        ("holdfast op list",),
        Kind.LIST,
    ),
    Verb(
        "op show",
        "Show an operation and how far it is",
        f"{HERE}.op:show",
        ("holdfast op show op_0199a1b27c3e",),
        Kind.SHOW,
    ),
    Verb(
        "op stop",
        "Change no further task of an operation",
        f"{HERE}.op:stop",
        ('holdfast op stop op_0199a1b27c3e --reason "wrong query"',),
        Kind.WRITE,
    ),
    Verb(
        "op resume",
        "Go on with a stopped operation",
        f"{HERE}.op:resume",
        ("holdfast op resume op_0199a1b27c3e",),
        Kind.WRITE,
    ),
    Verb(
        "op undo",
        "Resume the tasks that an operation has paused",
        f"{HERE}.op:undo",
        (
            "holdfast op undo op_0199a1b27c3e --dry-run",
            'holdfast op undo @last --reason "wrong query"',
        ),
        Kind.WRITE,
    ),
    Verb(
        "sync status",
        "Show the figures of a project",
        f"{HERE}.sync:status",
        ("holdfast sync status web",),
        Kind.SHOW,
    ),
    Verb(
        "sync log",
        "List what nodes did",
        f"{HERE}.sync:log",
        ("holdfast sync log web --outcome refused",),
        Kind.LIST,
    ),
    Verb(
        "sync verify",
        "Compare the folder of a node with the server",
        f"{HERE}.sync_verify:verify",
        ("holdfast sync verify .holdfast",),
        Kind.SHOW,
    ),
    Verb(
        "sync fix-expired-locks",
        "End runs whose lease has ended",
        f"{HERE}.sync:fix_expired_locks",
        ("holdfast sync fix-expired-locks --dry-run",),
        Kind.WRITE,
    ),
    Verb(
        "project list",
        "List projects",
        f"{HERE}.project:list_",
        ("holdfast project list",),
        Kind.LIST,
    ),
    Verb(
        "project show",
        "Show a project",
        f"{HERE}.project:show",
        ("holdfast project show web",),
        Kind.SHOW,
    ),
    Verb(
        "project create",
        "Create a project",
        f"{HERE}.project:create",
        ("holdfast project create web --strategy manual",),
        Kind.WRITE,
    ),
    Verb(
        "project set",
        "Change how the conflicts of a project are settled",
        f"{HERE}.project:set_",
        ("holdfast project set web --strategy merge --override text=manual",),
        Kind.WRITE,
    ),
)
