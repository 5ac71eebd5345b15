"""The one table of verbs: their names, summaries and modules.

Promises: importing it is cheap, so help is instant; every verb has an example.
Never: imports a command.
"""

from __future__ import annotations

from typing import Final

from holdfast.cli.verb import HERE, Verb
from holdfast.cli.verbs_fleet import FLEET_VERBS
from holdfast.cli.verbs_hub import HUB_VERBS
from holdfast.cli.verbs_task import TASK_VERBS

VERBS: Final = (
    Verb(
        "demo",
        "Watch tasks survive failures and a killed worker",
        "holdfast.cli.demo.command:demo",
        ("holdfast demo", "holdfast demo --url postgresql://localhost/test"),
        local="it starts its workers on a store that it makes",
    ),
    Verb(
        "dev",
        "Try it: a server with a living sample, in one process",
        "holdfast.cli.dev.command:dev",
        ("holdfast dev --open", "holdfast dev --empty --url sqlite:///holdfast.db"),
        local="it serves a store that it makes",
    ),
    Verb(
        "worker",
        "Run the tasks of a queue",
        "holdfast.cli.worker.command:worker",
        ("holdfast worker myapp:queue", "holdfast worker myapp:queue --processes 4 --queues mail"),
    ),
    Verb(
        "server",
        "Serve the API of a store",
        f"{HERE}.server:server",
        (
            "holdfast server --port 8787",
            "holdfast server --url postgresql://localhost/app --redis redis://localhost",
            "holdfast server --url postgresql://localhost/app --no-loops",
            "holdfast server --workers myapp:queue",
        ),
        local="it serves a store: give --url",
    ),
    Verb(
        "agent",
        "Run commands of the fleet on this host",
        f"{HERE}.agent:agent",
        (
            "holdfast agent --gateway holdfasts://hub:8787 --token hf_join_...",
            "holdfast agent --gateway holdfasts://a:8787,b:8787 --labels role=web,env=prod",
            "holdfast agent --gateway holdfasts://hub:8787 --allow 'ping,facts,deploy-*'",
        ),
    ),
    Verb(
        "enqueue",
        "Enqueue a task",
        f"{HERE}.enqueue:enqueue",
        (
            "holdfast enqueue send_email to=a@example.com subject=Hello --priority high",
            "echo '{\"n\": 1}' | holdfast enqueue count --json - --wait --timeout 30s",
        ),
    ),
    *TASK_VERBS,
    Verb(
        "decision list",
        "List decisions that tasks wait for",
        f"{HERE}.decision:list_",
        ("holdfast decision list", "holdfast decision list --state all -o json"),
    ),
    Verb(
        "decision show",
        "Show a decision with what its task saved",
        f"{HERE}.decision:show",
        ("holdfast decision show dec_0199a1b27c3e",),
    ),
    Verb(
        "decision answer",
        "Answer a decision; its task goes on",
        f"{HERE}.decision:answer",
        ('holdfast decision answer dec_0199a1b27c3e yes --reason "all green"',),
    ),
    Verb(
        "dlq list",
        "List dead letters, latest first",
        f"{HERE}.dlq:list_",
        ("holdfast dlq list --type send_email",),
    ),
    Verb(
        "dlq groups",
        "Group dead letters by cause",
        f"{HERE}.dlq:groups",
        ("holdfast dlq groups",),
    ),
    Verb(
        "dlq show",
        "Show a dead letter with its traceback",
        f"{HERE}.dlq:show",
        ("holdfast dlq show 0199a1b2-7c3e",),
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
    ),
    Verb(
        "dlq discard",
        "End dead letters for good",
        f"{HERE}.dlq_change:discard",
        ("holdfast dlq discard 0199a1b2-7c3e", "holdfast dlq discard --type old_type --yes"),
    ),
    Verb(
        "dlq edit",
        "Change the payload of a dead or waiting task",
        f"{HERE}.dlq_change:edit",
        (
            "holdfast dlq edit 0199a1b2-7c3e to=b@example.com subject=Hello",
            "holdfast dlq edit 0199a1b2-7c3e --replace to=b@example.com",
        ),
    ),
    Verb(
        "queue list",
        "List queues with their waiting and running tasks",
        f"{HERE}.queue:list_",
        ("holdfast queue list",),
    ),
    Verb(
        "queue show",
        "Show a queue",
        f"{HERE}.queue:show",
        ("holdfast queue show mail",),
    ),
    Verb(
        "queue pause",
        "Stop starting tasks of a queue",
        f"{HERE}.queue:pause",
        ('holdfast queue pause mail --reason "provider is down"',),
    ),
    Verb(
        "queue resume",
        "Resume a paused queue",
        f"{HERE}.queue:resume",
        ("holdfast queue resume mail",),
    ),
    Verb(
        "events tail",
        "Print events, in order",
        f"{HERE}.events:tail",
        (
            "holdfast events tail --follow",
            "holdfast events tail --after start --limit 0 -o jsonl > events.jsonl",
        ),
    ),
    Verb(
        "schedule list",
        "List cron schedules",
        f"{HERE}.schedule:list_",
        ("holdfast schedule list",),
    ),
    Verb(
        "schedule add",
        "Add or change a cron schedule",
        f"{HERE}.schedule:add",
        (
            "holdfast schedule add nightly '0 3 * * *' report day=yesterday --timezone Europe/Prague",
        ),
    ),
    Verb(
        "schedule remove",
        "Remove a schedule; its tasks stay",
        f"{HERE}.schedule:remove",
        ("holdfast schedule remove nightly",),
    ),
    Verb(
        "schedule pause",
        "Stop firing a schedule until it is resumed",
        f"{HERE}.schedule:pause",
        ("holdfast schedule pause nightly --reason 'the partner is down'",),
    ),
    Verb(
        "schedule resume",
        "Resume a paused schedule",
        f"{HERE}.schedule:resume",
        ("holdfast schedule resume nightly",),
    ),
    Verb(
        "schedule run",
        "Enqueue the task of a schedule now",
        f"{HERE}.schedule:run",
        ("holdfast schedule run nightly --reason 'missed'",),
    ),
    Verb(
        "orders demo",
        "Trade on a simulated exchange, crash, recover",
        f"{HERE}.orders:demo",
        (
            "holdfast orders demo --shadow --durable-state --state-dir state --iterations 50",
            "holdfast orders demo --shadow --durable-state --state-dir state --recover --iterations 99",
            "holdfast orders demo --shadow --symbols BTCUSDT,ETHUSDT --freeze-at 20 --freeze-at 35",
        ),
        local="it trades on a simulated exchange",
    ),
    Verb(
        "simulate",
        "Run a cluster under faults in virtual time",
        f"{HERE}.simulate:simulate",
        (
            "holdfast simulate --seed 7 --hours 1 -o json",
            "holdfast simulate locks --seeds 200 --processes 2",
            'holdfast simulate --app myapp:queue --payload \'send_email={"to": "a"}\'',
        ),
        local="it runs in virtual time, without a store",
    ),
    Verb(
        "lock list",
        "List locks that are held",
        f"{HERE}.lock:list_",
        ("holdfast lock list",),
    ),
    Verb(
        "lock show",
        "Show a lock with its waiters",
        f"{HERE}.lock:show",
        ("holdfast lock show host:42",),
    ),
    Verb(
        "lock revoke",
        "Take a lock from its holder",
        f"{HERE}.lock:revoke",
        ('holdfast lock revoke host:42 --reason "the host is gone"',),
    ),
    Verb(
        "node list",
        "List the processes that run tasks",
        f"{HERE}.node:list_",
        ("holdfast node list",),
    ),
    *HUB_VERBS,
    *FLEET_VERBS,
    Verb(
        "db migrate",
        "Create the tables of the store, or upgrade them",
        f"{HERE}.db:migrate",
        ("holdfast db migrate --url postgresql://owner@localhost/app",),
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
    ),
    Verb(
        "token list",
        "List access tokens",
        f"{HERE}.token:list_",
        ("holdfast token list",),
    ),
    Verb(
        "token revoke",
        "End an access token",
        f"{HERE}.token:revoke",
        ('holdfast token revoke tok_0199a1b27c3e --reason "it leaked"',),
    ),
    Verb(
        "token rotate",
        "Give an access token another secret",
        f"{HERE}.token:rotate",
        ("holdfast token rotate tok_0199a1b27c3e",),
    ),
    Verb(
        "audit list",
        "List acts of operators, latest first",
        f"{HERE}.audit:list_",
        ("holdfast audit list --limit 20",),
    ),
    Verb(
        "audit verify",
        "Check that no audit row was changed or removed",
        f"{HERE}.audit:verify",
        ("holdfast audit verify",),
    ),
    Verb(
        "audit export",
        "Print all acts of operators, oldest first, one JSON object a line",
        f"{HERE}.audit:export",
        ("holdfast audit export > audit.jsonl", "holdfast audit export --since 1200"),
    ),
    Verb(
        "db status",
        "Show the schema, the durability and the feed of the database",
        f"{HERE}.db:status",
        ("holdfast db status --url postgresql://localhost/app",),
        local="it looks at a database: give --url",
    ),
    Verb(
        "db new-epoch",
        "Make readers of the feed start over after a restore",
        f"{HERE}.db:new_epoch",
        ("holdfast db new-epoch --yes",),
        local="it is for the database after a restore: give --url",
    ),
    Verb(
        "watch",
        "Follow a task or a job until it has ended, or the tasks of a query",
        f"{HERE}.watch:watch",
        (
            "holdfast watch 0199a1b2-7c3e",
            "holdfast watch -q 'type:mail status:failed'",
            "holdfast watch deploy-42 --progress plain",
        ),
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
    ),
    Verb(
        "logs",
        "Print what a task, or a host of a job, has written",
        f"{HERE}.task_output:logs",
        ("holdfast logs 0199a1b2-7c3e --follow", "holdfast logs deploy-42 --host web-007"),
    ),
    Verb(
        "api",
        "Make a call of the API",
        f"{HERE}.api:api",
        (
            "holdfast api GET /tasks limit=5",
            "holdfast api POST /queues/mail/pause reason=outage",
        ),
    ),
    Verb(
        "openapi",
        "Print the description of the API (OpenAPI 3.1)",
        f"{HERE}.api:openapi",
        ("holdfast openapi > openapi.json",),
    ),
    Verb(
        "stats",
        "Count tasks by status, priority and queue",
        f"{HERE}.stats:stats",
        ("holdfast stats",),
    ),
    Verb(
        "doctor",
        "Check the store, the workers and the backlog",
        f"{HERE}.doctor:doctor",
        ("holdfast doctor -v", "holdfast doctor --strict && echo healthy"),
    ),
    Verb("version", "Print the version", "holdfast.cli.main:version", ("holdfast version",)),
)
BY_PATH: Final = {verb.path: verb for verb in VERBS}
NOUNS: Final = {
    "task": "Tasks",
    "decision": "Decisions that tasks wait for",
    "dlq": "Dead letters",
    "queue": "Queues",
    "events": "The feed of events",
    "schedule": "Cron schedules",
    "lock": "Locks",
    "node": "Nodes",
    "conflict": "Conflicts between nodes and the server",
    "op": "Changes of many tasks",
    "sync": "The exchange with nodes",
    "job": "Jobs: one command on many hosts",
    "host": "Hosts of the fleet",
    "group": "Groups of hosts",
    "block": "What keeps commands off hosts",
    "webhook": "Signed requests and events",
    "project": "Projects",
    "token": "Access tokens",
    "audit": "The audit of operators' acts",
    "db": "The database",
    "orders": "Orders",
}
