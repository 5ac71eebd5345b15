"""Verbs that start programs: servers, workers, agents, demos."""

from __future__ import annotations

from typing import Final

from holdfast.cli.verb import HERE, Kind, Verb

RUN_VERBS: Final = (
    Verb(
        "demo",
        "Watch tasks survive failures and a killed worker",
        "holdfast.cli.demo.command:demo",
        (
            "holdfast demo",
            "holdfast demo --url postgresql://localhost/test",
        ),
        Kind.RUN,
        local="it starts its workers on a store that it makes",
    ),
    Verb(
        "dev",
        "Try it: a server with a living sample, in one process",
        "holdfast.cli.dev.command:dev",
        (
            "holdfast dev --open",
            "holdfast dev --empty --url sqlite:///holdfast.db",
        ),
        Kind.RUN,
        local="it serves a store that it makes",
    ),
    Verb(
        "init",
        "Write the first files of an application",
        f"{HERE}.init:init",
        ("holdfast init", "holdfast init myapp --dry-run"),
        Kind.RUN,
        local="it writes files and needs no store",
    ),
    Verb(
        "worker",
        "Run the tasks of a queue",
        "holdfast.cli.worker.command:worker",
        (
            "holdfast worker myapp:queue",
            "holdfast worker myapp:queue --processes 4 --queues mail",
            "holdfast worker myapp:queue --metrics-port 9100",
        ),
        Kind.RUN,
    ),
    Verb(
        "metrics",
        "Serve the metrics of a store to Prometheus",
        f"{HERE}.metrics:metrics",
        (
            "holdfast metrics --port 9100",
            "holdfast metrics --url postgresql://localhost/app --host 0.0.0.0",
        ),
        Kind.RUN,
        local="it reads a store: a gateway has /metrics itself",
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
        Kind.RUN,
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
        Kind.RUN,
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
        Kind.RUN,
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
        Kind.RUN,
        local="it runs in virtual time, without a store",
    ),
)
