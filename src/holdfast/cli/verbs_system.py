"""Verbs of the store and of the command line: access, database, state."""

from __future__ import annotations

from typing import Final

from holdfast.cli.verb import HERE, Kind, Verb

SYSTEM_VERBS: Final = (
    Verb(
        "db migrate",
        "Create the tables of the store, or upgrade them",
        f"{HERE}.db:migrate",
        ("holdfast db migrate --url postgresql://owner@localhost/app",),
        Kind.WRITE,
        local="it changes the tables of a database: give --url",
    ),
    Verb(
        "token create",
        "Create an access token; its secret is shown once",
        f"{HERE}.token:create",
        (
            "holdfast token create ci --role operator --expires 90d",
            "holdfast token create shop --role viewer --project shop",
            "holdfast token create workers --kind join --uses 20 --expires 7d",
        ),
        Kind.WRITE,
    ),
    Verb(
        "token list",
        "List access tokens",
        f"{HERE}.token:list_",
        ("holdfast token list",),
        Kind.LIST,
    ),
    Verb(
        "token revoke",
        "End an access token",
        f"{HERE}.token:revoke",
        ('holdfast token revoke tok_0199a1b27c3e --reason "it leaked"',),
        Kind.WRITE,
    ),
    Verb(
        "token rotate",
        "Give an access token another secret",
        f"{HERE}.token:rotate",
        ("holdfast token rotate tok_0199a1b27c3e",),
        Kind.WRITE,
    ),
    Verb(
        "audit list",
        "List acts of operators, latest first",
        f"{HERE}.audit:list_",
        ("holdfast audit list --limit 20",),
        Kind.LIST,
    ),
    Verb(
        "audit verify",
        "Check that no audit row was changed or removed",
        f"{HERE}.audit:verify",
        ("holdfast audit verify",),
        Kind.SHOW,
    ),
    Verb(
        "audit export",
        "Print all acts of operators, one JSON object a line",
        f"{HERE}.audit:export",
        (
            "holdfast audit export > audit.jsonl",
            "holdfast audit export --since 1200",
        ),
        Kind.SHOW,
    ),
    Verb(
        "db status",
        "Show the schema, the durability and the feed of the database",
        f"{HERE}.db:status",
        ("holdfast db status --url postgresql://localhost/app",),
        Kind.SHOW,
        local="it looks at a database: give --url",
    ),
    Verb(
        "db backup",
        "Copy a SQLite store into a file while workers write",
        f"{HERE}.db_backup:backup",
        (
            "holdfast db backup app-monday.db",
            "holdfast db backup /backups/app.db --overwrite --url sqlite:////var/lib/app/queue.db",
        ),
        Kind.WRITE,
        local="it copies the file of a database: give --url",
    ),
    Verb(
        "db restore",
        "Make a SQLite store what a backup has",
        f"{HERE}.db_backup:restore",
        ("holdfast db restore app-monday.db --yes",),
        Kind.WRITE,
        local="it replaces a database: give --url",
    ),
    Verb(
        "db new-epoch",
        "Make readers of the feed start over after a restore",
        f"{HERE}.db:new_epoch",
        ("holdfast db new-epoch --yes",),
        Kind.WRITE,
        local="it is for the database after a restore: give --url",
    ),
    Verb(
        "watch",
        "Follow a task, a job, or the tasks of a query",
        f"{HERE}.watch:watch",
        (
            "holdfast watch 0199a1b2-7c3e",
            "holdfast watch -q 'type:mail status:failed'",
            "holdfast watch deploy-42 --progress plain",
        ),
        Kind.SHOW,
    ),
    Verb(
        "top",
        "Show what runs and what needs a person, drawn in place",
        f"{HERE}.top:top",
        ("holdfast top", "holdfast top --every 5s", "holdfast top --once"),
        Kind.SHOW,
    ),
    Verb(
        "wait",
        "Wait until a task or a job has a status",
        f"{HERE}.watch:wait",
        (
            "holdfast wait 0199a1b2-7c3e --timeout 5m",
            "holdfast wait 0199a1b2-7c3e --for status=running",
            "holdfast wait deploy-42 --timeout 30m",
        ),
        Kind.SHOW,
    ),
    Verb(
        "logs",
        "Print what a task, or a host of a job, has written",
        f"{HERE}.task_output:logs",
        (
            "holdfast logs 0199a1b2-7c3e --follow",
            "holdfast logs deploy-42 --host web-007",
        ),
        Kind.SHOW,
    ),
    Verb(
        "ui",
        "Open the Control Center of a gateway",
        f"{HERE}.ui:ui",
        ("holdfast ui", "holdfast ui --no-browser"),
        Kind.SHOW,
    ),
    Verb(
        "api",
        "Make a call of the API",
        f"{HERE}.api:api",
        (
            "holdfast api GET /tasks limit=5",
            "holdfast api POST /queues/mail/pause reason=outage",
        ),
        Kind.SHOW,
    ),
    Verb(
        "openapi",
        "Print the description of the API (OpenAPI 3.1)",
        f"{HERE}.api:openapi",
        ("holdfast openapi > openapi.json",),
        Kind.SHOW,
    ),
    Verb(
        "asyncapi",
        "Print the description of the live feed (AsyncAPI 3)",
        f"{HERE}.api:asyncapi",
        ("holdfast asyncapi > asyncapi.json",),
        Kind.SHOW,
    ),
    Verb(
        "stats",
        "Count tasks by status, priority and queue",
        f"{HERE}.stats:stats",
        ("holdfast stats",),
        Kind.SHOW,
    ),
    Verb(
        "doctor",
        "Check the store, the workers and the backlog",
        f"{HERE}.doctor:doctor",
        (
            "holdfast doctor -v",
            "holdfast doctor --strict && echo healthy",
            "holdfast doctor --fix --dry-run",
        ),
        Kind.SHOW,
    ),
    Verb(
        "config explain",
        "List every setting, its value and where it comes from",
        f"{HERE}.config:explain",
        ("holdfast config explain", "holdfast config explain -q '-origin:default'"),
        Kind.LIST,
        local="it reads the settings of this machine",
    ),
    Verb(
        "config path",
        "Print the file of settings that counts here",
        f"{HERE}.config:path",
        ("holdfast config path",),
        Kind.SHOW,
        local="it reads the settings of this machine",
    ),
    Verb(
        "completion",
        "Print the completion script of a shell: bash, zsh or fish",
        f"{HERE}.completion:completion",
        (
            "source <(holdfast completion bash)",
            "holdfast completion fish > ~/.config/fish/completions/holdfast.fish",
        ),
        Kind.RUN,
        local="it prints a script and needs no store",
    ),
    Verb(
        "version", "Print the version", "holdfast.cli.main:version", ("holdfast version",), Kind.RUN
    ),
)
